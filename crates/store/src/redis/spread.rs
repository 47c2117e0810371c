//! A request whose counters lie in several slots: each slot is charged on its own, side by side, and
//! what was charged is given back if another slot refused.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;

use smallvec::SmallVec;
use tokio::time::{Sleep, sleep};
use tollgate_core::{Line, Mode, Timestamp};

use super::router::Router;
use super::slot::slot;
use crate::remote::breaker::{Admitted, Breaker};
use crate::remote::{Answer, OwnedCharge, OwnedRefund, Pending, Request, only_settled};
use crate::{Settled, Settlement, StoreError, StoreErrorKind};

pub(super) type Charges = SmallVec<[OwnedCharge; 4]>;

/// A request to one server that is on its way.
#[derive(Debug)]
pub(super) struct Part {
    admitted: Admitted<Arc<Breaker>>,
    pending: Pending,
}

impl Part {
    /// Sends a request to the server that has that slot.
    pub(super) fn send(
        router: &Router,
        slot: u16,
        request: Request,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let routes = router.routes.load();
        let Some(way) = routes.way(slot) else {
            router.look_again();
            return Err(StoreErrorKind::Unavailable.into());
        };
        // A server that is away may have been replaced.
        let admitted =
            Admitted::new(Arc::clone(&way.node.breaker)).inspect_err(|_| router.look_again())?;
        Ok(Self { admitted, pending: way.queue.send(request, now)? })
    }

    /// Waits for the answer until `expiry`.
    pub(super) async fn answer(mut self, expiry: &mut Pin<&mut Sleep>) -> Answer {
        let answer = tokio::select! {
            biased;
            answer = self.pending.answer() => answer,
            () = expiry.as_mut() => Err(StoreErrorKind::Timeout.into()),
        };
        self.admitted.tell(&answer);
        answer
    }
}

/// The charges of one slot, with their places in the request.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) places: SmallVec<[usize; 4]>,
    pub(super) charges: Charges,
}

impl Share {
    /// The shares of all slots.
    pub(super) fn of_each(charges: Charges) -> BTreeMap<u16, Self> {
        let mut shares: BTreeMap<u16, Self> = BTreeMap::new();
        for (place, charge) in charges.into_iter().enumerate() {
            let share = shares.entry(slot(&charge.name)).or_default();
            share.places.push(place);
            share.charges.push(charge);
        }
        shares
    }

    /// Enters the lines of this share into those of the whole request.
    pub(super) fn enter(&self, lines: impl IntoIterator<Item = Line>, whole: &mut Settlement) {
        for (place, line) in self.places.iter().zip(lines) {
            if let Some(known) = whole.lines.get_mut(*place) {
                *known = line;
            }
        }
    }
}

/// A slot that was asked to charge its share, and what became of that.
pub(super) type Charged = (u16, Share, Result<Settlement, StoreError>);

/// Charges each slot its share, side by side.
pub(super) async fn charge(
    router: &Router,
    shares: BTreeMap<u16, Share>,
    now: Timestamp,
    expiry: &mut Pin<&mut Sleep>,
) -> Vec<Charged> {
    let parts: Vec<(u16, Share, Result<Part, StoreError>)> = shares
        .into_iter()
        .map(|(slot, share)| {
            let request = Request::Settle(share.charges.clone());
            let part = Part::send(router, slot, request, now);
            (slot, share, part)
        })
        .collect();
    let mut settled = Vec::with_capacity(parts.len());
    for (slot, share, part) in parts {
        let answer = match part {
            Ok(part) => only_settled(part.answer(expiry).await),
            Err(error) => Err(error),
        };
        settled.push((slot, share, answer));
    }
    settled
}

/// Charges all slots, or none.
pub(super) async fn settle(router: Arc<Router>, charges: Charges, now: Timestamp) -> Answer {
    let count = charges.len();
    let mut expiry = pin!(sleep(router.settings.deadline));
    let settled = charge(&router, Share::of_each(charges), now, &mut expiry).await;
    let passed = settled.iter().all(|(.., answer)| answer.as_ref().is_ok_and(|one| one.passed));
    let mut whole = Settlement { now, passed, ..Settlement::default() };
    whole.lines.resize(count, Line::default());
    let mut failure = None;
    for (slot, share, answer) in settled {
        match answer {
            Ok(settlement) => {
                let settlement = if !passed && settlement.passed {
                    give_back(&router, slot, &share.charges, settlement, now).await
                } else {
                    settlement
                };
                whole.now = settlement.now;
                share.enter(settlement.lines, &mut whole);
            }
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(Settled::First(whole)), Err)
}

/// Gives back what one slot was charged, and looks at what is left there.
pub(super) async fn give_back(
    router: &Router,
    slot: u16,
    charges: &Charges,
    settled: Settlement,
    now: Timestamp,
) -> Settlement {
    let taken = charges
        .iter()
        .zip(&settled.lines)
        .filter(|(charge, line)| line.admitted && charge.cost > 0 && charge.mode != Mode::Debit);
    let refunds = taken.map(|(charge, _)| OwnedRefund {
        name: charge.name.clone(),
        limit: charge.limit,
        units: charge.cost,
        charged_at: Some(settled.now),
    });
    let refunds: SmallVec<[OwnedRefund; 4]> = refunds.collect();
    if refunds.is_empty() {
        return settled;
    }
    let mut expiry = pin!(sleep(router.settings.deadline));
    let mut given = Err(StoreErrorKind::Unavailable.into());
    if let Ok(part) = Part::send(router, slot, Request::Refund(refunds), now) {
        given = part.answer(&mut expiry).await;
    }
    let looks = charges.iter().map(|charge| OwnedCharge { cost: 0, ..charge.clone() }).collect();
    let looked = match given {
        Ok(_) => match Part::send(router, slot, Request::Settle(looks), now) {
            Ok(part) => only_settled(part.answer(&mut expiry).await),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    // Without a look, the figures are those of a moment ago.
    let Ok(mut looked) = looked else { return settled };
    for (line, before) in looked.lines.iter_mut().zip(&settled.lines) {
        (line.admitted, line.written) = (before.admitted, before.written);
    }
    looked
}
