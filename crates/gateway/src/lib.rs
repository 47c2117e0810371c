//! Forwards HTTP requests to upstreams: a reverse proxy as a tower service.
//!
//! A [`Forwarder`] takes a request that has been checked, finds its upstream, and streams both bodies. It knows
//! nothing of rate limits and listeners: the listener puts the [`ClientAddress`] into the extensions of a request,
//! and the [`OriginalClient`] if a proxy is in between.
//!
//! An idempotent request without a body is retried if a keep-alive connection turns out to be closed; nothing else is
//! ever sent twice.
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

/// Any error of a body.
type BodyError = Box<dyn std::error::Error + Send + Sync>;
