//! Connections to a server: how they are made and kept, which certificates they trust, and why they fail.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig, RootCertStore, crypto::aws_lc_rs};

use super::builder::BuildError;
use super::error::{CertificateProblem, ConnectionFailure, Error};

/// Shorter than the keep-alive of servers: a connection that the server closes while a request is on its way loses
/// the request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// An HTTP/2 connection without a response to its ping is replaced, so that no call waits on it.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes connections.
pub(super) type Connector = HttpsConnector<HttpConnector>;

/// A pool of connections that carry bodies of this kind.
pub(super) type HttpPool<B> = Client<Connector, B>;

/// Certificates and keys in PEM.
#[derive(Clone, Default)]
pub(super) struct ClientTlsFiles {
    /// The authorities to trust, instead of those of the system.
    pub(super) authority: Option<Vec<u8>>,
    /// The chain and the key of this client.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl ClientTlsFiles {
    /// The TLS configuration. Without https nothing is read.
    pub(super) fn config(&self, is_https: bool) -> Result<ClientConfig, BuildError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BuildError::Tls(format!("cannot speak TLS: {error}")))?;
        if !is_https {
            let builder = builder.with_root_certificates(RootCertStore::empty());
            return Ok(builder.with_no_client_auth());
        }
        let builder = match &self.authority {
            Some(pem) => builder.with_root_certificates(roots(pem)?),
            None => builder.with_native_roots().map_err(|error| {
                let advice = "give the certificate of the server's authority";
                BuildError::Tls(format!("the system trusts no certificates: {error}; {advice}"))
            })?,
        };
        let Some((chain, key)) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        // The error must not repeat any of the key.
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            BuildError::Certificate("its key is no private key in PEM format".to_owned())
        })?;
        let chain = certificates(chain).map_err(BuildError::Certificate)?;
        builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| BuildError::Certificate(error.to_string()))
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, BuildError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(BuildError::Authority)? {
        roots.add(certificate).map_err(|error| BuildError::Authority(error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err("it holds no certificate in PEM format".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Makes plain and encrypted connections with these TLS settings, for both versions of HTTP or for
/// HTTP/2 alone.
pub(super) fn connector(settings: ClientConfig, only_http2: bool) -> Connector {
    let mut tcp = HttpConnector::new();
    // Requests are written whole: waiting for more to send with them only costs time.
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let builder = HttpsConnectorBuilder::new().with_tls_config(settings).https_or_http();
    if only_http2 {
        builder.enable_http2().wrap_connector(tcp)
    } else {
        builder.enable_http1().enable_http2().wrap_connector(tcp)
    }
}

/// What all pools have in common.
pub(super) fn pool() -> Builder {
    let mut pool = Client::builder(TokioExecutor::new());
    pool.pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT);
    pool
}

/// Why a call to this server has no response, from an error of the connection.
pub(super) fn unreachable(server: &str, error: &(dyn StdError + 'static)) -> Error {
    let is_connect = chain(error)
        .filter_map(|error| error.downcast_ref::<hyper_util::client::legacy::Error>())
        .any(hyper_util::client::legacy::Error::is_connect);
    let cause = chain(error).last().unwrap_or(error);
    let failure = match cause.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InvalidCertificate(flaw)) if is_connect => {
            ConnectionFailure::Certificate(certificate_problem(flaw))
        }
        Some(_) if is_connect => ConnectionFailure::Tls,
        _ if is_connect => ConnectionFailure::Connect,
        _ => ConnectionFailure::Disconnected,
    };
    let reason = match cause.downcast_ref::<io::Error>() {
        // Without the number that the operating system has for it.
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        _ => cause.to_string(),
    };
    Error::Unreachable { server: server.to_owned(), failure, reason }
}

/// An error and what caused it, down to the first cause.
fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An `io::Error` does not count the error it wraps as its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| error.source())
    })
}

fn certificate_problem(flaw: &CertificateError) -> CertificateProblem {
    match flaw {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            CertificateProblem::UnknownIssuer
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateProblem::WrongName
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateProblem::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateProblem::NotYetValid
        }
        // An authority of the same name is trusted, but its key is of another kind.
        other if format!("{other:?}").contains("UnsupportedSignatureAlgorithmForPublicKey") => {
            CertificateProblem::UnknownIssuer
        }
        // The library has no variant for it.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            CertificateProblem::AuthorityCertificate
        }
        other => CertificateProblem::Other(other.to_string()),
    }
}
