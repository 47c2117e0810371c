//! How a client is put together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::Client;
use super::address::ServerAddress;
use super::connection::ClientTlsFiles;
use super::detached::DetachedCalls;
#[cfg(feature = "grpc")]
use super::over_grpc::Grpc;
#[cfg(feature = "http")]
use super::over_http::Http;
use super::transport::Transport;

/// The caller waits for the response, so the default is short.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(100);

/// What is decided about a request without the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It passes: better unlimited than down.
    #[default]
    Open,
    /// It is refused: better down than unlimited.
    Closed,
}

/// Which protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    #[cfg(feature = "http")]
    Http,
    #[cfg(feature = "grpc")]
    Grpc,
}

/// The settings of a client. Made by [`Client::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until a client is built"]
pub struct ClientBuilder {
    server: String,
    token: Option<String>,
    timeout: Duration,
    on_failure: OnFailure,
    tls: ClientTlsFiles,
    protocol: Protocol,
}

/// Why a client cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The address cannot be used.
    Address(String),
    /// The token cannot be sent.
    Token(String),
    /// The certificates of the authorities to trust cannot be used.
    Authority(String),
    /// The certificate or the key of the client cannot be used.
    Certificate(String),
    /// TLS cannot be used at all.
    Tls(String),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority(why) => write!(f, "cannot trust the server's authority: {why}"),
            Self::Certificate(why) => write!(f, "cannot use the client's certificate: {why}"),
            Self::Address(why) | Self::Token(why) | Self::Tls(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BuildError {}

impl ClientBuilder {
    pub(super) fn new(server: String) -> Self {
        #[cfg(feature = "http")]
        let protocol = Protocol::Http;
        #[cfg(not(feature = "http"))]
        let protocol = Protocol::Grpc;
        Self {
            server,
            token: None,
            timeout: DEFAULT_TIMEOUT,
            on_failure: OnFailure::default(),
            tls: ClientTlsFiles::default(),
            protocol,
        }
    }

    /// Speaks gRPC. The address is then that of the server's gRPC port.
    #[cfg(feature = "grpc")]
    pub fn grpc(mut self) -> Self {
        self.protocol = Protocol::Grpc;
        self
    }

    /// Sends this token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long a call may take, connecting included: 100 ms by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What is decided about a request without the server: it passes by default.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Trusts servers with a certificate of this authority, instead of the system's authorities. A certificate in
    /// PEM, or several.
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.authority = Some(pem.into());
        self
    }

    /// Sends a certificate to servers that require one from their clients: the chain and its key, in PEM.
    pub fn certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.identity = Some((chain.into(), key.into()));
        self
    }

    /// Builds the client. It connects with its first call.
    ///
    /// # Errors
    /// If the address, the token or a certificate cannot be used.
    pub fn build(self) -> Result<Client, BuildError> {
        let address = ServerAddress::parse(&self.server)?;
        let authorization = self.token.as_deref().map(bearer).transpose()?;
        let tls = self.tls.config(address.is_https())?;
        let transport = match self.protocol {
            #[cfg(feature = "http")]
            Protocol::Http => {
                Transport::Http(Arc::new(Http::new(address.clone(), authorization, tls)?))
            }
            #[cfg(feature = "grpc")]
            Protocol::Grpc => Transport::Grpc(Arc::new(Grpc::new(&address, authorization, tls)?)),
        };
        Ok(Client {
            transport,
            server: address.to_string().into(),
            timeout: self.timeout,
            on_failure: self.on_failure,
            detached: DetachedCalls::new(),
        })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may hold a password until it is checked.
        f.debug_struct("ClientBuilder")
            .field("timeout", &self.timeout)
            .field("on_failure", &self.on_failure)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, BuildError> {
    let is_visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = is_visible.then(|| HeaderValue::try_from(format!("Bearer {token}")));
    let Some(Ok(mut value)) = value else {
        let why = "the token is empty, or has characters other than visible ASCII";
        return Err(BuildError::Token(why.to_owned()));
    };
    value.set_sensitive(true);
    Ok(value)
}
