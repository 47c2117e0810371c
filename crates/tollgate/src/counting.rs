//! Where each charge of a request is counted: in the shared store, on this node, or, while the
//! store is away, wherever its rule says. The only reader of a store's errors.

use std::hash::BuildHasher;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{Algorithm, Charge, Key, Limit, Line, Micros, Mode, Quota, Timestamp};
use tollgate_rules::document::{Consistency, OnStoreFailure};
use tollgate_rules::{Plan, RuleSet};
use tollgate_store::{MemoryStore, Refund, Settlement, Store, StoreError, StoreErrorKind};

/// What became of a request's charges.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) now: Timestamp,
    /// The lines that were counted.
    pub(crate) lines: SmallVec<[Line; 4]>,
    /// Their numbers in the plan, in ascending order; `None`: every line was counted.
    pub(crate) numbers: Option<Numbers>,
    /// The rule that refuses because it could not be counted.
    pub(crate) closed_by: Option<usize>,
    /// Why the shared store had no say.
    pub(crate) degraded: Option<StoreErrorKind>,
}

impl Counted {
    /// What was counted on this node alone.
    pub(crate) fn of_own(settled: Settlement, numbers: Numbers, now: Timestamp) -> Self {
        Self { now, lines: settled.lines, numbers: Some(numbers), ..Self::default() }
    }

    /// With what was counted on this node besides.
    pub(crate) fn joined_with(self, own: &[usize], own_settled: Settlement) -> Self {
        let mut all: SmallVec<[(usize, Line); 4]> =
            self.numbered().map(|(number, line)| (number, *line)).collect();
        all.extend(own.iter().copied().zip(own_settled.lines));
        all.sort_unstable_by_key(|(number, _)| *number);
        let (numbers, lines) = all.into_iter().unzip();
        Self { lines, numbers: Some(numbers), ..self }
    }

    /// Whether the request does not pass.
    pub(crate) fn is_refused(&self, plan: &Plan) -> bool {
        let refuses = |(line, counted): (usize, &Line)| {
            !counted.admitted && plan.planned().get(line).is_some_and(is_enforced)
        };
        self.closed_by.is_some() || self.numbered().any(refuses)
    }

    /// The lines, with their numbers in the plan.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        let numbers = self.numbers.as_ref();
        let number = move |place: usize| numbers.map_or(Some(place), |all| all.get(place).copied());
        let lines = self.lines.iter().enumerate();
        lines.filter_map(move |(place, line)| Some((number(place)?, line)))
    }
}

/// The shared store, and one of our own beside it.
#[derive(Debug)]
pub(crate) struct Counting<S> {
    pub(crate) shared: S,
    /// Counts rules of local consistency, and all others while the shared store is away.
    pub(crate) own: MemoryStore,
}

pub(crate) type Charges<'a> = SmallVec<[Charge<'a>; 4]>;
/// Numbers of lines of a plan.
pub(crate) type Numbers = SmallVec<[usize; 4]>;

impl<S: Store> Counting<S> {
    pub(crate) async fn settle(&self, plan: &Plan, rules: &RuleSet, now: Timestamp) -> Counted {
        if self.is_mixed(plan, rules) {
            let lines = 0..plan.planned().len();
            let (own, shared): (Numbers, Numbers) =
                lines.partition(|line| Self::is_local(*line, plan, rules));
            return self.settle_mixed(&own, &shared, plan, rules, now).await;
        }
        let charges: Charges<'_> = plan.charges(rules).collect();
        let settled = self.shared.settle(&charges, now).await;
        self.counted_all(settled, plan, rules, now)
    }

    /// What would become of each charge of a plan if it were made now. None is: beside each stands one
    /// that nothing can pay.
    pub(crate) async fn try_out(
        &self,
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
        hasher: &impl BuildHasher,
    ) -> Result<Vec<Line>, StoreError> {
        let blocked = Quota::new(Algorithm::FixedWindow, 0, Micros::from_secs(1)).compile();
        let Ok(blocked) = blocked else { return Ok(Vec::new()) };
        let is_mixed = self.is_mixed(plan, rules);
        let mut lines = Vec::new();
        for (number, charge) in plan.charges(rules).enumerate() {
            // No rule has an empty name, so every store can tell that this is only tried.
            let key = Key::new(hasher, "", charge.key.subject, &[]);
            let never = Charge { key, limit: &blocked, cost: 1, mode: Mode::Enforce };
            let charges = [charge, never];
            let settled = if is_mixed && Self::is_local(number, plan, rules) {
                self.own.settle(&charges, now).await
            } else {
                self.shared.settle(&charges, now).await
            };
            lines.extend(settled?.lines.into_iter().next());
        }
        Ok(lines)
    }

    /// Whether a plan is to be counted here as well as in the shared store.
    pub(crate) fn is_mixed(&self, plan: &Plan, rules: &RuleSet) -> bool {
        self.shared.is_shared()
            && (0..plan.planned().len()).any(|line| Self::is_local(line, plan, rules))
    }

    pub(crate) fn is_local(line: usize, plan: &Plan, rules: &RuleSet) -> bool {
        let rule = plan.planned().get(line).and_then(|planned| rules.get(planned.rule));
        rule.is_some_and(|rule| rule.consistency == Consistency::Local)
    }

