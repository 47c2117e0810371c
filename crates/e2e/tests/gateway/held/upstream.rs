//! An upstream that records when each request came.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tollgate::Stopwatch;

/// Paths and times, in order.
type Came = Arc<Mutex<Vec<(String, Duration)>>>;

/// Runs until it is dropped.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    came: Came,
    _runtime: Runtime,
}

impl Upstream {
    pub(super) fn start(stopwatch: Stopwatch) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let came = Came::default();
        let list = Arc::clone(&came);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let list = Arc::clone(&list);
                let service = service_fn(move |request: Request<Incoming>| {
                    let path = request.uri().path().to_owned();
                    let mut list = list.lock().expect("a lock");
                    list.push((path, stopwatch.elapsed()));
                    async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
                });
                // An error of the connection is its end.
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, came, _runtime: runtime }
    }

    /// The requests whose paths begin like that, in the order in which they came.
    pub(super) fn came(&self, group: &str) -> Vec<(String, Duration)> {
        let came = self.came.lock().expect("a lock");
        came.iter().filter(|(path, _)| path.starts_with(group)).cloned().collect()
    }
}
