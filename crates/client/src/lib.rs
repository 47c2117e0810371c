//! The caller's side of rate limits.
//!
//! - `Client` checks requests with a Tollgate server, over HTTP (feature `http`, the default) or gRPC (feature
//!   `grpc`). Without the server, the failure policy that you chose decides in time.
//! - `backoff` (feature `tower`) is for calls to any service: it waits as the service asks, and retries what may be
//!   retried, within a budget.
//!
//! Everything here needs a Tokio runtime with time enabled; a client also needs input and output.
#![forbid(unsafe_code)]

#[cfg(feature = "tower")]
pub mod backoff;
#[cfg(any(feature = "http", feature = "grpc"))]
mod client;
#[cfg(feature = "tower")]
mod clock;

#[cfg(any(feature = "http", feature = "grpc"))]
pub use client::{
    Batched, BuildError, CertificateProblem, Check, Client, ClientBuilder, ConnectionFailure,
    Decision, Error, KeyType, OnFailure, Reason, RefusalKind, RuleQuota, RuleResult, Source, State,
};

/// The snippets of the guide, so that they keep compiling.
#[cfg(all(doctest, feature = "http", feature = "grpc", feature = "tower"))]
#[doc = include_str!("../../../docs/client.md")]
struct Guide;