    /// Charges the counters of this node first, then the shared ones, and gives back on a refusal.
    async fn settle_mixed(
        &self,
        own: &[usize],
        shared: &[usize],
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
    ) -> Counted {
        let charges = |lines: &[usize]| -> Charges<'_> {
            lines.iter().filter_map(|line| plan.charge(*line, rules)).collect()
        };
        let own_charges = charges(own);
        let own_settled = self.own.settle_now(&own_charges, now);
        if !own_settled.passed || shared.is_empty() {
            // Refused already: the shared counters are not asked, and stay out of the decision.
            return Counted::of_own(own_settled, own.into(), now);
        }
        let settled = self.shared.settle(&charges(shared), now).await;
        let counted = self.counted(settled, shared, plan, rules, now);
        let own_settled = if counted.is_refused(plan) {
            self.take_back(&own_charges, &own_settled, now)
        } else {
            own_settled
        };
        counted.joined_with(own, own_settled)
    }

    /// Gives back what a decision charged, where it was charged. `asked_at` is the moment of the
    /// request by our clock; the store may have one of its own.
    pub(crate) async fn refund(
        &self,
        refunds: &[Refund<'_>],
        rules: &RuleSet,
        was_degraded: bool,
        asked_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let is_own = |refund: &Refund<'_>| {
            let rule = rules.find(refund.key.rule);
            self.shared.is_shared()
                && (was_degraded || rule.is_some_and(|rule| rule.consistency == Consistency::Local))
        };
        let (own, shared): (SmallVec<[_; 4]>, SmallVec<[Refund<'_>; 4]>) =
            refunds.iter().copied().partition(is_own);
        for refund in own {
            let charged_at = refund.charged_at.map(|_| asked_at);
            self.own.refund_now(&Refund { charged_at, ..refund }, now);
        }
        if shared.is_empty() { Ok(()) } else { self.shared.refund(&shared, now).await }
    }

    /// Forgets counters, wherever they are.
    pub(crate) async fn reset(&self, keys: &[Key<'_>]) -> Result<(), StoreError> {
        keys.iter().for_each(|key| self.own.forget(key));
        self.shared.reset(keys).await
    }

    /// Undoes charges on this node that were settled, and looks at what is left.
    pub(crate) fn take_back(
        &self,
        charges: &[Charge<'_>],
        settled: &Settlement,
        now: Timestamp,
    ) -> Settlement {
        let taken = charges.iter().zip(&settled.lines).filter(|(_, line)| line.admitted);
        for (Charge { key, limit, cost, .. }, _) in taken {
            self.own
                .refund_now(&Refund { key: *key, limit, units: *cost, charged_at: Some(now) }, now);
        }
        let looks: Charges<'_> =
            charges.iter().map(|charge| Charge { cost: 0, ..*charge }).collect();
        let mut left = self.own.settle_now(&looks, now);
        for (line, before) in left.lines.iter_mut().zip(&settled.lines) {
            line.admitted = before.admitted;
        }
        left
    }

    /// Reads what the shared store answered about a whole plan, or does without it.
    pub(crate) fn counted_all(
        &self,
        settled: Result<Settlement, StoreError>,
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
    ) -> Counted {
        if let Ok(Settlement { now, lines, only, .. }) = settled {
            let numbers = only.map(|only| smallvec![only]);
            return Counted { now, lines, numbers, ..Counted::default() };
        }
        let numbers: Numbers = (0..plan.planned().len()).collect();
        self.counted(settled, &numbers, plan, rules, now)
    }

    /// Reads what the shared store answered, or does without it.
    pub(crate) fn counted(
        &self,
        settled: Result<Settlement, StoreError>,
        lines: &[usize],
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
    ) -> Counted {
        match settled {
            Ok(settlement) => {
                let number = |(charge, _)| lines.get(charge).copied();
                let numbers = settlement.numbered().filter_map(number).collect();
                let Settlement { now, lines, .. } = settlement;
                Counted { now, lines, numbers: Some(numbers), ..Counted::default() }
            }
            Err(error) => {
                let counted = self.without_store(lines, plan, rules, now);
                Counted { degraded: Some(error.kind()), ..counted }
            }
        }
    }

    /// Does what each rule says about a store that is away: any rule that is `closed` refuses; then
    /// those that count on this node do so, under a larger limit; the `open` ones pass.
    fn without_store(
        &self,
        lines: &[usize],
        plan: &Plan,
        rules: &RuleSet,
        now: Timestamp,
    ) -> Counted {
        let rule_of = |line: usize| {
            let planned = plan.planned().get(line)?;
            rules.get(planned.rule).map(|rule| (planned, rule))
        };
        let closed_by = lines.iter().find_map(|line| {
            let (planned, rule) = rule_of(*line)?;
            let closed = rule.on_store_failure == OnStoreFailure::Closed && is_enforced(planned);
            closed.then_some(planned.rule)
        });
        if closed_by.is_some() {
            return Counted { now, closed_by, ..Counted::default() };
        }
        let counted: SmallVec<[(usize, Limit); 4]> = lines
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
        let settlement = self.own.settle_now(&charges, now);
        let numbers = counted.iter().map(|(line, _)| *line).collect();
        Counted { now, lines: settlement.lines, numbers: Some(numbers), ..Counted::default() }
    }
}

fn is_enforced(planned: &tollgate_rules::Planned) -> bool {
    planned.mode == Mode::Enforce
}
