//! An axum service behind a limiter, on its own socket, and a client of it.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Path};
use axum::http::StatusCode;
use axum::routing::{any, get};
use axum::{Router, body::Body};
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tollgate::identity::Identity;
use tollgate::tower::RateLimitLayer;
use tollgate::{Limiter, ManualClock, MemoryStore, Store};

use crate::tower::MIDNIGHT;
use crate::tower::scene::parse;

/// A limiter whose clock stands still at midnight.
pub(crate) fn limiter(policy: &str) -> Limiter<MemoryStore, ManualClock> {
    Limiter::builder().policy(parse(policy)).clock(ManualClock::at(MIDNIGHT)).build()
}

/// A layer that trusts a header for the user, which only tests may do.
pub(crate) fn layer<S: Store>(limiter: Limiter<S, ManualClock>) -> RateLimitLayer<S, ManualClock> {
    RateLimitLayer::new(limiter).client_address(peer).identify_with(|parts| Identity {
        user_id: parts.headers.get("x-user").and_then(|user| Some(user.to_str().ok()?.to_owned())),
        ..Identity::default()
    })
}

pub(crate) fn peer(parts: &Parts) -> Option<IpAddr> {
    Some(parts.extensions.get::<ConnectInfo<SocketAddr>>()?.ip())
}

/// A running service. It ends when this is dropped.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    client: Client<HttpConnector, Body>,
    server: AbortHandle,
}

impl Site {
    /// `/status/N` responds with that status, `/price/N` with a price, and everything else with 200.
    pub(crate) async fn start<S: Store + 'static>(layer: &RateLimitLayer<S, ManualClock>) -> Self {
        let routes = Router::new()
            .route("/status/{status}", get(status))
            .route("/price/{price}", get(price))
            .route("/price/{price}/{status}", get(price_and_status))
            .fallback(any(|| async { "passed" }));
        let service =
            routes.layer(layer.clone()).into_make_service_with_connect_info::<SocketAddr>();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tokio::spawn(axum::serve(listener, service).into_future()).abort_handle();
        Self { address, client: Client::builder(TokioExecutor::new()).build_http(), server }
    }

    /// Sends a request: `POST /orders x-user=u1`. Method and path may be left out.
    pub(crate) async fn ask(&self, text: &str) -> Answer {
        let is_path = |word: &&str| word.starts_with('/');
        let path = text.split_whitespace().find(is_path).unwrap_or("/");
        let mut request = Request::builder().uri(format!("http://{}{path}", self.address));
        for word in text.split_whitespace().filter(|word| !is_path(word)) {
            request = match word.split_once('=') {
                Some((name, value)) => request.header(name, value),
                None => request.method(word),
            };
        }
        let request = request.body(Body::empty()).expect("a request");
        let response = self.client.request(request).await.expect("an answer");
        Answer::read(response.map(Body::new)).await
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn status(Path(status): Path<u16>) -> StatusCode {
    StatusCode::from_u16(status).expect("a status")
}

async fn price(Path(price): Path<String>) -> [(&'static str, String); 1] {
    [("x-request-cost", price)]
}

async fn price_and_status(
    Path((price, status)): Path<(String, u16)>,
) -> (StatusCode, [(&'static str, String); 1]) {
    (StatusCode::from_u16(status).expect("a status"), [("x-request-cost", price)])
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read<B: http_body::Body<Error: std::fmt::Debug>>(
        response: Response<B>,
    ) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let body = String::from_utf8(body.into()).expect("a text");
        Self { status: parts.status.as_u16(), fields: parts.headers, body }
    }

    /// Status and fields, but only those that the expectation names.
    pub(crate) fn looked_at(&self, expected: &str) -> String {
        let mut seen = self.status.to_string();
        for word in expected.split_whitespace().skip(1) {
            let name = word.split_once('=').map_or(word, |(name, _)| name);
            let value = self.fields.get(name).map_or("-", |value| value.to_str().expect("a text"));
            seen += &format!(" {name}={value}");
        }
        seen
    }
}
