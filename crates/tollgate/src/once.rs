//! Questions that are answered once, however often they are asked: copies get the answer of the first,
//! whichever process they reach, and are not charged.

use std::future::Future;

use tollgate_core::{Algorithm, Charge, Key, Micros, Mode, Quota, Timestamp};
use tollgate_rules::{Plan, RuleSet};
use tollgate_store::{Once, Settled, Settlement, Store};

use crate::clock::Clock;
use crate::counting::{Charges, Counted, Counting, Numbers};
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::question::Question;

/// The answer to a question that is answered once.
#[derive(Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum OnceAnswer {
    /// It was asked for the first time, or was refused so far.
    First(Decision),
    /// It had passed before. Nothing was charged, and nothing is to be given back.
    Again {
        /// The decision of the first. Rules that are counted on each node by itself have the figures
        /// of this one.
        decision: Decision,
        /// The note of the first.
        note: String,
    },
    /// Another question passed under the same key. Nothing was charged.
    Conflict,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::answer`] to a question that may be a copy. Only a shared store knows copies; without
    /// one, and while it is away, every question is the first.
    pub fn answer_once<'a>(
        &'a self,
        question: Question<'_>,
        once: &'a Once<'a>,
    ) -> impl Future<Output = OnceAnswer> + Send + use<'a, S, C> {
        let mut decision = self.planned(question);
        async move {
            let Decision { installed, plan, asked_at: now, .. } = &decision;
            let counted = if plan.is_to_be_counted() {
                self.counting.settle_once(plan, installed.policy.rules(), *now, once).await
            } else {
                CountedOnce::First(Counted::default())
            };
            match counted {
                CountedOnce::First(counted) => {
                    self.decide(&mut decision, &counted);
                    OnceAnswer::First(decision)
                }
                CountedOnce::Again(counted, note) => {
                    self.conclude(&mut decision, &counted);
                    OnceAnswer::Again { decision, note }
                }
                CountedOnce::Conflict => OnceAnswer::Conflict,
            }
        }
    }
}

/// What became of the charges of such a question.
#[derive(Debug)]
pub(crate) enum CountedOnce {
    First(Counted),
    Again(Counted, String),
    Conflict,
}

impl<S: Store> Counting<S> {
    /// [`Counting::settle`], unless it is a copy.
    async fn settle_once(
        &self,
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
        once: &Once<'_>,
    ) -> CountedOnce {
        let blocked = Quota::new(Algorithm::FixedWindow, 0, Micros::from_secs(1)).compile();
        let lines = 0..plan.planned().len();
        let (own, shared): (Numbers, Numbers) =
            lines.partition(|line| self.shared.is_shared() && Self::is_local(*line, plan, rules));
        let charges = |lines: &[usize]| -> Charges<'_> {
            lines.iter().filter_map(|line| plan.charge(*line, rules)).collect()
        };
        let own_charges = charges(&own);
        let own_settled = self.own.settle_now(&own_charges, now);
        if shared.is_empty() {
            return CountedOnce::First(Counted::of_own(own_settled, own, now));
        }
        let mut shared_charges = charges(&shared);
        if !own_settled.passed
            && let (Some(first), Ok(blocked)) = (shared_charges.first(), &blocked)
        {
            // Refused already, unless it is a copy; the shared counters are only asked for that.
            let key = Key { rule: "", rest: &[], ..first.key };
            shared_charges.push(Charge { key, limit: blocked, cost: 1, mode: Mode::Enforce });
        }
        let settled = self.shared.settle_once(&shared_charges, now, once).await;
        let settled = match settled {
            Ok(Settled::Conflict) => {
                self.take_back_passed(&own_charges, own_settled, now);
                return CountedOnce::Conflict;
            }
            Ok(Settled::Again { mut settlement, note }) => {
                settlement.lines.truncate(shared.len());
                let own_settled = self.take_back_passed(&own_charges, own_settled, now);
                let counted = self.counted(Ok(settlement), &shared, plan, rules, now);
                let mut counted = counted.joined_with(&own, own_settled);
                // What passed then has passed, whatever these rules would say by now.
                let planned = plan.planned();
                for (line, number) in counted.lines.iter_mut().zip(counted.numbers.iter().flatten())
                {
                    line.admitted |= planned.get(*number).is_some_and(|p| p.mode == Mode::Enforce);
                }
                return CountedOnce::Again(counted, note);
            }
            Ok(Settled::First(_)) | Err(_) if !own_settled.passed => {
                return CountedOnce::First(Counted::of_own(own_settled, own, now));
            }
            Ok(Settled::First(settlement)) => Ok(settlement),
            Err(error) => Err(error),
        };
        let counted = self.counted(settled, &shared, plan, rules, now);
        if own.is_empty() {
            return CountedOnce::First(counted);
        }
        let own_settled = if counted.is_refused(plan) {
            self.take_back(&own_charges, &own_settled, now)
        } else {
            own_settled
        };
        CountedOnce::First(counted.joined_with(&own, own_settled))
    }

    /// Undoes charges on this node, if they were made.
    fn take_back_passed(
        &self,
        charges: &[Charge<'_>],
        settled: Settlement,
        now: Timestamp,
    ) -> Settlement {
        if settled.passed { self.take_back(charges, &settled, now) } else { settled }
    }
}
