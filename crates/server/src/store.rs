//! The store of this server, with a stopwatch around it.

use std::future::Future;
use std::sync::Arc;

use tollgate::store::{Refund, Settlement, StoreError};
use tollgate::{MemoryStore, Stopwatch, Store, Timestamp};
use tollgate_core::{Charge, Key};

use crate::histogram::Histogram;

/// A store that tells how long its answers take.
#[derive(Debug)]
pub(crate) struct TimedStore<S = MemoryStore> {
    pub(crate) inner: S,
    /// How long settling takes, a batch at a time.
    pub(crate) durations: Arc<Histogram>,
}

impl<S> TimedStore<S> {
    async fn timed<T>(&self, answer: impl Future<Output = T> + Send) -> T {
        let stopwatch = Stopwatch::start();
        let answer = answer.await;
        self.durations.observe(stopwatch.elapsed());
        answer
    }
}

impl<S: Store> Store for TimedStore<S> {
    const IS_SHARED: bool = S::IS_SHARED;

    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send {
        self.timed(self.inner.settle(charges, now))
    }

    fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Settlement, StoreError>>> + Send {
        self.timed(self.inner.settle_batch(requests, now))
    }

    fn refund(
        &self,
        refunds: &[Refund<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.inner.refund(refunds, now)
    }

    fn reset(&self, keys: &[Key<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.inner.reset(keys)
    }
}
