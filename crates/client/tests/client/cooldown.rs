//! The layer for outgoing calls understands what the server itself says in its header fields.

use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tollgate_client::backoff::{BackoffError, BackoffLayer, DuringCooldown};
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::server::Server;

#[tokio::test]
async fn nothing_is_sent_after_the_last_request_that_passes() {
    let server = Server::start();
    let http = Client::builder(TokioExecutor::new()).build_http::<Empty<&[u8]>>();
    let mut client = BackoffLayer::new().during_cooldown(DuringCooldown::Fail).layer(http);
    let uri = format!("http://{}/api/v1/rate-limit/authorize/orders", server.http);
    // The limit of this address is two.
    for left in ["1", "0"] {
        let request = Request::get(&uri).body(Empty::new()).expect("a request");
        let response = client.ready().await.expect("ready").call(request).await;
        let response = response.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["x-ratelimit-remaining"], left);
    }
    let sent = server.metric("tollgate_http_responses_total");
    let request = Request::get(&uri).body(Empty::new()).expect("a request");
    match client.ready().await.expect("ready").call(request).await {
        Err(BackoffError::CoolingDown { authority, wait }) => {
            assert_eq!(authority, server.http.to_string());
            // One of two is back after half an hour.
            assert!((1_780..=1_800).contains(&wait.as_secs()), "{wait:?}");
        }
        other => panic!("{other:?}"),
    }
    // Reading the metrics is one of the calls.
    assert_eq!(server.metric("tollgate_http_responses_total"), sent + 1);
}
