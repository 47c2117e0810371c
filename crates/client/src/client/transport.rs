//! The protocols of the check API. Both give the same decisions.

use std::pin::Pin;
use std::sync::Arc;

#[cfg(feature = "http")]
use bytes::Bytes;
#[cfg(feature = "http")]
use http::{Request, Response};

use super::check::Check;
use super::decision::Decision;
use super::error::Error;
#[cfg(feature = "grpc")]
use super::over_grpc::Grpc;
#[cfg(feature = "http")]
use super::over_http::Http;

/// The decisions of a batch, in its order.
pub(super) type Decisions = Vec<Result<Decision, Error>>;

/// A call under way. It borrows nothing, so that it can be detached; and it is on the heap, because it is large and
/// futures are moved.
pub(super) type DetachedCall<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Clones share their connections.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    #[cfg(feature = "http")]
    Http(Arc<Http>),
    #[cfg(feature = "grpc")]
    Grpc(Arc<Grpc>),
}

impl Transport {
    pub(super) fn check(&self, check: &Check) -> DetachedCall<Decision> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).check(check),
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).check(check),
        }
    }

    pub(super) fn check_batch(&self, checks: &[Check]) -> DetachedCall<Decisions> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).check_batch(checks),
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).check_batch(checks),
        }
    }

    pub(super) fn peek(&self, check: &Check) -> DetachedCall<Decision> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).peek(check),
            // A check that costs nothing is a peek.
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).check(check),
        }
    }

    #[cfg(feature = "http")]
    pub(super) fn call(&self, request: Request<Bytes>) -> DetachedCall<Response<Bytes>> {
        match self {
            Self::Http(http) => Arc::clone(http).call(request),
            #[cfg(feature = "grpc")]
            Self::Grpc(_) => Box::pin(async { Err(Error::Unsupported { call: "call" }) }),
        }
    }

    pub(super) fn refund(&self, decision_id: &str) -> DetachedCall<u64> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).refund(decision_id),
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).refund(decision_id),
        }
    }
}
