//! A shared store that fails on demand, and whose clock may differ from everybody else's.

use std::future::{Future, ready};
use std::sync::Mutex;

use tollgate::store::{Refund, Settlement, StoreError, StoreErrorKind};
use tollgate::{MemoryStore, Micros, Store, Timestamp};
use tollgate_core::{Charge, Key};

pub(crate) struct FaultyStore {
    inner: MemoryStore,
    fault: Mutex<Option<StoreErrorKind>>,
    /// How far its clock is ahead.
    ahead: Micros,
}

impl FaultyStore {
    pub(crate) fn new(ahead: Micros) -> Self {
        Self { inner: MemoryStore::with_bytes(0), fault: Mutex::default(), ahead }
    }

    /// From now on every call fails like that, or none does.
    pub(crate) fn set_fault(&self, fault: Option<StoreErrorKind>) {
        *self.fault.lock().expect("nobody panics while it is set") = fault;
    }

    fn answer<T>(&self, answer: impl FnOnce(&MemoryStore) -> T) -> Result<T, StoreError> {
        match *self.fault.lock().expect("nobody panics while it is set") {
            Some(fault) => Err(fault.into()),
            None => Ok(answer(&self.inner)),
        }
    }
}

impl Store for FaultyStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send {
        ready(self.answer(|inner| inner.settle_now(charges, now.plus(self.ahead))))
    }

    fn refund(
        &self,
        refunds: &[Refund<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let now = now.plus(self.ahead);
        ready(self.answer(|inner| refunds.iter().for_each(|refund| inner.refund_now(refund, now))))
    }

    fn reset(&self, keys: &[Key<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(self.answer(|inner| keys.iter().for_each(|key| inner.forget(key))))
    }
}
