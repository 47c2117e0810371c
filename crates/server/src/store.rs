//! The store of this server, with a stopwatch around it.

use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate::store::{AnyStore, Histogram, Refund, Settled, Settlement, StoreError};
use tollgate::{Once, Stopwatch, Store, Timestamp};
use tollgate_core::{Charge, Key, Line};

/// Of the answers that come at once, those of every so many microseconds are timed: reading the clock
/// takes as long as answering.
const SAMPLED: u64 = 16;

/// A store that tells how long its answers take.
#[derive(Debug)]
pub(crate) struct TimedStore<S = AnyStore> {
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
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send {
        self.timed(self.inner.settle(charges, now))
    }

    fn settle_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        once: &Once<'_>,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        self.timed(self.inner.settle_once(charges, now, once))
    }

    fn is_immediate(&self) -> bool {
        self.inner.is_immediate()
    }

    #[inline]
    fn settle_at_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        lines: &mut SmallVec<[Line; 4]>,
    ) -> bool {
        if !now.as_micros().is_multiple_of(SAMPLED) {
            return self.inner.settle_at_once(charges, now, lines);
        }
        let stopwatch = Stopwatch::start();
        let is_settled = self.inner.settle_at_once(charges, now, lines);
        self.durations.observe(stopwatch.elapsed());
        is_settled
    }

    #[inline]
    fn prefetch(&self, fingerprint: u64) {
        self.inner.prefetch(fingerprint);
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
