//! The protocols a server can be asked in. Both give the same answers.

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

/// A way to ask a server. Clones share their connections.
#[derive(Clone, Debug)]
pub(super) enum Transport {
    #[cfg(feature = "http")]
    Http(Arc<Http>),
    #[cfg(feature = "grpc")]
    Grpc(Arc<Grpc>),
}

impl Transport {
    pub(super) async fn check(&self, check: &Check) -> Result<Verdict, Error> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => http.check(check).await,
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => grpc.check(check).await,
        }
    }

    pub(super) async fn check_batch(&self, checks: &[Check]) -> Result<Verdicts, Error> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => http.check_batch(checks).await,
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => grpc.check_batch(checks).await,
        }
    }

    pub(super) async fn peek(&self, check: &Check) -> Result<Verdict, Error> {
        match self {
            #[cfg(feature = "http")]
            Self::Http(http) => http.peek(check).await,
            // A check that costs nothing is a look.
            #[cfg(feature = "grpc")]
            Self::Grpc(grpc) => grpc.check(check).await,
        }
    }

    #[cfg(feature = "http")]
    pub(super) async fn refund(&self, decision_id: &str) -> Result<u64, Error> {
        match self {
            Self::Http(http) => http.refund(decision_id).await,
            #[cfg(feature = "grpc")]
            Self::Grpc(_) => Err(Error::Unsupported { call: "refund" }),
        }
    }
}
