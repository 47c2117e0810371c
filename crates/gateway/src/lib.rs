//! Forwards HTTP requests to services behind: a reverse proxy as a tower service.
//!
//! A [`Forwarder`] takes a request that somebody else has judged, finds its upstream, and passes both
//! bodies on piece by piece. It knows nothing of rate limits and of listeners: whoever accepts
//! connections puts the [`ClientAddress`] into the extensions of a request, and the [`OriginalClient`] if a
//! proxy is in between.
//!
//! What can be asked twice without harm is asked once more if a connection that had waited for its
//! next request turns out to be closed; nothing else is ever sent twice.
#![forbid(unsafe_code)]

mod allowance;
mod config;
mod connect;
mod counts;
mod download;
mod exchange;
mod failure;
mod fields;
mod forwarded;
mod forwarder;
mod guard;
mod patience;
mod pool;
mod request;
mod routes;
mod share;
mod trailers;
mod tunnel;
mod upload;
mod upload_timer;
mod upstream;
mod url;

pub use config::{GatewayConfig, HostField, Timeouts, share_of};
pub use connect::TrustError;
pub use counts::{Counts, Readings};
pub use download::Download;
pub use failure::Failure;
pub use forwarder::{ClientAddress, Forwarder, FromUpstream, OriginalClient, ResponseFuture};
pub use routes::{HostPattern, PathPattern, Route};
pub use tunnel::Tunnels;
pub use url::UpstreamUrl;

/// Whatever a body can fail with.
type BodyError = Box<dyn std::error::Error + Send + Sync>;
