//! For outgoing calls to any service over HTTP: waits as the service asks, and retries what may be retried.
//!
//! ```
//! use std::time::Duration;
//! use tollgate_client::backoff::BackoffLayer;
//! use tower::ServiceBuilder;
//!
//! # async fn send(_: http::Request<String>) -> Result<http::Response<String>, std::io::Error> {
//! #     Ok(http::Response::new(String::new()))
//! # }
//! # let client = tower::service_fn(send);
//! let layer = BackoffLayer::new().attempts(4).total(Duration::from_secs(10));
//! let client = ServiceBuilder::new().layer(layer).service(client);
//! ```
//!
//! What a service asks is read from `Retry-After` (seconds or a date), `RateLimit` and its drafts,
//! and `X-RateLimit-Reset`. Nothing is sent before that time, to the same authority: neither what was
//! refused nor anything else. On top comes a random wait, so that callers do not return together.

mod budget;
mod call;
mod cooldown;
mod date;
mod fields;
mod jitter;
mod layer;
mod retry_after;
mod service;

pub use self::layer::{BackoffLayer, CloneBody, CopyBody, DuringCooldown};
pub use self::service::{Backoff, BackoffError};
