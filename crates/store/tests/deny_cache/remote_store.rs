//! A store like one across a network: it may be away, has a clock of its own, and its answers can be
//! held up on their way.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tollgate_core::{Charge, Key, Micros, Timestamp};
use tollgate_store::{MemoryStore, Refund, Settlement, Store, StoreError, StoreErrorKind};

pub(crate) struct RemoteStore {
    counters: MemoryStore,
    /// How far its clock is ahead.
    ahead: Micros,
    fault: Mutex<Option<StoreErrorKind>>,
    calls: AtomicU64,
    requests: AtomicU64,
    /// What is settled is not answered yet.
    pub(crate) answers: Gate,
    /// What is to be given back or forgotten has not arrived yet.
    pub(crate) changes: Gate,
}

/// Whoever comes to it while it is closed waits.
#[derive(Default)]
pub(crate) struct Gate(AtomicBool);

impl Gate {
    pub(crate) fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn open(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn pass(&self) -> impl Future<Output = ()> + Send + '_ {
        poll_fn(|_| if self.0.load(Ordering::SeqCst) { Poll::Pending } else { Poll::Ready(()) })
    }
}

impl RemoteStore {
    pub(crate) fn new(ahead: Micros) -> Self {
        Self {
            counters: MemoryStore::with_bytes(0),
            ahead,
            fault: Mutex::default(),
            calls: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            answers: Gate::default(),
            changes: Gate::default(),
        }
    }

    /// From now on every call fails like that, or none does.
    pub(crate) fn set_fault(&self, fault: Option<StoreErrorKind>) {
        *self.fault.lock().expect("nobody panics while it is set") = fault;
    }

    /// How often it was asked to settle something.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many requests it was asked to settle.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    fn answer<T>(&self, answer: impl FnOnce(&MemoryStore) -> T) -> Result<T, StoreError> {
        match *self.fault.lock().expect("nobody panics while it is set") {
            Some(fault) => Err(fault.into()),
            None => Ok(answer(&self.counters)),
        }
    }
}

impl Store for RemoteStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Result<Settlement, StoreError> {
        self.settle_batch(&[charges], now).await.remove(0)
    }

    async fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> Vec<Result<Settlement, StoreError>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let now = now.plus(self.ahead);
        let mut settled = Vec::new();
        for charges in requests {
            self.requests.fetch_add(1, Ordering::SeqCst);
            settled.push(self.answer(|counters| counters.settle_now(charges, now)));
        }
        self.answers.pass().await;
        settled
    }

    async fn refund(&self, refunds: &[Refund<'_>], now: Timestamp) -> Result<(), StoreError> {
        self.changes.pass().await;
        let now = now.plus(self.ahead);
        self.answer(|counters| refunds.iter().for_each(|refund| counters.refund_now(refund, now)))
    }

    async fn reset(&self, keys: &[Key<'_>]) -> Result<(), StoreError> {
        self.changes.pass().await;
        self.answer(|counters| keys.iter().for_each(|key| counters.forget(key)))
    }
}

/// Runs a future that never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("no gate is closed"),
    }
}
