//! Settles a request with an idempotency key whose counters are in several slots of a cluster.
//!
//! The slot of its first counter is its home, where its record is. The others are charged first, and the home last:
//! there the record is written together with the charge, so that it exists only if all slots were charged. If the
//! home has a record already, or refuses, the others get a refund.

use std::pin::pin;
use std::sync::Arc;

use tokio::time::sleep;
use tollgate_core::{ChargeResult, Timestamp};

use super::cross_slot::{Charged, SlotCharges, charge, refund};
use super::pending_call::PendingCall;
use super::router::Router;
use super::slot::slot;
use crate::remote::{
    CounterName, IdempotencyRecord, OpResult, OwnedCharges, OwnedIdempotencyKey, OwnedOp,
};
use crate::{OpOutcome, Settlement, StoreErrorKind};

/// Charges all slots once, or none.
pub(super) async fn settle(
    router: Arc<Router>,
    charges: OwnedCharges,
    mut key: OwnedIdempotencyKey,
    is_dry_run: bool,
    now: Timestamp,
) -> OpResult {
    let mut whole = Settlement { now, passed: true, ..Settlement::default() };
    whole.results.resize(charges.len(), ChargeResult::default());
    let mut expiry = pin!(sleep(router.settings.deadline));
    let home_slot = slot(&key.record_name);
    let mut slots = SlotCharges::by_slot(charges);
    let home = slots.remove(&home_slot).unwrap_or_default();
    let others = charge(&router, slots, is_dry_run, now, &mut expiry).await;
    let others_passed = others.iter().all(|(.., one)| one.as_ref().is_ok_and(|one| one.passed));
    if others_passed {
        key.record.results = lines_of(&others).collect();
    }
    let op = OwnedOp::Settle {
        charges: home.charges.clone(),
        idempotency: Some(Box::new(key)),
        // If another slot refused, the home still decides whether it is a copy.
        is_dry_run: is_dry_run || !others_passed,
    };
    let result = PendingCall::run_idempotent(&router, home_slot, op, now, &mut expiry).await;
    match result {
        Ok(OpOutcome::Settled(settlement)) => {
            whole.now = settlement.now;
            whole.passed = settlement.passed && others_passed;
            whole.has_held_units = settlement.has_held_units;
            home.enter(settlement.results, &mut whole);
            let mut failure = None;
            let is_charged = whole.passed || is_dry_run;
            let others = if is_charged { others } else { undo(&router, others, now).await };
            for (_, of_slot, settled) in others {
                match settled {
                    Ok(settled) => {
                        whole.has_held_units |= settled.has_held_units;
                        of_slot.enter(settled.results, &mut whole);
                    }
                    Err(error) => failure = Some(error),
                }
            }
            failure.map_or(Ok(OpOutcome::Settled(whole)), Err)
        }
        Ok(OpOutcome::Replayed { settlement, note }) => {
            // A record that cannot be read says nothing about the other slots.
            let record: IdempotencyRecord = note.parse().unwrap_or_default();
            whole.now = settlement.now;
            home.enter(settlement.results, &mut whole);
            let others = if is_dry_run { others } else { undo(&router, others, now).await };
            for (_, of_slot, settled) in others {
                let mut results = settled.map(|settled| settled.results).unwrap_or_default();
                results.resize(of_slot.charges.len(), ChargeResult::default());
                for (line, charge) in results.iter_mut().zip(&of_slot.charges) {
                    *line = record.result(&charge.name).unwrap_or(*line);
                }
                of_slot.enter(results, &mut whole);
            }
            Ok(OpOutcome::Replayed { settlement: whole, note: record.note })
        }
        // It may have been charged after all. Then the others have to be, too.
        Err(error) if error.kind() == StoreErrorKind::Timeout => Err(error),
        result => {
            if !is_dry_run {
                undo(&router, others, now).await;
            }
            result
        }
    }
}

/// The result of each counter.
fn lines_of(charged: &[Charged]) -> impl Iterator<Item = (CounterName, ChargeResult)> {
    charged.iter().flat_map(|(_, of_slot, settled)| {
        let results = settled.iter().flat_map(|settled| &settled.results);
        of_slot.charges.iter().map(|charge| charge.name.clone()).zip(results.copied())
    })
}

/// Refunds all slots, and reads what is left there.
async fn undo(router: &Router, charged: Vec<Charged>, now: Timestamp) -> Vec<Charged> {
    let mut undone = Vec::with_capacity(charged.len());
    for (slot, of_slot, settled) in charged {
        let settled = match settled {
            Ok(settled) if settled.passed => {
                Ok(refund(router, slot, &of_slot.charges, settled, now).await)
            }
            settled => settled,
        };
        undone.push((slot, of_slot, settled));
    }
    undone
}
