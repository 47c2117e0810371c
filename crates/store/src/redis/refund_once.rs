//! A refund that is made once. In a cluster each slot has its own mark, which is written together with the refunds of
//! that slot. All nodes go through the slots in the same order, and the one that marks the last has made the refund. So
//! of two that refund at once exactly one has, and after a failure a repeated call has.

use std::collections::BTreeMap;
use std::pin::Pin;

use smallvec::SmallVec;
use tokio::time::Sleep;
use tollgate_core::Timestamp;

use super::pending_call::PendingCall;
use super::{RedisStore, cross_slot, script};
use crate::remote::{OpResult, OwnedExpiringRefund, OwnedOp, OwnedRefundOnce, RefundAttempt};
use crate::{OpOutcome, RefundOnce, StoreError};

impl RedisStore {
    /// The calls that a refund takes, by slot.
    pub(super) fn refund_once(
        &self,
        once: &RefundOnce<'_>,
    ) -> Result<Vec<(u16, OwnedOp)>, StoreError> {
        let attempt = RefundAttempt::random()?;
        let names = self.names();
        let mut slots: BTreeMap<u16, SmallVec<[OwnedExpiringRefund; 4]>> = BTreeMap::new();
        for one in once.refunds.iter().filter(|one| script::holds(one.refund.limit)) {
            let one = OwnedExpiringRefund::new(one, names.counter(&one.refund.key));
            slots.entry(self.slot(&one.refund.name)).or_default().push(one);
        }
        if slots.len() > 1 {
            let all = slots.values_mut().flatten();
            all.for_each(|one| one.refund.slack_ms = cross_slot::SLACK_MS);
        }
        let of_slot = |(slot, refunds)| {
            let part = OwnedRefundOnce::new(refunds, once.mark, names.is_cluster, attempt);
            (slot, OwnedOp::RefundOnce(Box::new(part)))
        };
        Ok(slots.into_iter().map(of_slot).collect())
    }

    /// Makes the calls, one after the other, until one fails.
    pub(super) async fn finish_refund(
        &self,
        parts: Vec<(u16, OwnedOp)>,
        now: Timestamp,
        expiry: &mut Pin<&mut Sleep>,
    ) -> OpResult {
        let (mut counters, mut whole) = (0, OpOutcome::RefundExpired);
        for (slot, op) in parts {
            let all = op.counters().count();
            let part = PendingCall::run_idempotent(&self.router, slot, op, now, expiry).await?;
            counters += match part {
                OpOutcome::Refunded { counters } => counters,
                OpOutcome::RefundExpired => continue,
                // By another attempt, which may not have come further.
                _ => all,
            };
            whole = part;
        }
        Ok(match whole {
            OpOutcome::Refunded { .. } => OpOutcome::Refunded { counters },
            other => other,
        })
    }
}
