//! Charges on this node that wait for the store.

use tollgate_core::{Charge, ChargeResult, Timestamp};
use tollgate_store::Store;

use crate::settler::Settler;

/// Charges on this node while the store is called. If the caller leaves meanwhile, they are undone: the store may
/// refuse the request, and then it must not use up quotas that others share.
pub(crate) struct LocalCharges<'a, S: Store> {
    pub(crate) settler: &'a Settler<S>,
    pub(crate) charges: &'a [Charge<'a>],
    pub(crate) results: &'a [ChargeResult],
    pub(crate) now: Timestamp,
}

impl<S: Store> LocalCharges<'_, S> {
    /// Leaves the charges to the caller.
    pub(crate) fn stay(mut self) {
        self.charges = &[];
    }
}

impl<S: Store> Drop for LocalCharges<'_, S> {
    fn drop(&mut self) {
        self.settler.refund_local(self.charges, self.results, self.now);
    }
}
