//! Refusals that lead to bans: counted in the background, in a separate counter beside that of the rule. A client
//! that fills it is refused for a while without being counted.

mod bans;
mod own_bans;
mod room;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tollgate_core::{Charge, ChargeResult, Key, Mode, Timestamp};
use tollgate_rules::document::Consistency;
use tollgate_rules::{Penalty, Rule, RuleSet, Subject};
use tollgate_store::{Op, OpOutcome, Settlement, Store};

use crate::clock::Clock;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::settler::Settler;

pub(crate) use bans::Banning;
pub use bans::{Ban, BanCounts};

/// The largest identifiers of a client that can be banned, in bytes: bans are kept for long.
const MAX_SUBJECT_BYTES: usize = 1024;

/// How the refusals of rules with a penalty are counted.
#[derive(Default)]
pub enum Penalties {
    /// They are not: penalties have no effect.
    Ignored,
    /// By the limiter itself, in the memory of this process, which also keeps the bans.
    #[default]
    Here,
    /// By the caller: the function gets each refusal, and [`Limiter::punish`] counts it later. The request waits for
    /// the function, so it should only enqueue.
    Told(Box<dyn Fn(Offence) + Send + Sync>),
}

impl fmt::Debug for Penalties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ignored => "Ignored",
            Self::Here => "Here",
            Self::Told(_) => "Told",
        })
    }
}

/// A refusal by a rule that bans clients which keep being refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offence {
    /// The rule.
    pub rule_id: Arc<str>,
    /// The client, as the rule counts.
    pub subject: Subject,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Counts refusals, and bans the clients that have reached the number their rule allows. Returns how many were
    /// banned. While the shared store is unavailable, this process counts locally.
    pub async fn punish(&self, offences: &[Offence]) -> usize {
        let mut counts: HashMap<&Offence, u64> = HashMap::new();
        for offence in offences {
            *counts.entry(offence).or_default() += 1;
        }
        let (policy, now) = (self.policy(), self.clock.now());
        let refused: Vec<Refused<'_>> = counts
            .into_iter()
            .filter_map(|(offence, times)| Refused::new(policy.rules(), offence, times))
            .collect();
        let charges: Vec<[Charge<'_>; 1]> =
            refused.iter().map(|refused| [self.charge_for(refused)]).collect();
        let results = self.settler.count_refusals(&refused, &charges, now).await;
        let due = refused.iter().zip(results).filter(|(_, result)| is_full(result));
        self.ban(due.map(|(refused, _)| refused.ban(now)))
    }

    /// Counts a refusal, as the settings of the limiter say.
    #[cold]
    pub(crate) fn note_refusal(&self, decision: &Decision, result: usize, rule: &Rule) {
        let policy = &decision.snapshot.policy;
        let Some(Charge { key, .. }) = decision.parts.plan.charge(result, policy.rules()) else {
            return;
        };
        if matches!(self.penalties, Penalties::Ignored) {
            return;
        }
        // Where bans are written to a catalog, long values are digests here, so that no client is too long to be
        // banned.
        let subject = policy.directory().subject_of(rule, &key);
        if subject.as_bytes().len() > MAX_SUBJECT_BYTES {
            return;
        }
        let offence = Offence { rule_id: Arc::clone(&rule.id), subject };
        match &self.penalties {
            Penalties::Ignored => {}
            Penalties::Told(tell) => tell(offence),
            Penalties::Here => self.punish_here(policy.rules(), &offence, decision.parts.asked_at),
        }
    }

    fn punish_here(&self, rules: &RuleSet, offence: &Offence, now: Timestamp) {
        let Some(refused) = Refused::new(rules, offence, 1) else { return };
        if is_full(&self.settler.count_refusal_here(&self.charge_for(&refused), now)) {
            self.ban([refused.ban(now)]);
        }
    }

    fn charge_for<'a>(&self, refused: &Refused<'a>) -> Charge<'a> {
        let Refused { penalty, offence, times, .. } = *refused;
        let key = self.refusals_key(penalty, &offence.subject);
        // Charged whether or not it fits: every refusal counts.
        Charge { key, limit: &penalty.limit, cost: times, mode: Mode::Debit }
    }

    /// The counter of refusals of a client.
    pub(crate) fn refusals_key<'a>(&self, penalty: &'a Penalty, subject: &'a Subject) -> Key<'a> {
        let named = (&*penalty.counter, penalty.digest);
        let key = Key::of_digest(&self.hasher, named, subject.as_bytes(), &[]);
        key.in_group(penalty.group)
    }
}

/// A client that a rule refused, and how often.
struct Refused<'a> {
    rule: &'a Rule,
    penalty: &'a Penalty,
    offence: &'a Offence,
    times: u64,
}

impl<'a> Refused<'a> {
    /// `None` if the rule has no penalty any more.
    fn new(rules: &'a RuleSet, offence: &'a Offence, times: u64) -> Option<Self> {
        let rule = rules.find(&offence.rule_id)?;
        Some(Self { rule, penalty: rule.penalty.as_deref()?, offence, times })
    }

    fn ban(&self, now: Timestamp) -> Ban {
        let Offence { rule_id, subject } = self.offence.clone();
        Ban { rule_id, subject, until: now.plus(self.penalty.ban) }
    }
}

/// Whether a counter has as many refusals as lead to a ban.
fn is_full(result: &ChargeResult) -> bool {
    result.report.remaining == 0
}

impl<S: Store> Settler<S> {
    /// Counts refusals where their rules are counted, one charge for each.
    async fn count_refusals(
        &self,
        refused: &[Refused<'_>],
        charges: &[[Charge<'_>; 1]],
        now: Timestamp,
    ) -> Vec<ChargeResult> {
        let is_local = |refused: &Refused<'_>| {
            self.store.is_shared() && refused.rule.consistency == Consistency::Local
        };
        let shared: Vec<Op<'_>> = refused
            .iter()
            .zip(charges)
            .filter(|(refused, _)| !is_local(refused))
            .map(|(_, charge)| Op::Settle(charge.as_slice().into()))
            .collect();
        let mut outcomes = self.submit(&shared, now).await.into_iter();
        let count = |(refused, charge): (&Refused<'_>, &[Charge<'_>; 1])| {
            let outcome = if is_local(refused) { None } else { outcomes.next() };
            let results = match outcome {
                Some(Ok(OpOutcome::Settled(settlement))) => settlement.results,
                _ => self.local.settle_now(charge, now).results,
            };
            only(&results)
        };
        refused.iter().zip(charges).map(count).collect()
    }

    /// Counts a refusal locally.
    fn count_refusal_here(&self, charge: &Charge<'_>, now: Timestamp) -> ChargeResult {
        let charges = [*charge];
        let mut settlement = Settlement::default();
        if !self.store.try_settle(&charges.as_slice().into(), now, &mut settlement) {
            settlement = self.local.settle_now(&charges, now);
        }
        only(&settlement.results)
    }
}

/// The result of the only charge. Without one nothing was counted, which bans no client.
fn only(results: &[ChargeResult]) -> ChargeResult {
    results.first().copied().unwrap_or_else(|| {
        let mut result = ChargeResult::default();
        result.report.remaining = 1;
        result
    })
}
