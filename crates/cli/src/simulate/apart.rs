//! Counters of a simulation, apart from everybody else's: recorded traffic must never be charged to
//! those who are being served, nor meet what an earlier simulation has left.

use smallvec::SmallVec;
use tollgate::store::{AnyStore, Refund, Settlement, StoreError};
use tollgate::{Store, Timestamp};
use tollgate_core::{Charge, Key, Line};

/// A store whose subjects have another name.
#[derive(Debug)]
pub(super) struct Apart {
    pub(super) store: AnyStore,
    /// Stands before every subject, and is used once.
    name: String,
}

impl Apart {
    pub(super) fn new(store: AnyStore, now: Timestamp) -> Self {
        let name = format!("simulation {} {}:", std::process::id(), now.as_micros());
        Self { store, name }
    }

    fn subjects<'a>(&self, keys: impl Iterator<Item = Key<'a>>) -> SmallVec<[Vec<u8>; 4]> {
        keys.map(|key| [self.name.as_bytes(), key.subject].concat()).collect()
    }
}

impl Store for Apart {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Result<Settlement, StoreError> {
        let subjects = self.subjects(charges.iter().map(|charge| charge.key));
        let charges = charges.iter().zip(&subjects).map(|(charge, subject)| {
            let key = Key { subject, ..charge.key };
            Charge { key, ..*charge }
        });
        let charges: SmallVec<[Charge<'_>; 4]> = charges.collect();
        self.store.settle(&charges, now).await
    }

    fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    fn settle_at_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        lines: &mut SmallVec<[Line; 4]>,
    ) -> bool {
        self.store.settle_at_once(charges, now, lines)
    }

    async fn refund(&self, refunds: &[Refund<'_>], now: Timestamp) -> Result<(), StoreError> {
        let subjects = self.subjects(refunds.iter().map(|refund| refund.key));
        let refunds = refunds.iter().zip(&subjects).map(|(refund, subject)| {
            let key = Key { subject, ..refund.key };
            Refund { key, ..*refund }
        });
        let refunds: SmallVec<[Refund<'_>; 4]> = refunds.collect();
        self.store.refund(&refunds, now).await
    }

    async fn reset(&self, keys: &[Key<'_>]) -> Result<(), StoreError> {
        let subjects = self.subjects(keys.iter().copied());
        let keys = keys.iter().zip(&subjects).map(|(key, subject)| Key { subject, ..*key });
        let keys: SmallVec<[Key<'_>; 4]> = keys.collect();
        self.store.reset(&keys).await
    }
}
