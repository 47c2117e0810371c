//! Counters of a simulation, separate from all others: recorded traffic must never be charged to
//! clients that are being served, nor meet what an earlier simulation has left.

use smallvec::SmallVec;
use tollgate::store::{
    AnyStore, ExpiringRefund, Op, Outcomes, Refund, RefundOnce, SettleRequest, Settlement,
};
use tollgate::{Store, Timestamp};
use tollgate_core::{Charge, Key};

/// A store whose subjects have another name.
#[derive(Debug)]
pub(super) struct NamespacedStore {
    pub(super) store: AnyStore,
    /// Stands before every subject, and is used once.
    namespace: String,
}

impl NamespacedStore {
    pub(super) fn new(store: AnyStore, now: Timestamp) -> Self {
        let namespace = format!("simulation {} {}:", std::process::id(), now.as_micros());
        Self { store, namespace }
    }

    /// The subjects of an operation, in the namespace.
    fn subjects(&self, op: &Op<'_>) -> SmallVec<[Vec<u8>; 4]> {
        let renamed = |key: &Key<'_>| [self.namespace.as_bytes(), key.subject].concat();
        match op {
            Op::Settle(request) => request.charges.iter().map(|it| renamed(&it.key)).collect(),
            Op::Refund(refunds) => refunds.iter().map(|it| renamed(&it.key)).collect(),
            Op::RefundOnce(RefundOnce { refunds, .. }) => {
                refunds.iter().map(|it| renamed(&it.refund.key)).collect()
            }
            Op::Reset(keys) => keys.iter().map(renamed).collect(),
            // A simulation has no idempotency keys.
            Op::FindRecord(_) | Op::ForgetRecord(_) => SmallVec::new(),
        }
    }
}

impl Store for NamespacedStore {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool {
        // Counters in memory are those of this simulation already.
        !self.is_shared() && self.store.try_settle(request, now, settlement)
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        let mut outcomes = Outcomes::with_capacity(ops.len());
        for op in ops {
            let subjects = self.subjects(op);
            outcomes.push(match op {
                Op::Settle(request) => {
                    let charges: SmallVec<[Charge<'_>; 4]> = request
                        .charges
                        .iter()
                        .zip(&subjects)
                        .map(|(it, subject)| Charge { key: Key { subject, ..it.key }, ..*it })
                        .collect();
                    let request = SettleRequest { charges: &charges, ..*request };
                    self.store.submit_one(Op::Settle(request), now).await
                }
                Op::Refund(refunds) => {
                    let refunds: SmallVec<[Refund<'_>; 4]> = refunds
                        .iter()
                        .zip(&subjects)
                        .map(|(it, subject)| Refund { key: Key { subject, ..it.key }, ..*it })
                        .collect();
                    self.store.submit_one(Op::Refund(&refunds), now).await
                }
                Op::RefundOnce(RefundOnce { refunds, mark }) => {
                    let refunds: SmallVec<[ExpiringRefund<'_>; 4]> = refunds
                        .iter()
                        .zip(&subjects)
                        .map(|(it, subject)| {
                            let key = Key { subject, ..it.refund.key };
                            ExpiringRefund { refund: Refund { key, ..it.refund }, ..*it }
                        })
                        .collect();
                    let once = RefundOnce { refunds: &refunds, mark: *mark };
                    self.store.submit_one(Op::RefundOnce(once), now).await
                }
                Op::Reset(keys) => {
                    let keys: SmallVec<[Key<'_>; 4]> = keys
                        .iter()
                        .zip(&subjects)
                        .map(|(it, subject)| Key { subject, ..*it })
                        .collect();
                    self.store.submit_one(Op::Reset(&keys), now).await
                }
                Op::FindRecord(_) | Op::ForgetRecord(_) => self.store.submit_one(*op, now).await,
            });
        }
        outcomes
    }
}
