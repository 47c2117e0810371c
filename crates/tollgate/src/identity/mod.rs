//! Identifies the client of an HTTP request, as far as that can be verified.
//!
//! An [`Extractor`] is made once from an [`IdentityConfig`] and turns the headers of a request and
//! the address of its peer into an [`Identity`]. It never fails: what cannot be verified is ignored,
//! and the address remains.
//!
//! | what | is accepted if |
//! |---|---|
//! | a forwarded address | the peer is a trusted proxy |
//! | an API key | it is known (or any key is to be taken as a name) |
//! | a signed token (feature `jwt`) | its signature, its times, its issuer and its audience are right |
//! | a tenant or tier in a header | the header is configured and the peer is a trusted proxy |
//!
//! An [`HttpRequest`] combines an identity and a request, so that a limiter can check it.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate::identity::{ApiKeys, Extractor, HttpRequest, IdentityConfig, KnownKey};
//! use tollgate::{Clock, Limiter, SystemClock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = IdentityConfig::default();
//! config.client_ip.trusted_proxies.push("10.0.0.0/8".parse()?);
//! config.api_key.accept = ApiKeys::Known(vec![KnownKey {
//!     owner: Some("alice".to_owned()),
//!     ..KnownKey::new("correct-horse-battery-staple".parse()?)
//! }]);
//! let extractor = Extractor::new(config)?;
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("x-api-key", "correct-horse-battery-staple".parse()?);
//! headers.insert("x-forwarded-for", "1.1.1.1, 203.0.113.9".parse()?);
//! let identity = extractor.identify(&headers, "10.0.0.7".parse()?, SystemClock.now()).await;
//! assert_eq!(identity.user_id.as_deref(), Some("alice"));
//! assert_eq!(identity.ip, "203.0.113.9"); // the client itself wrote the 1.1.1.1
//!
//! let limiter = Limiter::from_text("rules: [{rule_id: r, limit: 5, window: 1s, identifier_type: user_id}]")?;
//! let request = HttpRequest {
//!     identity: &identity,
//!     method: "GET",
//!     host: Some("api.example.com"),
//!     path: "/orders",
//!     headers: &headers,
//!     cost: 1,
//! };
//! assert_eq!(limiter.check(&request).await.remaining(), Some(4));
//! # Ok(())
//! # }
//! ```

mod address;
mod api_key;
mod claims;
mod client_ip;
#[cfg(feature = "jwt")]
mod compact;
mod credential_problem;
mod error;
mod extractor;
mod forwarded;
mod http_request;
#[cfg(feature = "jwt")]
mod jwks;
#[cfg(feature = "jwt")]
mod jwt;
#[cfg(feature = "jwt")]
mod keys;
#[cfg(feature = "jwt")]
mod pem;
#[cfg(feature = "jwt")]
mod remote;
mod secret;
mod token;

pub use address::address_text;
pub use api_key::{ApiKeyConfig, ApiKeys, KeyDigest, KnownKey};
pub use claims::Claims;
pub use client_ip::{ClientIpConfig, ForwardingHeader};
pub use credential_problem::{CredentialProblem, Unverified};
pub use error::IdentityError;
pub use extractor::{Extractor, Identity, IdentityConfig};
pub use http_request::HttpRequest;
#[cfg(feature = "jwt")]
pub use jwt::{JwtConfig, TokenKeys};
#[cfg(feature = "jwt")]
pub use keys::SigningAlgorithm;
#[cfg(feature = "jwt")]
pub use remote::JwksUrl;
pub use secret::Secret;
pub use token::{TokenProblem, TokenVerdict};
