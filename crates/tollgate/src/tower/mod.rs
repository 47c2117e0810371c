//! A limiter in front of any tower service over HTTP: axum, tonic, hyper, your own.
//!
//! ```
//! use std::net::SocketAddr;
//!
//! use axum::Router;
//! use axum::extract::ConnectInfo;
//! use axum::routing::get;
//! use tollgate::Limiter;
//! use tollgate::tower::RateLimitLayer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::from_text("rules: [{rule_id: per_address, limit: 5, window: 1s, identifier_type: ip}]")?;
//! let layer = RateLimitLayer::new(limiter)
//!     .client_address(|parts| Some(parts.extensions.get::<ConnectInfo<SocketAddr>>()?.ip()));
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(layer);
//! # Ok(())
//! # }
//! ```
//!
//! A request is checked when it is passed on, not in `poll_ready`. A refused request gets its response here, and its
//! body is not read: over HTTP a status and a problem document, over gRPC a gRPC status. The response to an allowed
//! request gets the header fields of its limits.
//!
//! After the response, the charge is corrected: rules whose `refund_on` has its status refund it, and a header
//! `X-Request-Cost` of the response, which is removed, is the final cost of the request.
//!
//! Requests that a rule delays wait here, which needs a tokio runtime with timers: as many at most as
//! [`RateLimitLayer::max_delayed`] sets. A client that disconnects frees its place.
//!
//! [`RateLimitLayer::observe`] shows decisions to logs and metrics.

mod body;
mod caller;
mod delay;
mod gate;
mod grpc;
mod layer;
mod observed;
mod response;
mod service;

pub use body::ResponseBody;
pub use layer::RateLimitLayer;
pub use observed::{NotChecked, Observed};
pub use service::{RateLimit, ResponseFuture};
