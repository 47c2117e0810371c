//! The protocols a server can be asked in. Both give the same answers.

use std::pin::Pin;
use std::sync::Arc;

use super::check::Check;
use super::error::Error;
#[cfg(feature = "grpc")]
use super::over_grpc::Grpc;
#[cfg(feature = "http")]
use super::over_http::Http;
use super::verdict::Verdict;

/// The answers to a batch, in its order.
pub(super) type Verdicts = Vec<Result<Verdict, Error>>;

/// A call in the making. It borrows nothing, so that it can outlive whoever waits for it; and it is on
/// the heap, because it is large and whoever asks moves what it awaits.
pub(super) type Call<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A way to ask a server. Clones share their connections.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    #[cfg(feature = "http")]
    Http(Arc<Http>),
    #[cfg(feature = "grpc")]
    Grpc(Arc<Grpc>),
}

impl Transport {
    pub(super) fn check(&self, check: &Check) -> Call<Verdict> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).check(check),
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).check(check),
        }
    }

    pub(super) fn check_batch(&self, checks: &[Check]) -> Call<Verdicts> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).check_batch(checks),
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).check_batch(checks),
        }
    }

    pub(super) fn peek(&self, check: &Check) -> Call<Verdict> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => Arc::clone(http).peek(check),
            // A check that costs nothing is a look.
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => Arc::clone(grpc).check(check),
        }
    }

    #[cfg(feature = "http")]
    pub(super) fn refund(&self, decision_id: &str) -> Call<u64> {
        match self {
            Self::Http(http) => Arc::clone(http).refund(decision_id),
            #[cfg(feature = "grpc")]
            Self::Grpc(_) => Box::pin(async { Err(Error::Unsupported { call: "refund" }) }),
        }
    }
}
