//! Connects to upstreams: TCP, TLS, and HTTP/1.1 or HTTP/2.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_rustls::ConfigBuilderExt as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tracing::debug;

use crate::max_streams::NotifyingExecutor;
use crate::pool::{Pool, UpstreamLease};
use crate::request_body::RequestBody;
use crate::upstream::ConnectionPreference;
use crate::url::{UpstreamProtocol, UpstreamUrl};

/// The largest response head, and the read buffer of bodies.
const BUFFER: usize = 64 * 1024;
/// The receive window of one HTTP/2 stream and of the connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Sends requests over one connection to an upstream.
#[derive(Debug)]
pub(crate) enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<RequestBody>),
    /// Many requests at a time.
    Http2(http2::SendRequest<RequestBody>),
}

/// Why the certificate authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRootsError(String);

impl fmt::Display for TlsRootsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsRootsError {}

/// The certificate authorities, for upstreams that speak TLS.
#[derive(Clone)]
pub(crate) struct TlsRoots {
    /// Offers HTTP/2 and HTTP/1.1.
    any: TlsConnector,
    /// Offers HTTP/1.1 only, which can be upgraded to other protocols.
    http1: TlsConnector,
}

impl fmt::Debug for TlsRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsRoots").finish_non_exhaustive()
    }
}

impl TlsRoots {
    /// Reads the authorities from a file, or those of the system.
    pub(crate) fn load(ca: Option<&Path>) -> Result<Self, TlsRootsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsRootsError(format!("TLS cannot be set up: {error}")))?;
        let builder = match ca {
            Some(file) => builder.with_root_certificates(read(file)?),
            None => builder.with_native_roots().map_err(|error| {
                TlsRootsError(format!(
                    "the system trusts no certificates: {error}; name the authority of the upstreams"
                ))
            })?,
        };
        let mut config = builder.with_no_client_auth();
        let with = |protocols: &[&str], config: &mut ClientConfig| {
            config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
            TlsConnector::from(Arc::new(config.clone()))
        };
        let http1 = with(&["http/1.1"], &mut config);
        Ok(Self { any: with(&["h2", "http/1.1"], &mut config), http1 })
    }
}

fn read(file: &Path) -> Result<RootCertStore, TlsRootsError> {
    let unusable = |why: &dyn fmt::Display| {
        TlsRootsError(format!("the authorities in {} cannot be used: {why}", file.display()))
    };
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unusable(&error))?;
    if certificates.is_empty() {
        return Err(unusable(&"there is no certificate in PEM format"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    Ok(roots)
}

/// Connects to an upstream, and shares the connection if it carries many requests at a time. Only HTTP/1.1 can be
/// upgraded to other protocols. The caller sets the timeout; `time` is divided among the addresses.
pub(crate) async fn connect(
    url: &UpstreamUrl,
    trust: Option<&TlsRoots>,
    preference: ConnectionPreference,
    pool: &Arc<Pool>,
    time: Duration,
) -> io::Result<UpstreamLease> {
    let addresses: Vec<SocketAddr> = lookup_host((url.host(), url.port())).await?.collect();
    let stream = connect_to_any(&addresses, time).await?;
    // Requests are written whole, so Nagle's algorithm would only delay them.
    stream.set_nodelay(true)?;
    match (url.protocol(), trust) {
        (UpstreamProtocol::Plain, _) => over_http1(stream).await,
        (UpstreamProtocol::PlainHttp2, _) => over_http2(stream, preference, pool).await,
        (UpstreamProtocol::Tls, None) => {
            Err(io::Error::other("no authorities to check certificates by"))
        }
        (UpstreamProtocol::Tls, Some(trust)) => {
            let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
            let connector = if preference == ConnectionPreference::ToUpgrade {
                &trust.http1
            } else {
                &trust.any
            };
            let stream = connector.connect(name, stream).await?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            if is_http2 {
                over_http2(stream, preference, pool).await
            } else {
                over_http1(stream).await
            }
        }
    }
}

/// Connects to the first of several addresses that accepts. Each gets a part of the time, so that one that drops
/// packets does not keep the others from being tried.
async fn connect_to_any(addresses: &[SocketAddr], time: Duration) -> io::Result<TcpStream> {
    let Some((last, others)) = addresses.split_last() else {
        return Err(io::Error::other("its host name has no address"));
    };
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in others {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => {
                debug!(%address, %error, "cannot connect to an address of an upstream");
            }
            Err(_) => debug!(%address, "connecting to an address of an upstream timed out"),
        }
    }
    TcpStream::connect(last).await
}

async fn over_http1<S>(stream: S) -> io::Result<UpstreamLease>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.max_buf_size(BUFFER);
    let (sender, connection) =
        http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!(%error, "connection to an upstream ended");
        }
    });
    Ok(UpstreamLease { sender: Sender::Http1(sender), is_reused: false, stream: None })
}

async fn over_http2<S>(
    stream: S,
    preference: ConnectionPreference,
    pool: &Arc<Pool>,
) -> io::Result<UpstreamLease>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let hearing = NotifyingExecutor::default();
    let mut http = http2::Builder::new(hearing.clone());
    http.timer(TokioTimer::new())
        .initial_max_send_streams(0)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(BUFFER)
        .max_header_list_size(BUFFER as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let (sender, mut connection) =
        http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let max_streams = hearing.first_settings(&mut connection).await?;
    let lease = match preference {
        ConnectionPreference::Own => UpstreamLease::unshared(sender),
        _ => pool.share(sender, max_streams.clone()),
    };
    let pool = Arc::downgrade(pool);
    tokio::spawn(async move {
        if let Err(error) = max_streams.follow(connection).await {
            debug!(%error, "connection to an upstream ended");
        }
        // It must not keep the queue of this connection, in which a request may be left.
        if let Some(pool) = pool.upgrade() {
            pool.forget_closed();
        }
    });
    Ok(lease)
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    /// A listener whose backlog is full: further connections are never accepted.
    async fn black_hole() -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(1).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut queue = Vec::new();
        let moment = Duration::from_millis(200);
        while let Ok(stream) = timeout(moment, TcpStream::connect(address)).await {
            queue.push(stream.expect("a connection"));
        }
        (listener, queue)
    }

    #[tokio::test]
    async fn an_address_that_swallows_everything_leaves_time_for_the_next() {
        let (hole, _queue) = black_hole().await;
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let alive = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let [hole, dead, alive_at] =
            [&hole, &closed, &alive].map(|it| it.local_addr().expect("an address"));
        drop(closed);
        let time = Duration::from_secs(2);
        let connected = timeout(time, connect_to_any(&[hole, dead, alive_at], time)).await;
        let stream = connected.expect("in time").expect("a connection");
        assert_eq!(stream.peer_addr().expect("an address"), alive_at);
        let refused = connect_to_any(&[hole, dead], time).await.expect_err("no listener");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect_to_any(&[], time).await.is_err());
    }
}
