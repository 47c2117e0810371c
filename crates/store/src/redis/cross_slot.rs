//! Settles a request whose counters are in several slots of a cluster: the slots are charged concurrently, and
//! refunded if another slot refused.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::{Sleep, sleep};
use tollgate_core::{ChargeResult, Mode, Timestamp};

use super::pending_call::PendingCall;
use super::router::Router;
use super::slot::slot;
use crate::remote::{OpResult, OwnedCharge, OwnedCharges, OwnedOp, OwnedRefund};
use crate::{OpOutcome, Settlement, StoreError, StoreErrorKind};

/// How far the clocks of two servers may be apart, and the calls to them, for a refund to find the entry of a log.
pub(super) const SLACK_MS: u64 = 1_000;

/// The charges of one slot, with their indexes in the request.
#[derive(Debug, Default)]
pub(super) struct SlotCharges {
    pub(super) places: SmallVec<[usize; 4]>,
    pub(super) charges: OwnedCharges,
}

impl SlotCharges {
    /// Groups charges by slot.
    pub(super) fn by_slot(charges: OwnedCharges) -> BTreeMap<u16, Self> {
        let mut slots: BTreeMap<u16, Self> = BTreeMap::new();
        for (place, charge) in charges.into_iter().enumerate() {
            let of_slot = slots.entry(slot(&charge.name)).or_default();
            of_slot.places.push(place);
            of_slot.charges.push(charge);
        }
        slots
    }

    /// Copies the results of this slot into those of the whole request.
    pub(super) fn enter(
        &self,
        results: impl IntoIterator<Item = ChargeResult>,
        whole: &mut Settlement,
    ) {
        for (place, line) in self.places.iter().zip(results) {
            if let Some(known) = whole.results.get_mut(*place) {
                *known = line;
            }
        }
    }
}

/// A slot that was charged, and how that ended.
pub(super) type Charged = (u16, SlotCharges, Result<Settlement, StoreError>);

/// Charges the slots concurrently.
pub(super) async fn charge(
    router: &Router,
    slots: BTreeMap<u16, SlotCharges>,
    is_dry_run: bool,
    now: Timestamp,
    expiry: &mut Pin<&mut Sleep>,
) -> Vec<Charged> {
    let calls: Vec<(u16, SlotCharges, Result<PendingCall, StoreError>)> = slots
        .into_iter()
        .map(|(slot, of_slot)| {
            let charges = of_slot.charges.clone();
            let op = OwnedOp::Settle { charges, idempotency: None, is_dry_run };
            (slot, of_slot, PendingCall::send(router, slot, op, now))
        })
        .collect();
    let mut charged = Vec::with_capacity(calls.len());
    for (slot, of_slot, call) in calls {
        let settled = match call {
            Ok(call) => call.result(expiry).await.and_then(OpOutcome::settled),
            Err(error) => Err(error),
        };
        charged.push((slot, of_slot, settled));
    }
    charged
}

/// Charges all slots, or none.
pub(super) async fn settle(
    router: Arc<Router>,
    charges: OwnedCharges,
    is_dry_run: bool,
    now: Timestamp,
) -> OpResult {
    let count = charges.len();
    let mut expiry = pin!(sleep(router.settings.deadline));
    let slots = SlotCharges::by_slot(charges);
    let charged = charge(&router, slots, is_dry_run, now, &mut expiry).await;
    let passed = charged.iter().all(|(.., settled)| settled.as_ref().is_ok_and(|one| one.passed));
    let mut whole = Settlement { now, passed, ..Settlement::default() };
    whole.results.resize(count, ChargeResult::default());
    let mut failure = None;
    for (slot, of_slot, settled) in charged {
        match settled {
            Ok(settlement) => {
                let settlement = if !passed && settlement.passed && !is_dry_run {
                    refund(&router, slot, &of_slot.charges, settlement, now).await
                } else {
                    settlement
                };
                whole.now = settlement.now;
                whole.has_held_units |= settlement.has_held_units;
                of_slot.enter(settlement.results, &mut whole);
            }
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(OpOutcome::Settled(whole)), Err)
}

/// Refunds what one slot was charged, and reads what is left there.
pub(super) async fn refund(
    router: &Router,
    slot: u16,
    charges: &[OwnedCharge],
    settled: Settlement,
    now: Timestamp,
) -> Settlement {
    let taken = charges
        .iter()
        .zip(&settled.results)
        .filter(|(charge, line)| line.admitted && charge.cost > 0 && charge.mode != Mode::Debit);
    let refunds = taken.map(|(charge, _)| OwnedRefund {
        name: charge.name.clone(),
        limit: charge.limit,
        units: charge.cost,
        charged_at: Some(settled.now),
        slack_ms: 0,
    });
    let refunds: SmallVec<[OwnedRefund; 4]> = refunds.collect();
    if refunds.is_empty() {
        return settled;
    }
    let mut expiry = pin!(sleep(router.settings.deadline));
    let mut refunded = Err(StoreErrorKind::Unavailable.into());
    if let Ok(call) = PendingCall::send(router, slot, OwnedOp::Refund(refunds), now) {
        refunded = call.result(&mut expiry).await;
    }
    let peeks = charges.iter().map(|charge| OwnedCharge { cost: 0, ..charge.clone() }).collect();
    let read = match refunded {
        Ok(_) => match PendingCall::send(router, slot, OwnedOp::charge(peeks), now) {
            Ok(call) => call.result(&mut expiry).await.and_then(OpOutcome::settled),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    // If it cannot be read, the figures are those before the refund.
    let Ok(mut read) = read else { return settled };
    for (line, before) in read.results.iter_mut().zip(&settled.results) {
        (line.admitted, line.written) = (before.admitted, before.written);
    }
    read
}
