//! Settles each charge of a request: in the shared store, on this node, or, while the store fails, by the rule's
//! `on_store_failure`. The only reader of a store's errors.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, ChargeResult, Key, Limit, Mode, Timestamp};
use tollgate_rules::document::{Consistency, OnStoreFailure};
use tollgate_rules::{Plan, Planned, RuleSet};
use tollgate_store::{
    Histogram, IdempotencyKey, MemoryStore, Op, OpOutcome, Outcomes, Refund, SettleRequest,
    Settlement, Store, StoreError, StoreErrorKind,
};

use crate::clock::Stopwatch;
use crate::local_charges::LocalCharges;

/// Of the requests that are settled at once, one in this many microseconds is timed: reading the clock takes as long
/// as settling.
const SAMPLED: u64 = 16;

/// How the charges of a request were settled.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The results of the charges that were counted.
    pub(crate) settlement: Settlement,
    /// Their indexes in the plan, in ascending order; `None`: those of the settlement.
    numbers: Option<ChargeIndexes>,
    /// The rule that fails closed.
    pub(crate) closed_by: Option<usize>,
    /// Why the shared store did not count.
    pub(crate) degraded: Option<StoreErrorKind>,
}

/// How a request that may be a copy was settled.
#[derive(Debug)]
pub(crate) enum SettleResult {
    Settled(Settled),
    Replayed(Settled, String),
    KeyReused,
}

impl Settled {
    /// A settlement whose charges have these indexes.
    fn of(settlement: Settlement, charges: &[usize]) -> Self {
        let number = |(charge, _)| charges.get(charge).copied();
        let numbers = settlement.numbered().filter_map(number).collect();
        Self { settlement, numbers: Some(numbers), ..Self::default() }
    }

    /// Adds the charges that were settled on this node.
    fn joined_with(mut self, local: &[usize], here: Settlement) -> Self {
        let mut all: SmallVec<[(usize, ChargeResult); 4]> =
            self.numbered().map(|(number, line)| (number, *line)).collect();
        all.extend(local.iter().copied().zip(here.results));
        all.sort_unstable_by_key(|(number, _)| *number);
        let (numbers, results) = all.into_iter().unzip();
        self.settlement.results = results;
        Self { numbers: Some(numbers), ..self }
    }

    /// Whether the request is refused.
    fn is_refused(&self, plan: &Plan) -> bool {
        let refuses = |(line, settled): (usize, &ChargeResult)| {
            !settled.admitted && plan.planned().get(line).is_some_and(is_enforced)
        };
        self.closed_by.is_some() || self.numbered().any(refuses)
    }

    /// The results in the order of the plan, from its first charge on; `None` if some were not counted.
    #[inline]
    pub(crate) fn in_order(&self) -> Option<&[ChargeResult]> {
        let is_whole = self.numbers.is_none() && self.settlement.only.is_none();
        is_whole.then_some(&self.settlement.results[..])
    }

    /// The results, with their indexes in the plan.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &ChargeResult)> {
        let numbers = self.numbers.as_ref();
        self.settlement.numbered().enumerate().filter_map(move |(place, (number, line))| {
            Some((numbers.map_or(Some(number), |all| all.get(place).copied())?, line))
        })
    }
}

/// The store, and counters on this node beside it.
#[derive(Debug)]
pub(crate) struct Settler<S> {
    pub(crate) store: S,
    /// Counts rules of local consistency, and those that fall back to it while the store fails.
    pub(crate) local: MemoryStore,
    /// How long the store takes to settle, if it is measured.
    pub(crate) durations: Option<Arc<Histogram>>,
}

pub(crate) type Charges<'a> = SmallVec<[Charge<'a>; 4]>;
/// Indexes of charges of a plan.
pub(crate) type ChargeIndexes = SmallVec<[usize; 4]>;

