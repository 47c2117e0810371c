//! Requests with an idempotency key: what a limiter makes of copies that its store knows.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::store::{
    Op, OpOutcome, Outcomes, SettleRequest, Settlement, Store, StoreError, StoreErrorKind,
};
use tollgate::{
    CheckTarget, IdempotencyKey, Idempotent, Limiter, ManualClock, MemoryStore, Micros, Peek,
    Timestamp,
};

use crate::failure::scene::{MIDNIGHT, at_once, parse, render, request};

/// A store that remembers one request.
#[derive(Default)]
struct Knowing {
    counters: MemoryStore,
    known: Mutex<Option<([u8; 16], Settlement, String)>>,
    is_away: AtomicBool,
}

impl Store for Knowing {
    fn is_shared(&self) -> bool {
        true
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        ops.iter().map(|op| self.execute(op, now)).collect()
    }
}

impl Knowing {
    fn execute(&self, op: &Op<'_>, now: Timestamp) -> Result<OpOutcome, StoreError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StoreErrorKind::Timeout.into());
        }
        let outcome = |op: &Op<'_>| self.counters.submit_now(&[*op], now).remove(0);
        let Op::Settle(SettleRequest { idempotency: Some(key), .. }) = op else {
            return outcome(op);
        };
        let mut known = self.known.lock().expect("no thread panicked");
        match &*known {
            Some((body, ..)) if *body != key.body => Ok(OpOutcome::KeyReused),
            Some((_, settlement, note)) => {
                Ok(OpOutcome::Replayed { settlement: settlement.clone(), note: note.clone() })
            }
            None => {
                let settlement = outcome(op)?.settled()?;
                if settlement.passed && matches!(op, Op::Settle(request) if !request.is_dry_run) {
                    *known = Some((key.body, settlement.clone(), key.note.to_owned()));
                }
                Ok(OpOutcome::Settled(settlement))
            }
        }
    }
}

/// Asks step by step, as `check` by all, or as `1 ...` by the body that comes with the one key there
/// is.
fn check(policy: &str, steps: &[(&str, &str)]) {
    let limiter = Limiter::builder().policy(parse(policy)).store(Knowing::default());
    let limiter = limiter.clock(ManualClock::at(MIDNIGHT)).build();
    for (number, (step, expected)) in steps.iter().enumerate() {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let request = request(rest);
        let said = match verb {
            "away" => {
                limiter.store().is_away.store(true, Ordering::Relaxed);
                String::new()
            }
            "count" => {
                let admitted = limiter.stats().into_iter().map(|(_, counts)| counts.admitted);
                format!("{:?}", admitted.collect::<Vec<_>>())
            }
            "peek" => render(&at_once(limiter.check(&Peek(&request)))),
            "check" => render(&at_once(limiter.check(&request))),
            body => {
                let (note, body) = (number.to_string(), body.parse().expect("a number"));
                let lifetime = Micros::from_secs(60);
                let key = IdempotencyKey { call: [0; 16], body: [body; 16], note: &note, lifetime };
                match at_once(limiter.check_idempotent(CheckTarget::Request(&request), &key)) {
                    Idempotent::Executed(decision) => render(&decision),
                    Idempotent::Replayed { decision, note, .. } => {
                        format!("as {note}: {}", render(&decision))
                    }
                    Idempotent::KeyReused => "conflict".to_owned(),
                }
            }
        };
        assert_eq!(said, *expected, "step {number}: {step}");
    }
}

const SHARED: &str = "
rules:
- {rule_id: shared, limit: 4, window: 1m, identifier_type: tenant, algorithm: fixed_window, on_store_failure: open}
";

const MIXED: &str = "
rules:
- {rule_id: own, limit: 3, window: 1m, identifier_type: user_id, algorithm: fixed_window, consistency: local}
- {rule_id: shared, limit: 4, window: 1m, identifier_type: tenant, algorithm: fixed_window, on_store_failure: closed}
";

#[test]
fn copies_are_neither_charged_nor_counted() {
    check(
        SHARED,
        &[
            ("1 tenant=t cost=2", "allowed by shared, 2 left"),
            ("check tenant=t", "allowed by shared, 1 left"),
            ("1 tenant=t cost=2", "as 0: allowed by shared, 2 left"),
            ("2 tenant=t cost=2", "conflict"),
            ("peek tenant=t", "allowed by shared, 1 left"),
            ("count", "[2]"),
        ],
    );
}

#[test]
fn refused_requests_are_checked_again() {
    let refused = "refused by shared, 4 left, never";
    check(
        SHARED,
        &[
            ("1 tenant=t cost=5", refused),
            ("1 tenant=t cost=5", refused),
            ("2 tenant=t", "allowed by shared, 3 left"),
        ],
    );
}

#[test]
fn a_request_without_rules_does_not_call_the_store() {
    check(SHARED, &[("1 user_id=u", "no rule"), ("2 user_id=u", "no rule")]);
}

#[test]
fn an_unavailable_store_treats_every_copy_as_the_first() {
    let answer = "allowed, degraded";
    check(SHARED, &[("away", ""), ("1 tenant=t", answer), ("2 tenant=t", answer)]);
    let closed = "refused: store unavailable, degraded";
    check(
        MIXED,
        &[
            ("away", ""),
            ("1 user_id=u tenant=t", closed),
            ("peek user_id=u", "allowed by own, 3 left"),
            ("1 user_id=u", "allowed by own, 2 left"),
        ],
    );
}

#[test]
fn a_copy_refunds_its_local_charge() {
    check(
        MIXED,
        &[
            ("1 user_id=u tenant=t cost=2", "allowed by own, 1 left"),
            // Would not fit any more, but is a copy.
            ("1 user_id=u tenant=t cost=2", "as 0: allowed by own, 1 left"),
            ("1 user_id=u tenant=t cost=2", "as 0: allowed by own, 1 left"),
            ("2 user_id=u tenant=t", "conflict"),
            ("2 user_id=u tenant=t cost=3", "conflict"),
            ("peek user_id=u", "allowed by own, 1 left"),
            ("peek tenant=t", "allowed by shared, 2 left"),
            // Counted here alone.
            ("3 user_id=u", "allowed by own, 0 left, warned"),
            ("count", "[2, 1]"),
        ],
    );
}

#[test]
fn a_local_refusal_charges_nothing_in_the_store() {
    check(
        MIXED,
        &[
            ("check user_id=u cost=3", "allowed by own, 0 left, warned"),
            ("1 user_id=u tenant=t", "refused by own, 0 left, retry in 60000 ms, warned"),
            ("peek tenant=t", "allowed by shared, 4 left"),
            ("2 tenant=t", "allowed by shared, 3 left"),
        ],
    );
}

#[test]
fn a_refusal_by_the_store_charges_nothing_locally() {
    check(
        MIXED,
        &[
            ("check tenant=t cost=4", "allowed by shared, 0 left, warned"),
            ("1 user_id=u tenant=t", "refused by shared, 0 left, retry in 60000 ms, warned"),
            ("peek user_id=u", "allowed by own, 3 left"),
        ],
    );
}
