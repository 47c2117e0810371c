//! A request that is charged once, whose counters lie in several slots.
//!
//! The slot of its first counter is its home, where its record is. The others are charged first, and
//! the home last: there the record is written together with the charge, so that it is there only if
//! all slots were charged. If the home knows a record already, or refuses, the others are given back.

use std::pin::{Pin, pin};
use std::sync::Arc;

use tokio::time::{Sleep, sleep};
use tollgate_core::{Algorithm, Line, Micros, Mode, Quota, Timestamp};

use super::router::Router;
use super::slot::slot;
use super::spread::{Charged, Charges, Part, Share, charge, give_back};
use crate::remote::{Answer, CounterName, Memo, OwnedCharge, OwnedOnce, Request, may_be_unknown};
use crate::{Settled, Settlement, StoreErrorKind};

/// Asks a slot, and once more if the answer got lost: what is charged once can be asked twice.
pub(super) async fn ask(
    router: &Router,
    slot: u16,
    request: Request,
    now: Timestamp,
    expiry: &mut Pin<&mut Sleep>,
) -> Answer {
    let again = request.clone();
    let answer = match Part::send(router, slot, request, now) {
        Ok(part) => part.answer(expiry).await,
        Err(error) => Err(error),
    };
    match answer {
        Err(error) if may_be_unknown(&error) && !expiry.is_elapsed() => {
            Part::send(router, slot, again, now)?.answer(expiry).await
        }
        answer => answer,
    }
}

/// Charges all slots once, or none.
pub(super) async fn settle(
    router: Arc<Router>,
    charges: Charges,
    now: Timestamp,
    mut once: OwnedOnce,
) -> Answer {
    let mut whole = Settlement { now, passed: true, ..Settlement::default() };
    whole.lines.resize(charges.len(), Line::default());
    let mut expiry = pin!(sleep(router.settings.deadline));
    let home_slot = slot(&once.record);
    let mut shares = Share::of_each(charges);
    let home = shares.remove(&home_slot).unwrap_or_default();
    let others = charge(&router, shares, now, &mut expiry).await;
    let others_passed = others.iter().all(|(.., one)| one.as_ref().is_ok_and(|one| one.passed));

    let mut charges = home.charges.clone();
    if others_passed {
        once.memo.lines = lines_of(&others).collect();
    } else {
        // Whether it is a copy has to be known all the same.
        charges.extend(home.charges.first().and_then(never));
    }
    let request = Request::SettleOnce(charges, Box::new(once));
    let answer = ask(&router, home_slot, request, now, &mut expiry).await;
    match answer {
        Ok(Settled::First(settlement)) => {
            whole.now = settlement.now;
            whole.passed = settlement.passed;
            home.enter(settlement.lines, &mut whole);
            let mut failure = None;
            let others = if whole.passed { others } else { undo(&router, others, now).await };
            for (_, share, settled) in others {
                match settled {
                    Ok(settled) => share.enter(settled.lines, &mut whole),
                    Err(error) => failure = Some(error),
                }
            }
            failure.map_or(Ok(Settled::First(whole)), Err)
        }
        Ok(Settled::Again { settlement, note }) => {
            // A note that cannot be read says nothing about the other slots.
            let memo: Memo = note.parse().unwrap_or_default();
            whole.now = settlement.now;
            home.enter(settlement.lines, &mut whole);
            for (_, share, settled) in undo(&router, others, now).await {
                let mut lines = settled.map(|settled| settled.lines).unwrap_or_default();
                lines.resize(share.charges.len(), Line::default());
                for (line, charge) in lines.iter_mut().zip(&share.charges) {
                    *line = memo.line(&charge.name).unwrap_or(*line);
                }
                share.enter(lines, &mut whole);
            }
            Ok(Settled::Again { settlement: whole, note: memo.note })
        }
        Ok(Settled::Conflict) => {
            undo(&router, others, now).await;
            Ok(Settled::Conflict)
        }
        // It may have been charged after all. Then the others have to be, too.
        Err(error) if error.kind() == StoreErrorKind::Timeout => Err(error),
        Err(error) => {
            undo(&router, others, now).await;
            Err(error)
        }
    }
}

/// What became of each charge.
fn lines_of(charged: &[Charged]) -> impl Iterator<Item = (CounterName, Line)> {
    charged.iter().flat_map(|(_, share, settled)| {
        let lines = settled.iter().flat_map(|settled| &settled.lines);
        share.charges.iter().map(|charge| charge.name.clone()).zip(lines.copied())
    })
}

/// Gives back to all slots what they were charged, and looks at what is left there.
async fn undo(router: &Router, charged: Vec<Charged>, now: Timestamp) -> Vec<Charged> {
    let mut undone = Vec::with_capacity(charged.len());
    for (slot, share, settled) in charged {
        let settled = match settled {
            Ok(settled) if settled.passed => {
                Ok(give_back(router, slot, &share.charges, settled, now).await)
            }
            settled => settled,
        };
        undone.push((slot, share, settled));
    }
    undone
}

/// A charge that never fits, so that those beside it are only tried.
fn never(beside: &OwnedCharge) -> Option<OwnedCharge> {
    let blocked = Quota::new(Algorithm::FixedWindow, 0, Micros::from_secs(1)).compile().ok()?;
    let name = beside.name.without_rule();
    Some(OwnedCharge { name, limit: blocked, cost: 1, mode: Mode::Enforce })
}
