//! Connections to a server: how they are made and kept, whom they believe, and why they fail.

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
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};

use super::builder::BuildError;

/// Connections are given up before a server does so: one that is closed while a request is on its way
/// loses it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// An HTTP/2 connection that does not answer to this is replaced, so that no call waits on it.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes connections.
pub(super) type Connector = HttpsConnector<HttpConnector>;

/// A pool of connections that carry bodies of this kind.
pub(super) type Pool<B> = Client<Connector, B>;

/// Whom a client believes, and who it is, all in PEM.
#[derive(Clone, Default)]
pub(super) struct Trust {
    /// Those who may vouch for the server; else those that the system trusts.
    pub(super) authority: Option<Vec<u8>>,
    /// The chain and the key that the server knows this client by.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Trust {
    /// The TLS settings. Nothing is read where no TLS is spoken.
    pub(super) fn settings(&self, is_https: bool) -> Result<ClientConfig, BuildError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| BuildError::new(format!("cannot speak TLS: {error}")))?;
        if !is_https {
            let nobody = builder.with_root_certificates(RootCertStore::empty());
            return Ok(nobody.with_no_client_auth());
        }
        let builder = match &self.authority {
            Some(pem) => builder.with_root_certificates(roots(pem)?),
            None => builder.with_native_roots().map_err(|error| {
                let advice = "give the certificate of the server's authority";
                BuildError::new(format!("the system trusts no certificates: {error}; {advice}"))
            })?,
        };
        let Some((chain, key)) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        // What is wrong with a key is said without showing any of it.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| BuildError::new("the client's key is no private key in PEM format"))?;
        let chain = certificates(chain, "the client's certificate")?;
        builder.with_client_auth_cert(chain, key).map_err(|error| {
            BuildError::new(format!("cannot use the client's certificate with its key: {error}"))
        })
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, BuildError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "the certificate of the server's authority")? {
        roots.add(certificate).map_err(|error| {
            BuildError::new(format!("cannot trust the server's authority: {error}"))
        })?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], whose: &str) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(BuildError::new(format!("{whose} is not in PEM format"))),
        Err(error) => Err(BuildError::new(format!("cannot read {whose}: {error}"))),
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

/// The first cause of an error in words, without the number that the operating system has for it.
pub(super) fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut cause = error;
    loop {
        // An error wrapped for input and output does not count as its own source.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner.map(|inner| inner as &(dyn StdError + 'static)).or_else(|| cause.source()) {
            Some(deeper) => cause = deeper,
            None => break,
        }
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        _ => cause.to_string(),
    }
}
