//! The caller's side of rate limits.
//!
//! - `Client` asks a Tollgate server whether a request may pass, over HTTP (feature `http`, the
//!   default) or gRPC (feature `grpc`). When the server is away, the answer is what you chose for
//!   that case, in time.
//! - `backoff` (feature `tower`) is for calls to anybody's service: it waits as the service asks,
//!   and repeats what may be repeated, within a budget.
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
    Batched, BuildError, Check, Client, ClientBuilder, Error, KeyType, OnFailure, Reason,
    RefusalKind, Source, State, Verdict,
};

/// The snippets of the guide, so that they keep compiling.
#[cfg(all(doctest, feature = "http", feature = "grpc", feature = "tower"))]
#[doc = include_str!("../../../docs/client.md")]
struct Guide;
