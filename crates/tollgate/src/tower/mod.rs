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
//! A request is judged when it is passed on, not when the service is asked whether it is ready. What
//! is refused is answered here, and its body is not read: over HTTP with a status and a problem
//! document, over gRPC with a status of gRPC. What passes gets the header fields of its limits on the
//! way back.
//!
//! After the answer, what was charged is corrected: rules whose `refund_on` has its status get their
//! charge back, and a header `X-Request-Cost` of the response, which goes no further, says what the
//! request was worth in all.
//!
//! Requests that a rule delays are held here, which needs a tokio runtime with timers. So many at
//! most, as [`RateLimitLayer::hold_at_most`] says; one whose client leaves gives its place back.
//!
//! What was decided can be seen: [`RateLimitLayer::observe`] is for logs and metrics.

mod answer;
mod body;
mod caller;
mod gate;
mod grpc;
mod hold;
mod layer;
mod observed;
mod service;

pub use body::ResponseBody;
pub use layer::RateLimitLayer;
pub use observed::{NotJudged, Observed};
pub use service::{RateLimit, ResponseFuture};
