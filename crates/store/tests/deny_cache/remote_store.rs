//! A store like one across a network: it may be unavailable, has its own clock, and its responses can
//! be delayed.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use tollgate_core::{Micros, Timestamp};
use tollgate_store::{MemoryStore, Op, Outcomes, SettleRequest, Settlement, Store, StoreErrorKind};

pub(crate) struct RemoteStore {
    counters: MemoryStore,
    /// How far its clock is ahead.
    ahead: Micros,
    fault: Mutex<Option<StoreErrorKind>>,
    calls: AtomicU64,
    requests: AtomicU64,
    /// Holds back responses of settled requests.
    pub(crate) answers: Gate,
    /// Holds back refunds and resets before they are made.
    pub(crate) changes: Gate,
}

/// Makes calls wait while it is closed.
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
        *self.fault.lock().expect("no panic under the lock") = fault;
    }

    /// How often it was asked to settle something.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many requests it was asked to settle.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Store for RemoteStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        let settles = ops.iter().filter(|op| matches!(op, Op::Settle(_))).count() as u64;
        self.calls.fetch_add(u64::from(settles > 0), Ordering::SeqCst);
        self.requests.fetch_add(settles, Ordering::SeqCst);
        if settles == 0 {
            self.changes.pass().await;
        }
        let fault = *self.fault.lock().expect("no panic under the lock");
        let outcomes = match fault {
            Some(fault) => ops.iter().map(|_| Err(fault.into())).collect(),
            None => self.counters.submit_now(ops, now.plus(self.ahead)),
        };
        if settles > 0 {
            self.answers.pass().await;
        }
        outcomes
    }
}

/// Runs a future that never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("no gate is closed"),
    }
}
