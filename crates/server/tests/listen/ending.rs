//! Shutdown: requests in progress are finished, idle connections are closed, slow requests are cut off.

use std::time::Duration;

use http::Version;
use tokio::net::TcpStream;
use tollgate_server::settings::Limits;

use crate::client::{connect, get, read_answer, read_to_end, send};
use crate::server::{Server, soon};

#[tokio::test]
async fn requests_in_progress_are_finished() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let server = Server::start(&Limits::default(), None).await;
        let mut idle = connect(server.address).await;
        send(&mut idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        read_answer(&mut idle).await;
        let fresh = connect(server.address).await;
        let stream = connect(server.address).await;
        let slow = tokio::spawn(get(stream, version, "/slow"));
        soon("the request", server.gate.arrived.notified()).await;

        server.trigger.request();
        // Idle connections are closed while the request still runs.
        read_to_end(&mut idle).await;
        let refused = soon("the port to close", async {
            loop {
                match TcpStream::connect(server.address).await {
                    Err(error) => return error,
                    Ok(_) => tokio::task::yield_now().await,
                }
            }
        });
        assert_eq!(refused.await.kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(!server.ended.is_finished(), "a request is running");

        server.gate.open.add_permits(1);
        let (status, _) = soon("the answer", slow).await.expect("no panic").expect("an answer");
        assert_eq!(status, 200, "{version:?}");
        assert_eq!(soon("the end", server.ended).await.expect("no panic"), 0, "{version:?}");
        drop(fresh);
    }
}

#[tokio::test]
async fn requests_beyond_the_grace_are_cut_off_and_counted() {
    let limits = Limits { shutdown_grace: Duration::from_millis(50), ..Limits::default() };
    let server = Server::start(&limits, None).await;
    let mut stuck = Vec::new();
    for _ in 0..3 {
        let stream = connect(server.address).await;
        stuck.push(tokio::spawn(get(stream, Version::HTTP_11, "/slow")));
        soon("the request", server.gate.arrived.notified()).await;
    }
    server.trigger.request();
    assert_eq!(soon("the end", server.ended).await.expect("no panic"), 3);
    for request in stuck {
        assert!(soon("the cut", request).await.expect("no panic").is_err(), "no answer");
    }
}

#[tokio::test]
async fn dropping_the_trigger_ends_the_server() {
    let Server { trigger, ended, .. } = Server::start(&Limits::default(), None).await;
    drop(trigger);
    assert_eq!(soon("the end", ended).await.expect("no panic"), 0);
}
