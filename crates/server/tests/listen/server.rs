//! A listener with a small service behind it, and a gate that delays requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tollgate_server::listen::{Listener, Peer, Shutdown, ShutdownTrigger, Tls, serve};
use tollgate_server::settings::Limits;

/// Long enough for anything that should happen, even on a busy machine.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for something that should happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(WAIT_TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("{what}: it did not happen"))
}

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) trigger: ShutdownTrigger,
    pub(crate) shutdown: Shutdown,
    /// How many connections were cut off in the end.
    pub(crate) ended: JoinHandle<usize>,
    pub(crate) gate: Gate,
}

/// Requests to `/slow` notify `arrived` and wait for `open`.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) arrived: Arc<Notify>,
    pub(crate) open: Arc<Semaphore>,
}

impl Server {
    pub(crate) async fn start(limits: &Limits, tls: Option<Arc<Tls>>) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(address, tls, limits).await.expect("a port");
        let address = listener.address();
        let (trigger, shutdown) = Shutdown::new();
        let gate = Gate { arrived: Arc::new(Notify::new()), open: Arc::new(Semaphore::new(0)) };
        let at_gate = gate.clone();
        let service = move |request, peer| answer(request, peer, at_gate.clone());
        let ended = tokio::spawn(serve(listener, service, shutdown.clone()));
        Self { address, trigger, shutdown, ended, gate }
    }
}

/// Responds with what the service saw: the address of the peer, whether it had a certificate, and at
/// `/certificate` which.
async fn answer(request: Request<Incoming>, peer: Peer, gate: Gate) -> Response<Full<Bytes>> {
    if request.uri().path() == "/slow" {
        gate.arrived.notify_one();
        let _ = gate.open.acquire().await;
    }
    if request.uri().path() == "/certificate" {
        return Response::new(Full::from(format!("{:?}", peer.certificate)));
    }
    let seen = format!("{} {} {:?}", peer.address, peer.certificate.is_some(), request.version());
    Response::new(Full::from(seen))
}
