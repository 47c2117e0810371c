//! Connections to upstreams: TCP, TLS, and the HTTP that both sides agree upon.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_rustls::ConfigBuilderExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tracing::debug;

use crate::pool::Pool;
use crate::upload::Upload;
use crate::url::{Protocol, UpstreamUrl};

/// The largest head of an answer, and what is read of a body at once.
const BUFFER: usize = 64 * 1024;
/// What an upstream may send before it is read, on one stream of HTTP/2 and on all of them together.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// A way to send requests to an upstream.
#[derive(Debug)]
pub(crate) enum Line {
    /// One request at a time.
    Http1(http1::SendRequest<Upload>),
    /// Many at a time.
    Http2(http2::SendRequest<Upload>),
}

/// Why nobody's certificates can be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustError(String);

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TrustError {}

/// Whom to believe, for upstreams that speak TLS.
#[derive(Clone)]
pub(crate) struct Trust {
    /// Either HTTP is fine.
    any: TlsConnector,
    /// HTTP/1.1 only, which can be upgraded to other protocols.
    http1: TlsConnector,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Reads the file of authorities, or those of the system.
    pub(crate) fn load(ca: Option<&Path>) -> Result<Self, TrustError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TrustError(format!("TLS cannot be set up: {error}")))?;
        let builder = match ca {
            Some(file) => builder.with_root_certificates(read(file)?),
            None => builder.with_native_roots().map_err(|error| {
                TrustError(format!(
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

fn read(file: &Path) -> Result<RootCertStore, TrustError> {
    let unusable = |why: &dyn fmt::Display| {
        TrustError(format!("the authorities in {} cannot be used: {why}", file.display()))
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

/// Connects to an upstream. Only HTTP/1.1 can be upgraded to other protocols.
pub(crate) async fn connect(
    url: &UpstreamUrl,
    trust: Option<&Trust>,
    is_to_upgrade: bool,
    pool: &Arc<Pool>,
) -> io::Result<Line> {
    let stream = TcpStream::connect((url.host(), url.port())).await?;
    // Requests are written whole: waiting for more to send with them only costs time.
    stream.set_nodelay(true)?;
    match (url.protocol(), trust) {
        (Protocol::Plain, _) => over_http1(stream).await,
        (Protocol::PlainHttp2, _) => over_http2(stream, pool).await,
        (Protocol::Tls, None) => Err(io::Error::other("no authorities to check certificates by")),
        (Protocol::Tls, Some(trust)) => {
            let name = ServerName::try_from(url.host().to_owned()).map_err(io::Error::other)?;
            let connector = if is_to_upgrade { &trust.http1 } else { &trust.any };
            let stream = connector.connect(name, stream).await?;
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            if is_http2 { over_http2(stream, pool).await } else { over_http1(stream).await }
        }
    }
}

async fn over_http1<S>(stream: S) -> io::Result<Line>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.max_buf_size(BUFFER);
    let (line, connection) =
        http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!(%error, "connection to an upstream ended");
        }
    });
    Ok(Line::Http1(line))
}

async fn over_http2<S>(stream: S, pool: &Arc<Pool>) -> io::Result<Line>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(BUFFER)
        .max_header_list_size(BUFFER as u32)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let (line, connection) =
        http.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let pool = Arc::downgrade(pool);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            debug!(%error, "connection to an upstream ended");
        }
        // It must not keep the queue of this connection, in which a request may be left.
        if let Some(pool) = pool.upgrade() {
            pool.forget_closed();
        }
    });
    Ok(Line::Http2(line))
}
