//! The same without `async`: counters in memory never wait.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate_rules::{Attributes, Subject};
use tollgate_store::MemoryStore;

use crate::clock::Clock;
use crate::decision::Decision;
use crate::explain::Explained;
use crate::limiter::Limiter;

impl<C: Clock> Limiter<MemoryStore, C> {
    /// [`Limiter::check_all`] without `async`.
    pub fn check_all_now(&self, subjects: &[&dyn Attributes]) -> Decision {
        at_once(self.check_all(subjects))
    }

    /// [`Limiter::check_rule`] without `async`.
    pub fn check_rule_now(&self, rule_id: &str, request: &dyn Attributes) -> Option<Decision> {
        self.check_rule(rule_id, request).map(at_once)
    }

    /// [`Limiter::peek`] without `async`.
    pub fn peek_now(&self, request: &dyn Attributes) -> Decision {
        at_once(self.peek(request))
    }

    /// [`Limiter::refund`] without `async`. It cannot fail.
    pub fn refund_now(&self, decision: Decision) {
        // The only errors are those of a store that is away.
        drop(at_once(self.refund(decision)));
    }

    /// [`Limiter::reset`] without `async`. It cannot fail.
    pub fn reset_now(&self, request: &dyn Attributes) -> usize {
        at_once(self.reset(request)).unwrap_or_default()
    }

    /// [`Limiter::lift`] without `async`. It cannot fail.
    pub fn lift_now(&self, rule_id: &str, subject: &Subject) -> bool {
        at_once(self.lift(rule_id, subject)).unwrap_or_default()
    }

    /// [`Limiter::explain`] without `async`.
    pub fn explain_now(&self, request: &dyn Attributes) -> Explained {
        at_once(self.explain(request))
    }
}

/// Runs a future that never waits.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a memory store answers at once"),
    }
}
