//! Forwards HTTP requests to upstreams: a reverse proxy as a tower service.
//!
//! A [`Forwarder`] takes a request that has been checked, finds its upstream, and streams both bodies. It knows
//! nothing of rate limits and listeners: the listener puts the [`ClientAddress`] into the extensions of a request,
//! and the [`OriginalClient`] if a proxy is in between.
//!
//! An idempotent request without a body is retried if a keep-alive connection turns out to be closed; nothing else is
//! ever sent twice.
#![forbid(unsafe_code)]

mod config;
mod connect;
mod counts;
mod exchange;
mod failure;
mod fields;
mod forwarded;
mod forwarder;
mod guard;
mod idle_timeout;
mod max_streams;
mod pool;
mod request_body;
mod request_head;
mod response_body;
mod routes;
mod share;
mod trailers;
mod tunnel;
mod upload_timer;
mod upstream;
mod url;

pub use config::{GatewayConfig, HostField, Timeouts, share_of};
pub use connect::TlsRootsError;
pub use counts::{GatewayCounts, Readings};
pub use failure::ForwardError;
pub use forwarder::{ClientAddress, Forwarder, FromUpstream, OriginalClient, ResponseFuture};
pub use response_body::ResponseBody;
pub use routes::{HostPattern, PathPattern, Route};
pub use tunnel::Tunnels;
pub use url::UpstreamUrl;

/// Any error of a body.
type BodyError = Box<dyn std::error::Error + Send + Sync>;
