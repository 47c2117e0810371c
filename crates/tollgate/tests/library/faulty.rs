//! A shared store that fails on demand, and whose clock may differ from that of the nodes.

use std::future::{Future, ready};
use std::sync::Mutex;

use tollgate::store::{Op, Outcomes, SettleRequest, Settlement, StoreErrorKind};
use tollgate::{MemoryStore, Micros, Store, Timestamp};

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
        *self.fault.lock().expect("no panic under the lock") = fault;
    }
}

impl Store for FaultyStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> impl Future<Output = Outcomes> + Send {
        let fault = *self.fault.lock().expect("no panic under the lock");
        ready(match fault {
            Some(fault) => ops.iter().map(|_| Err(fault.into())).collect(),
            None => self.inner.submit_now(ops, now.plus(self.ahead)),
        })
    }
}