impl<S: Store> Settler<S> {
    /// Settles without waiting. `false`: that is not possible, and nothing was charged.
    #[inline]
    pub(crate) fn try_settle(
        &self,
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
        settled: &mut Settled,
    ) -> bool {
        if self.is_mixed(plan, rules) {
            return false;
        }
        // Not collected, which would copy them.
        let mut charges = Charges::new();
        plan.charges(rules).for_each(|charge| charges.push(charge));
        let request = SettleRequest::from(charges.as_slice());
        let stopwatch = self.sampled(now).map(|durations| (durations, Stopwatch::start()));
        let is_settled = self.store.try_settle(&request, now, &mut settled.settlement);
        if let Some((durations, stopwatch)) = stopwatch.filter(|_| is_settled) {
            durations.observe(stopwatch.elapsed());
        }
        is_settled
    }

    #[inline]
    fn sampled(&self, now: Timestamp) -> Option<&Histogram> {
        self.durations.as_deref().filter(|_| now.as_micros().is_multiple_of(SAMPLED))
    }

    /// Settles a request: the counters of this node first, then those of the store, with a refund here
    /// if the store refuses.
    pub(crate) async fn settle(
        &self,
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
        idempotency: Option<&IdempotencyKey<'_>>,
    ) -> SettleResult {
        let indexes = 0..plan.planned().len();
        let (local, shared): (ChargeIndexes, ChargeIndexes) =
            indexes.partition(|line| self.store.is_shared() && is_local(*line, plan, rules));
        let charges = |indexes: &[usize]| -> Charges<'_> {
            indexes.iter().filter_map(|line| plan.charge(*line, rules)).collect()
        };
        let local_charges = charges(&local);
        let here = self.local.settle_now(&local_charges, now);
        let is_refused_here = !here.passed;
        if shared.is_empty() || (is_refused_here && idempotency.is_none()) {
            // Already refused: the store is not called, and its rules are not in the decision.
            return SettleResult::Settled(Settled::of(here, &local));
        }
        let shared_charges = charges(&shared);
        // Already refused, unless it is a copy: the store only reads whether it is.
        let request =
            SettleRequest { charges: &shared_charges, idempotency, is_dry_run: is_refused_here };
        let charged = if is_refused_here { &[][..] } else { &local_charges[..] };
        let unsettled =
            LocalCharges { settler: self, charges: charged, results: &here.results, now };
        let there = self.submit_one(request, now).await;
        unsettled.stay();
        let take_back = |here: Settlement| {
            if is_refused_here { here } else { self.take_back(&local_charges, &here, now) }
        };
        let there = match there {
            Ok(OpOutcome::KeyReused) => {
                take_back(here);
                return SettleResult::KeyReused;
            }
            Ok(OpOutcome::Replayed { settlement, note }) => {
                let settled = Settled::of(settlement, &shared);
                let mut settled = settled.joined_with(&local, take_back(here));
                // The copy passes as the first did, whatever these rules would decide now.
                let planned = plan.planned();
                let numbers = settled.numbers.iter().flatten();
                for (line, number) in settled.settlement.results.iter_mut().zip(numbers) {
                    line.admitted |= planned.get(*number).is_some_and(is_enforced);
                }
                return SettleResult::Replayed(settled, note);
            }
            _ if is_refused_here => return SettleResult::Settled(Settled::of(here, &local)),
            there => there.and_then(OpOutcome::settled),
        };
        let settled = self.or_fall_back(there, &shared, plan, rules, now);
        if local.is_empty() {
            return SettleResult::Settled(settled);
        }
        let here = if settled.is_refused(plan) { take_back(here) } else { here };
        SettleResult::Settled(settled.joined_with(&local, here))
    }

    /// Settles several requests, none of which is mixed, together.
    pub(crate) async fn settle_batch(
        &self,
        requests: &[(&Plan, &RuleSet)],
        now: Timestamp,
    ) -> Vec<Settled> {
        let charges: Vec<Charges<'_>> =
            requests.iter().map(|(plan, rules)| plan.charges(rules).collect()).collect();
        let ops: Vec<Op<'_>> =
            charges.iter().map(|charges| Op::Settle(charges.as_slice().into())).collect();
        let outcomes = self.submit(&ops, now).await;
        let settle = |((plan, rules), outcome): (&(&Plan, &RuleSet), Result<OpOutcome, _>)| {
            let numbers: ChargeIndexes = (0..plan.planned().len()).collect();
            let settlement = outcome.and_then(OpOutcome::settled);
            self.or_fall_back(settlement, &numbers, plan, rules, now)
        };
        requests.iter().zip(outcomes).map(settle).collect()
    }

    /// The results that the charges of a plan would have, in order. None is charged.
    pub(crate) async fn dry_run(
        &self,
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
    ) -> Result<Vec<ChargeResult>, StoreError> {
        let is_local = |line| self.store.is_shared() && is_local(line, plan, rules);
        let charges = |wanted: bool| -> Charges<'_> {
            let all = plan.charges(rules).enumerate();
            all.filter(|(line, _)| is_local(*line) == wanted).map(|(_, charge)| charge).collect()
        };
        let (local, shared) = (charges(true), charges(false));
        let request = |charges| SettleRequest { charges, idempotency: None, is_dry_run: true };
        let mut here = Settlement::default();
        self.local.try_settle(&request(&local), now, &mut here);
        let there = self.submit_one(request(&shared), now).await.and_then(OpOutcome::settled)?;
        let (mut here, mut there) = (here.results.into_iter(), there.results.into_iter());
        let next = |line| if is_local(line) { here.next() } else { there.next() };
        Ok((0..plan.planned().len()).filter_map(next).collect())
    }

    async fn submit_one(
        &self,
        request: SettleRequest<'_>,
        now: Timestamp,
    ) -> Result<OpOutcome, StoreError> {
        let outcome = self.submit(&[Op::Settle(request)], now).await.pop();
        outcome.unwrap_or_else(|| Err(StoreErrorKind::Corrupt.into()))
    }

    /// Submits operations to the store, and measures the time.
    pub(crate) async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        let stopwatch = self.durations.as_ref().map(|durations| (durations, Stopwatch::start()));
        let outcomes = self.store.submit(ops, now).await;
        if let Some((durations, stopwatch)) = stopwatch {
            durations.observe(stopwatch.elapsed());
        }
        outcomes
    }

    /// Whether some charges of a plan are counted on this node, beside a shared store.
    #[inline]
    pub(crate) fn is_mixed(&self, plan: &Plan, rules: &RuleSet) -> bool {
        self.store.is_shared() && (0..plan.planned().len()).any(|line| is_local(line, plan, rules))
    }

    /// Refunds what a decision charged, where it was charged. `asked_at` is the time of the request by the limiter's
    /// clock; the store may have another.
    pub(crate) async fn refund(
        &self,
        refunds: &[Refund<'_>],
        rules: &RuleSet,
        was_degraded: bool,
        asked_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (local, shared): (SmallVec<[_; 4]>, SmallVec<[Refund<'_>; 4]>) = refunds
            .iter()
            .copied()
            .partition(|refund| self.is_counted_here(refund.key.rule, rules, was_degraded));
        for refund in local {
            let charged_at = refund.charged_at.map(|_| asked_at);
            self.local.refund_now(&Refund { charged_at, ..refund }, now);
        }
        if shared.is_empty() {
            return Ok(());
        }
        self.store.refund(&shared, now).await
    }

    /// Charges what a decision did not, where it charged the rest.
    pub(crate) async fn debit(
        &self,
        debits: &[Charge<'_>],
        rules: &RuleSet,
        was_degraded: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (local, shared): (Charges<'_>, Charges<'_>) = debits
            .iter()
            .copied()
            .partition(|debit| self.is_counted_here(debit.key.rule, rules, was_degraded));
        // A debit is never refused.
        let _ = self.local.settle_now(&local, now);
        if shared.is_empty() {
            return Ok(());
        }
        self.submit_one(shared.as_slice().into(), now).await.map(drop)
    }

    fn is_counted_here(&self, rule_id: &str, rules: &RuleSet, was_degraded: bool) -> bool {
        let is_local = || {
            let rule = rules.find_counter(rule_id);
            rule.is_some_and(|rule| rule.consistency == Consistency::Local)
        };
        self.store.is_shared() && (was_degraded || is_local())
    }

    /// Resets counters, wherever they are.
    pub(crate) async fn reset(&self, keys: &[Key<'_>]) -> Result<(), StoreError> {
        keys.iter().for_each(|key| self.local.forget(key));
        self.store.reset(keys).await
    }

    /// Undoes charges on this node, and reads what is left.
    fn take_back(
        &self,
        charges: &[Charge<'_>],
        settled: &Settlement,
        now: Timestamp,
    ) -> Settlement {
        self.refund_local(charges, &settled.results, now);
        let peeks: Charges<'_> =
            charges.iter().map(|charge| Charge { cost: 0, ..*charge }).collect();
        let mut left = self.local.settle_now(&peeks, now);
        for (line, before) in left.results.iter_mut().zip(&settled.results) {
            line.admitted = before.admitted;
        }
        left
    }

    /// Undoes charges on this node.
    pub(crate) fn refund_local(
        &self,
        charges: &[Charge<'_>],
        results: &[ChargeResult],
        now: Timestamp,
    ) {
        let taken = charges.iter().zip(results).filter(|(_, line)| line.admitted);
        for (Charge { key, limit, cost, .. }, _) in taken {
            let refund = Refund { key: *key, limit, units: *cost, charged_at: Some(now) };
            self.local.refund_now(&refund, now);
        }
    }

    /// The settlement by the store, or by each rule without it: any rule that fails closed refuses; then those with a
    /// local fallback count on this node, under a larger limit; those that fail open pass.
    fn or_fall_back(
        &self,
        settlement: Result<Settlement, StoreError>,
        indexes: &[usize],
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
    ) -> Settled {
        let error = match settlement {
            Ok(settlement) => return Settled::of(settlement, indexes),
            Err(error) => error,
        };
        let degraded = Some(error.kind());
        let rule_of = |line: usize| {
            let planned = plan.planned().get(line)?;
            rules.get(planned.rule).map(|rule| (planned, rule))
        };
        let closed_by = indexes.iter().find_map(|line| {
            let (planned, rule) = rule_of(*line)?;
            let closed = rule.on_store_failure == OnStoreFailure::Closed && is_enforced(planned);
            closed.then_some(planned.rule)
        });
        if closed_by.is_some() {
            let settlement = Settlement { now, ..Settlement::default() };
            return Settled { settlement, numbers: None, closed_by, degraded };
        }
        let counted: SmallVec<[(usize, Limit); 4]> = indexes
            .iter()
            .filter_map(|line| {
                let (planned, rule) = rule_of(*line)?;
                let local = rule.on_store_failure == OnStoreFailure::Local;
                local.then(|| (*line, planned.limit(rule).scaled(rule.fallback_factor)))
            })
            .collect();
        let charges: Charges<'_> = counted
            .iter()
            .filter_map(|(line, limit)| Some(Charge { limit, ..plan.charge(*line, rules)? }))
            .collect();
        let settlement = self.local.settle_now(&charges, now);
        let numbers = counted.iter().map(|(line, _)| *line).collect();
        Settled { settlement, numbers: Some(numbers), closed_by: None, degraded }
    }
}

fn is_local(line: usize, plan: &Plan, rules: &RuleSet) -> bool {
    let rule = plan.planned().get(line).and_then(|planned| rules.get(planned.rule));
    rule.is_some_and(|rule| rule.consistency == Consistency::Local)
}

fn is_enforced(planned: &Planned) -> bool {
    planned.mode == Mode::Enforce
}
