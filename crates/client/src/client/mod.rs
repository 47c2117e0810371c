//! Asking a server: what is asked, what is answered, and what holds when nothing is.

mod address;
mod batched;
mod builder;
mod check;
mod connection;
mod error;
mod late;
#[cfg(feature = "grpc")]
mod over_grpc;
#[cfg(feature = "http")]
mod over_http;
mod transport;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

pub use self::batched::Batched;
pub use self::builder::{BuildError, ClientBuilder, OnFailure};
pub use self::check::{Check, KeyType};
pub use self::error::{Error, RefusalKind};
use self::late::LateCalls;
use self::transport::{Call, Transport, Verdicts};
pub use self::verdict::{Reason, Source, State, Verdict};

/// Asks a server. Clones share their connections.
///
/// A call that is late, or that nobody waits for any more, goes on in the background for up to 3
/// seconds, so that its connection serves the next one. Up to 64 calls do so at a time.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    server: Arc<str>,
    timeout: Duration,
    on_failure: OnFailure,
    late: LateCalls,
}

impl Client {
    /// A client for the server at this address, like `http://127.0.0.1:8080`.
    pub fn builder(server: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(server.into())
    }

    /// Judges a request and charges it. Without an answer in time, the failure policy decides, and
    /// the verdict says so.
    pub async fn check(&self, check: &Check) -> Verdict {
        self.verdict(self.try_check(check).await)
    }

    /// Judges a request and charges it, or says why not.
    ///
    /// # Errors
    /// Without an answer in time, or if the server does not judge such a check.
    pub async fn try_check(&self, check: &Check) -> Result<Verdict, Error> {
        check.validate()?;
        self.in_time(self.transport.check(check)).await
    }

    /// Judges many requests in one call, each on its own; the verdicts are in the order of the
    /// checks. What is without an answer, all of them or one, is decided by the failure policy.
    pub async fn check_batch(&self, checks: &[Check]) -> Vec<Verdict> {
        match self.try_check_batch(checks).await {
            Ok(results) => results.into_iter().map(|result| self.verdict(result)).collect(),
            Err(error) => checks.iter().map(|_| self.verdict(Err(error.clone()))).collect(),
        }
    }

    /// Judges many requests in one call, or says why not. Servers take up to 1,000 at once.
    ///
    /// # Errors
    /// Without an answer in time, or if one of the checks makes no sense; then none is charged. A
    /// check that turns out later to be impossible has an error in its place.
    pub async fn try_check_batch(&self, checks: &[Check]) -> Result<Verdicts, Error> {
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

    /// Looks at what a request would meet, without charging it. It is allowed even if nothing is left,
    /// for it costs nothing: compare what remains with what you need.
    ///
    /// # Errors
    /// As of [`try_check`](Self::try_check).
    pub async fn peek(&self, check: &Check) -> Result<Verdict, Error> {
        check.validate()?;
        self.in_time(self.transport.peek(&check.to_look())).await
    }

    /// The largest cost that would still be admitted; none if no rule applies.
    ///
    /// # Errors
    /// As of [`try_check`](Self::try_check).
    pub async fn remaining(&self, check: &Check) -> Result<Option<u64>, Error> {
        Ok(self.peek(check).await?.remaining)
    }

    /// Gives back what a decision charged, once, and says to how many counters. The token must be that
    /// of an operator, and the server the one that decided.
    ///
    /// # Errors
    /// As of [`try_check`](Self::try_check), and if the decision is not known or was given back before.
    /// Over gRPC always [`Error::Unsupported`]: its API has no such call.
    #[cfg(feature = "http")]
    pub async fn refund(&self, decision_id: &str) -> Result<u64, Error> {
        self.in_time(self.transport.refund(decision_id)).await
    }

    /// A client that asks about checks of several tasks in one call, of up to `most` checks. A check
    /// that comes alone is sent at once. While a call is under way, others gather until it is
    /// answered, until there are `most`, or until one has waited for `linger`.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    #[must_use]
    pub fn batched(&self, most: usize, linger: Duration) -> Batched {
        Batched::start(self.clone(), most, linger)
    }

    fn verdict(&self, result: Result<Verdict, Error>) -> Verdict {
        result.unwrap_or_else(|error| Verdict::without_answer(error, self.on_failure))
    }

    /// The answer to a call, if it comes in time. If not, the call goes on without anybody who waits.
    async fn in_time<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Error> {
        let answer = timeout(self.timeout, self.late.persist(call)).await;
        answer.unwrap_or_else(|_| Err(self.timed_out()))
    }

    fn timed_out(&self) -> Error {
        Error::TimedOut { server: self.server.to_string(), timeout: self.timeout }
    }
}
