//! The client of a server: checks, decisions, and the failure policy.

mod address;
mod batched;
mod builder;
mod check;
mod connection;
mod decision;
mod detached;
mod error;
#[cfg(feature = "grpc")]
mod over_grpc;
#[cfg(feature = "http")]
mod over_http;
mod transport;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "http")]
use bytes::Bytes;
#[cfg(feature = "http")]
use http::{Request, Response};
use tokio::time::timeout;
pub use tollgate_api::{KeyType, Reason, RuleQuota, RuleResult, State};

pub use self::batched::Batched;
pub use self::builder::{BuildError, ClientBuilder, OnFailure};
pub use self::check::Check;
pub use self::decision::{Decision, Source};
use self::detached::DetachedCalls;
pub use self::error::{CertificateProblem, ConnectionFailure, Error, RefusalKind};
use self::transport::{Decisions, DetachedCall, Transport};

/// A client of a server. Clones share their connections.
///
/// A call that times out or is dropped goes on in the background for up to 3 seconds, so that its connection
/// serves the next one. Up to 64 calls do so at a time.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    server: Arc<str>,
    timeout: Duration,
    on_failure: OnFailure,
    detached: DetachedCalls,
}

impl Client {
    /// A client for the server at this address, like `http://127.0.0.1:8080`.
    pub fn builder(server: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(server.into())
    }

    /// The address of the server, without a slash at its end.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Checks a request and charges it. Without a response in time, the failure policy decides, and
    /// the decision says so.
    pub async fn check(&self, check: &Check) -> Decision {
        self.decision(self.try_check(check).await)
    }

    /// Checks a request and charges it, without the failure policy.
    ///
    /// # Errors
    /// Without a response in time, or if the server refuses the check.
    pub async fn try_check(&self, check: &Check) -> Result<Decision, Error> {
        check.validate()?;
        self.in_time(self.transport.check(check)).await
    }

    /// Checks many requests in one call, each by itself; the decisions are in the order of the
    /// checks. The failure policy decides about those without a response, all of them or one.
    pub async fn check_batch(&self, checks: &[Check]) -> Vec<Decision> {
        match self.try_check_batch(checks).await {
            Ok(results) => results.into_iter().map(|result| self.decision(result)).collect(),
            Err(error) => checks.iter().map(|_| self.decision(Err(error.clone()))).collect(),
        }
    }

    /// Checks many requests in one call, without the failure policy. Servers take up to 1,000 at once.
    ///
    /// # Errors
    /// Without a response in time, or if one of the checks is invalid; then none is charged. A
    /// check that turns out later to be impossible has an error in its place.
    pub async fn try_check_batch(&self, checks: &[Check]) -> Result<Decisions, Error> {
        if checks.is_empty() {
            return Ok(Vec::new());
        }
        checks.iter().try_for_each(Check::validate)?;
        let results = self.in_time(self.transport.check_batch(checks)).await?;
        if results.len() != checks.len() {
            let reason = format!("{} answers to {} checks", results.len(), checks.len());
            return Err(Error::Unreadable { server: self.server.to_string(), reason });
        }
        Ok(results)
    }

    /// Reads the counters of a request without charging it. It is allowed even if nothing is left,
    /// for it costs nothing: compare what remains with what you need.
    ///
    /// # Errors
    /// As of [`try_check`](Self::try_check).
    pub async fn peek(&self, check: &Check) -> Result<Decision, Error> {
        check.validate()?;
        self.in_time(self.transport.peek(&check.to_peek())).await
    }

    /// The largest cost that would still be admitted; none if no rule applies.
    ///
    /// # Errors
    /// As of [`try_check`](Self::try_check).
    pub async fn remaining(&self, check: &Check) -> Result<Option<u64>, Error> {
        Ok(self.peek(check).await?.remaining)
    }

    /// Refunds what a decision charged, once, and returns the number of counters. The token must be that
    /// of an operator. The server need not be the one that decided, if both count in one store and have one secret.
    ///
    /// # Errors
    /// As of [`try_check`](Self::try_check), and if the decision is unknown or was refunded before.
    pub async fn refund(&self, decision_id: &str) -> Result<u64, Error> {
        self.in_time(self.transport.refund(decision_id)).await
    }

    /// Any other call of the HTTP API. The URI of the request is a path, like `/api/v1/rules?limit=100`, and its body
    /// is JSON or empty; the client adds the address and the token. The response may have any status: that of
    /// an error has a [`ProblemBody`](tollgate_api::ProblemBody).
    ///
    /// # Errors
    /// Without a response in time. Over gRPC always [`Error::Unsupported`].
    #[cfg(feature = "http")]
    pub async fn call(&self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        self.in_time(self.transport.call(request)).await
    }

    /// A client that sends the checks of several tasks in one call, of up to `most` checks. A single check
    /// is sent at once. While a call is under way, others wait until it has its response, until there are
    /// `most`, or until one has waited for `linger`.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn batched(&self, most: usize, linger: Duration) -> Batched {
        Batched::start(self.clone(), most, linger)
    }

    fn decision(&self, result: Result<Decision, Error>) -> Decision {
        result.unwrap_or_else(|error| Decision::without_server(error, self.on_failure))
    }

    /// The result of a call, if it comes in time. If not, the call goes on in the background.
    async fn in_time<T: Send + 'static>(&self, call: DetachedCall<T>) -> Result<T, Error> {
        let result = timeout(self.timeout, self.detached.detach_on_drop(call)).await;
        result.unwrap_or_else(|_| Err(self.timed_out()))
    }

    fn timed_out(&self) -> Error {
        Error::TimedOut { server: self.server.to_string(), timeout: self.timeout }
    }
}
