//! Accepts connections, passes their requests to a service, and shuts down gracefully.
//!
//! Bounds what a client could take too much of: connections, of all clients and of one, the size of a
//! head and the time it takes, the time without a request. Requests and responses are not inspected.

mod activity;
mod certificate;
mod connection;
mod inline_executor;
mod plain_calls;
mod share;
mod shutdown;
mod socket;
mod stalled_stream;
mod tls;
mod transport;

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

pub(crate) use activity::ActivityCounter;
pub use certificate::CertificateDigest;
pub(crate) use plain_calls::{MAX_FIELDS, PlainCalls};
pub use shutdown::{Shutdown, ShutdownTrigger};
pub use tls::{Tls, TlsError};

use crate::settings::{Limits, ListenAddress};
use connection::ConnectionOptions;
use share::{ConnectionPermit, Shares};
use socket::Socket;

const MIN_ACCEPT_DELAY: Duration = Duration::from_millis(10);
const MAX_ACCEPT_DELAY: Duration = Duration::from_secs(1);

/// The client at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address; IPv4 is never written as IPv6.
    pub address: SocketAddr,
    /// The certificate it presented, if it presented one.
    pub certificate: Option<CertificateDigest>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
}

impl Peer {
    /// The peer of a request that did not arrive over a connection of a [`Listener`].
    pub const UNKNOWN: Self = Self {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        certificate: None,
        is_encrypted: false,
    };
}

/// An open port or Unix socket whose connections are not accepted yet.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    limits: Limits,
    is_joining: bool,
    plain_calls: Option<PlainCalls>,
}

impl Listener {
    /// Opens a port, of which 0 takes any free one, or a Unix socket. That is never encrypted: it does not leave the
    /// machine.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn bind(
        address: impl Into<ListenAddress>,
        tls: Option<Arc<Tls>>,
        limits: &Limits,
    ) -> Result<Self, BindError> {
        let address = address.into();
        let failed = |error| BindError { address: address.clone(), error };
        let (socket, tls) = match &address {
            ListenAddress::Tcp(address) => (TcpListener::bind(address).await.map(Socket::Tcp), tls),
            ListenAddress::Unix(path) => (Socket::bind_unix(path).await, None),
        };
        let socket = socket.map_err(failed)?;
        let address = socket.address().map_err(failed)?;
        let limits = limits.clone();
        Ok(Self { socket, address, tls, limits, is_joining: false, plain_calls: None })
    }

    /// Copies the body of a response behind its head and writes both as one, over HTTP/1.1. For small bodies this is
    /// cheaper than to write them as two parts.
    #[must_use]
    pub fn joining_responses(self) -> Self {
        Self { is_joining: true, ..self }
    }

    /// Responds to plain calls without the HTTP library, unless heads may not have as many fields as these.
    #[must_use]
    pub(crate) fn with_plain_calls(self, calls: Option<PlainCalls>) -> Self {
        let plain_calls = calls.filter(|_| self.limits.header_count >= MAX_FIELDS);
        Self { plain_calls, ..self }
    }

    /// The address it listens on, with the port that was assigned; for a Unix socket, that of its peers.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file of a Unix socket.
    #[must_use]
    pub fn unix_path(&self) -> Option<&Path> {
        self.socket.unix_path()
    }

    /// `https` if it is encrypted, else `http`.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Why a port or Unix socket cannot be opened.
#[derive(Debug)]
pub struct BindError {
    address: ListenAddress,
    error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: ", self.address)?;
        match self.error.kind() {
            ErrorKind::AddrInUse => f.write_str("another program listens there already"),
            ErrorKind::AddrNotAvailable => f.write_str("this machine has no such address"),
            ErrorKind::PermissionDenied => f.write_str("this user may not open that port"),
            _ => self.error.fmt(f),
        }
    }
}

impl Error for BindError {}

/// Serves a listener until shutdown is requested; then finishes requests in progress, for at most
/// `shutdown_grace`. Returns how many connections were cut off.
///
/// A response whose body pauses for longer than `idle_timeout` is cut off too, unless its connection has
/// other activity: event streams have to send something within that time. A response that its client
/// does not read for so long is cut off in any case.
pub async fn serve<S, F, B>(listener: Listener, service: S, shutdown: Shutdown) -> usize
where
    S: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static,
{
    let Listener { socket, tls, limits, is_joining, plain_calls, .. } = listener;
    let protocol = Arc::new(ConnectionOptions::new(&limits, tls, is_joining, plain_calls));
    let room = Arc::new(Semaphore::new(limits.connections));
    let shares = Shares::of(limits.connections);
    let mut connections = JoinSet::new();
    let mut pause = MIN_ACCEPT_DELAY;
    let mut asked_to_end = pin!(shutdown.requested());
    loop {
        // The permit comes first: without one, new connections wait in the queue of the operating
        // system.
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place.ok(), socket.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = asked_to_end.as_mut() => break,
            accepted = accepted => accepted,
        };
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, address)) => {
                pause = MIN_ACCEPT_DELAY;
                let address = SocketAddr::new(address.ip().to_canonical(), address.port());
                let peer = Peer { address, ..Peer::UNKNOWN };
                let Some(share) = shares.take(address.ip()) else {
                    debug!(peer = %address, "connection closed: its address has too many");
                    continue;
                };
                let (protocol, service) = (Arc::clone(&protocol), service.clone());
                let (shutdown, seat) = (shutdown.clone(), ConnectionPermit::new(place, share));
                connections.spawn(async move {
                    protocol.serve(stream, seat, peer, service, &shutdown).await;
                });
            }
            Err(error) if concerns_one_client(&error) => {}
            // Most likely no file handles are left. An immediate retry would only burn time.
            Err(error) => {
                if pause == MIN_ACCEPT_DELAY {
                    warn!(%error, "cannot accept connections for now");
                }
                tokio::select! {
                    () = asked_to_end.as_mut() => break,
                    () = sleep(pause) => pause = MAX_ACCEPT_DELAY.min(pause * 2),
                }
            }
        }
    }
    drop(socket);
    let finished = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(limits.shutdown_grace, finished).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    cut_off
}

/// Whether a client disconnected before it was accepted.
fn concerns_one_client(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
