//! Many clients at once, each of which may disconnect before its response.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Requests of one connection of HTTP/2.
const STREAMS: usize = 50;
/// Requests come from as many clients: one may have a quarter of all places.
const CLIENTS: usize = 8;
/// A request that takes longer was forgotten.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// A request in flight, and its status in the end.
pub(super) type Waiting = JoinHandle<StatusCode>;

pub(super) struct Clients {
    runtime: Runtime,
    gateway: SocketAddr,
}

impl Clients {
    pub(super) fn new(gateway: SocketAddr) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { runtime: runtime.expect("a runtime"), gateway }
    }

    /// So many requests as streams of shared connections. Cancelling one resets its stream.
    pub(super) fn over_http2(&self, group: &str, requests: usize) -> Vec<Waiting> {
        let numbers: Vec<usize> = (0..requests).collect();
        let connections = numbers.chunks(STREAMS).map(|numbers| {
            let connected = self.runtime.block_on(async {
                http2::handshake(TokioExecutor::new(), connect(self.gateway).await).await
            });
            let (line, connection) = connected.expect("HTTP/2");
            self.runtime.spawn(connection);
            let send = |number| {
                let (mut line, request) = (line.clone(), self.request(group, number));
                self.runtime.spawn(async move {
                    loop {
                        line.ready().await.expect("a connection");
                        let answer = line.send_request(request.clone()).await.expect("an answer");
                        if answer.status() != StatusCode::TOO_MANY_REQUESTS {
                            return answer.status();
                        }
                    }
                })
            };
            numbers.iter().copied().map(send).collect::<Vec<_>>()
        });
        connections.flatten().collect()
    }

    /// So many requests, each on its own connection. Cancelling one closes it.
    pub(super) fn over_http1(&self, group: &str, requests: usize) -> Vec<Waiting> {
        let send = |number| {
            let (request, gateway) = (self.request(group, number), self.gateway);
            self.runtime.spawn(async move {
                let connected = http1::handshake(connect(gateway).await).await;
                let (mut line, connection) = connected.expect("HTTP/1.1");
                tokio::select! {
                    answer = line.send_request(request) => answer.expect("an answer").status(),
                    ended = connection => panic!("the connection ended: {ended:?}"),
                }
            })
        };
        (0..requests).map(send).collect()
    }

    fn request(&self, group: &str, number: usize) -> Request<Empty<Bytes>> {
        let request = Request::get(format!("http://{}{group}{number}", self.gateway));
        let request = request
            .header("host", self.gateway.to_string())
            .header("x-forwarded-for", format!("198.51.100.{}", number % CLIENTS));
        request.body(Empty::new()).expect("a request")
    }

    /// The status of the response to one request.
    pub(super) fn answer(&self, waiting: Waiting) -> StatusCode {
        let answer = self.runtime.block_on(async { timeout(RESPONSE_TIMEOUT, waiting).await });
        answer.expect("every request gets a response").expect("no panic")
    }
}

async fn connect(gateway: SocketAddr) -> TokioIo<TcpStream> {
    TokioIo::new(TcpStream::connect(gateway).await.expect("a connection"))
}
