//! How a client is put together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::Client;
use super::address::Address;
use super::connection::Trust;
use super::late::LateCalls;
#[cfg(feature = "grpc")]
use super::over_grpc::Grpc;
#[cfg(feature = "http")]
use super::over_http::Http;
use super::transport::Transport;

/// How long a server has to answer, unless told otherwise. Whoever asks waits for it.
const USUAL_TIMEOUT: Duration = Duration::from_millis(100);

/// What holds for a request when the server gives no verdict.
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

/// How to ask a server. Made by [`Client::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until a client is built"]
pub struct ClientBuilder {
    server: String,
    token: Option<String>,
    timeout: Duration,
    on_failure: OnFailure,
    trust: Trust,
    protocol: Protocol,
}

/// Why a client cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(String);

impl BuildError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
            timeout: USUAL_TIMEOUT,
            on_failure: OnFailure::default(),
            trust: Trust::default(),
            protocol,
        }
    }

    /// Speaks gRPC. The address is then that of the server's gRPC port.
    #[cfg(feature = "grpc")]
    pub fn grpc(mut self) -> Self {
        self.protocol = Protocol::Grpc;
        self
    }

    /// Shows this token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long the server has to answer, connecting included: 100 ms unless told otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What holds for a request when the server gives no verdict: it passes unless told otherwise.
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Believes servers that this authority vouches for, and no others. A certificate in PEM, or
    /// several.
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.trust.authority = Some(pem.into());
        self
    }

    /// Shows a certificate to servers that want one from their clients: the chain and its key, in PEM.
    pub fn certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.trust.identity = Some((chain.into(), key.into()));
        self
    }

    /// Builds the client. It connects when it is first asked.
    ///
    /// # Errors
    /// What cannot be used: the address, the token, or a certificate.
    pub fn build(self) -> Result<Client, BuildError> {
        let address = Address::parse(&self.server)?;
        let authorization = self.token.as_deref().map(bearer).transpose()?;
        let settings = self.trust.settings(address.is_https())?;
        let transport = match self.protocol {
            #[cfg(feature = "http")]
            Protocol::Http => {
                Transport::Http(Arc::new(Http::new(&address, authorization, settings)?))
            }
            #[cfg(feature = "grpc")]
            Protocol::Grpc => {
                Transport::Grpc(Arc::new(Grpc::new(&address, authorization, settings)?))
            }
        };
        Ok(Client {
            transport,
            server: address.to_string().into(),
            timeout: self.timeout,
            on_failure: self.on_failure,
            late: LateCalls::new(),
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
        return Err(BuildError::new(
            "the token is empty, or has characters other than visible ASCII",
        ));
    };
    value.set_sensitive(true);
    Ok(value)
}
