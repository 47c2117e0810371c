//! The only place where a request is checked: plan, settle, decide, record.

use std::mem;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tollgate_core::{ChargeResult, Mode, Outcome, Verdict, decide};
use tollgate_rules::{
    Admission, Attributes, ExplainScope, PathCase, Plan, Planned, Policy, Revision,
};
use tollgate_store::{IdempotencyKey, MemoryStore, Store};

use crate::builder::{InvalidPolicy, LimiterBuilder, Unmatched};
use crate::checked::{Checked, Promise};
use crate::clock::{Clock, SystemClock};
use crate::decision::{Decision, DecisionParts, DecisionReason, RuleResult, fallback_surplus};
use crate::explain::{Explained, record_keys};
use crate::penalty::{Banning, Penalties};
use crate::settler::{SettleResult, Settled, Settler};
use crate::snapshot::Snapshot;
use crate::soft::{SoftState, WarningState};
use crate::stats::{Event, RuleCounters, RuleCounts};
use crate::target::{CheckTarget, Peek};

/// Checks requests against a policy.
///
/// Checking cannot fail: a store that fails becomes a value inside the [`Decision`]. A limiter is
/// shared by reference or in an `Arc`; all methods take `&self`.
#[derive(Debug)]
pub struct Limiter<S = MemoryStore, C = SystemClock> {
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) settler: Settler<S>,
    pub(crate) clock: C,
    pub(crate) warned: WarningState,
    pub(crate) penalties: Penalties,
    pub(crate) banning: Banning,
    pub(crate) path_case: PathCase,
    pub(crate) unmatched: Unmatched,
    /// Keyed at random, so that no client can choose identifiers that share another client's counter.
    pub(crate) hasher: RandomState,
    /// The limiter itself, if it finishes checks whose callers left.
    pub(crate) this: Weak<Self>,
}

impl Limiter {
    /// A limiter with counters in memory and a policy in YAML or JSON.
    ///
    /// # Errors
    /// Everything that is wrong with the policy.
    pub fn from_text(policy: &str) -> Result<Self, InvalidPolicy> {
        Ok(Self::new(Policy::from_text(policy).map_err(InvalidPolicy)?))
    }

    /// A limiter with counters in memory.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::builder().policy(policy).build()
    }

    /// A limiter with a store, a clock or a memory cap of your choice.
    #[must_use]
    pub fn builder() -> LimiterBuilder {
        LimiterBuilder::default()
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Checks a request and charges it to every rule that applies, or to none. Ready at once if the store can decide
    /// without waiting; otherwise nothing is charged before the result is awaited.
    ///
    /// To read what is left without charging, check a [`Peek`](crate::Peek).
    #[inline]
    pub fn check<'t>(&self, target: impl Into<CheckTarget<'t>>) -> Checked<'_, S> {
        self.check_target(target.into(), true)
    }

    /// Checks and charges like [`Limiter::check`], but leaves the statistics as they are: for a further charge of a
    /// request that they have counted already, or one that they count later.
    pub fn check_unrecorded<'t>(&self, target: impl Into<CheckTarget<'t>>) -> Checked<'_, S> {
        self.check_target(target.into(), false)
    }

    /// A decision with its plan, which has not been settled yet.
    pub(crate) fn planned(&self, target: CheckTarget<'_>) -> Decision {
        let mut decision = self.pending();
        self.plan(&mut decision, target);
        decision
    }

    #[inline]
    fn pending(&self) -> Decision {
        Decision::pending(self.snapshot.load(), self.clock.now())
    }

    /// Plans a decision in place: it is large, and copies of it are measurable.
    #[inline]
    fn plan(&self, decision: &mut Decision, target: CheckTarget<'_>) {
        let Decision { snapshot, parts } = decision;
        let DecisionParts { plan, asked_at: now, .. } = &mut **parts;
        target.plan_into(plan, &snapshot.policy, *now, &self.hasher);
        self.refuse_unmatched(plan, target);
    }

    /// Refuses a request that no rule applies to, if that is set.
    #[inline]
    pub(crate) fn refuse_unmatched(&self, plan: &mut Plan, target: CheckTarget<'_>) {
        if self.unmatched == Unmatched::Deny
            && plan.planned().is_empty()
            && plan.admission == Admission::Judge
            && target.is_by_rules_that_apply()
        {
            plan.admission = Admission::Unmatched;
        }
    }

    #[inline]
    fn check_target(&self, target: CheckTarget<'_>, is_recorded: bool) -> Checked<'_, S> {
        // Planned and settled where it is returned: a decision is large, and copies of it are measurable.
        let mut checked = Checked::Ready(self.pending());
        let is_settled = match &mut checked {
            Checked::Ready(decision) => {
                self.plan(decision, target);
                self.try_settle(decision, is_recorded)
            }
            Checked::Pending(_) => true,
        };
        if !is_settled {
            self.settle_later(&mut checked, is_recorded);
        }
        checked
    }

    /// Settles a decision that has its plan, once it is awaited.
    #[cold]
    fn settle_later<'s>(&'s self, checked: &mut Checked<'s, S>, is_recorded: bool) {
        let Checked::Ready(decision) = checked else { return };
        let pending = Decision::pending(self.snapshot.load(), decision.parts.asked_at);
        let mut decision = mem::replace(decision, pending);
        *checked = match self.this.upgrade() {
            Some(this) => Checked::uncancelled(async move {
                this.settle(&mut decision, is_recorded).await;
                decision
            }),
            None => Checked::pending(async move {
                self.settle(&mut decision, is_recorded).await;
                decision
            }),
        };
    }

    /// Explains whether a request would pass, whether each rule applies and why, what is left of those that do, and
    /// which one binds. Charges nothing.
    pub fn explain(&self, request: &dyn Attributes) -> Promise<'_, Explained, S> {
        self.explain_within(request, ExplainScope::All)
    }

    /// Explains only the rules within `scope`.
    pub fn explain_within(
        &self,
        request: &dyn Attributes,
        scope: ExplainScope,
    ) -> Promise<'_, Explained, S> {
        let mut peek = self.planned(CheckTarget::Request(&Peek(request)));
        let (policy, now) = (&peek.snapshot.policy, peek.parts.asked_at);
        let explanation = policy.explain_within(request, now, scope);
        let plan = policy.plan(&[request], now, &self.hasher);
        Promise::run(self.store(), async move {
            self.settle(&mut peek, true).await;
            let tried = self.dry_run(&peek, &plan).await;
            let keys = record_keys(self.store(), &plan, peek.snapshot.policy.rules());
            Explained::new(explanation, &peek, &tried, &keys)
        })
    }

    /// The outcome of each rule at the cost of a request; empty if no rule applies or the store fails.
    async fn dry_run(&self, peek: &Decision, plan: &Plan) -> Vec<Outcome> {
        if *peek.reason() != DecisionReason::Rules {
            return Vec::new();
        }
        let rules = peek.snapshot.policy.rules();
        let results = self.settler.dry_run(plan, rules, peek.parts.asked_at).await;
        let results = plan.planned().iter().zip(results.unwrap_or_default());
        let outcome = |(planned, line): (&Planned, ChargeResult)| {
            let rule = rules.get(planned.rule)?;
            Some(planned.outcome(rule, peek.parts.now, line.admitted, line.report))
        };
        results.filter_map(outcome).collect()
    }

    /// Puts another policy in force, atomically. Counters, statistics and bans are kept.
    pub fn install(&self, policy: &Policy) -> Revision {
        self.install_under_bans(&policy.clone().with_path_case(self.path_case));
        policy.revision()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.snapshot.load().policy.clone()
    }

    /// How often each rule admitted, refused, warned. Candidates follow their rules.
    #[must_use]
    pub fn stats(&self) -> Vec<(Arc<str>, RuleCounts)> {
        let snapshot = self.snapshot.load();
        let ids = snapshot.policy.rules().iter().map(|rule| Arc::clone(&rule.id));
        ids.zip(snapshot.stats.iter().map(RuleCounters::read)).collect()
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.settler.store
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// Settles a decision that has its plan.
    pub(crate) async fn settle(&self, decision: &mut Decision, is_recorded: bool) {
        let settled = self.settle_with(decision, None).await;
        self.conclude(decision, &only_settled(settled));
        if is_recorded {
            self.record(decision);
        }
    }

    pub(crate) async fn settle_with(
        &self,
        decision: &Decision,
        idempotency: Option<&IdempotencyKey<'_>>,
    ) -> SettleResult {
        let Decision { snapshot, parts } = decision;
        let DecisionParts { plan, asked_at: now, .. } = &**parts;
        if !plan.is_to_be_counted() {
            return SettleResult::Settled(Settled::default());
        }
        self.settler.settle(plan, snapshot.policy.rules(), *now, idempotency).await
    }

    /// Settles a decision without waiting; `false`: that is not possible, and nothing was charged.
    #[inline]
    pub(crate) fn try_settle(&self, decision: &mut Decision, is_recorded: bool) -> bool {
        let Decision { snapshot, parts } = &*decision;
        let DecisionParts { plan, asked_at: now, .. } = &**parts;
        let mut settled = Settled::default();
        if plan.is_to_be_counted()
            && !self.settler.try_settle(plan, snapshot.policy.rules(), *now, &mut settled)
        {
            return false;
        }
        self.conclude(decision, &settled);
        if is_recorded {
            self.record(decision);
        }
        true
    }

    /// Counts the outcome of each rule. A rule that fitted while another refused is not counted, nor is a peek.
    pub(crate) fn record(&self, decision: &Decision) {
        if let DecisionReason::Banned { rule, .. } = decision.parts.reason {
            decision.record_ban(rule);
        }
        for result in &decision.parts.results {
            let Some(planned) = decision.planned(result).filter(|it| it.cost > 0) else { continue };
            let Some(stats) = decision.snapshot.stats.get(planned.rule) else { continue };
            match (result.admitted, result.mode) {
                (true, _) if !decision.is_allowed() => continue,
                (true, _) => stats.count(Event::Admitted),
                (false, Mode::Shadow) => {
                    if decision.is_would_refuse_counted(planned.rule) {
                        stats.count(Event::WouldRefuse);
                    }
                }
                (false, _) => {
                    stats.count(Event::Refused);
                    let rule = decision.snapshot.policy.rules().get(planned.rule);
                    if let Some(rule) = rule.filter(|rule| rule.penalty.is_some()) {
                        self.note_refusal(decision, result.line, rule);
                    }
                }
            }
            match result.soft {
                SoftState::Warning if result.admitted => stats.count(Event::Warned),
                SoftState::Throttled if result.admitted => stats.count(Event::Delayed),
                SoftState::Normal | SoftState::Warning | SoftState::Throttled => {}
            }
        }
        if decision.parts.degraded.is_some() {
            decision.record_fallbacks();
        }
    }

    /// Fills in the result of a plan that was settled.
    #[inline]
    pub(crate) fn conclude(&self, decision: &mut Decision, settled: &Settled) {
        let refused = Verdict { admitted: false, binding: None, delay: None };
        let allowed = Verdict { admitted: true, ..refused };
        let Decision { snapshot, parts } = decision;
        let DecisionParts { plan, results, .. } = &mut **parts;
        let (verdict, reason) = match &plan.admission {
            Admission::Allowed { reason } => {
                (allowed, DecisionReason::AllowListed { reason: reason.clone() })
            }
            Admission::Denied { reason, expires_at } => {
                let (reason, expires_at) = (reason.clone(), *expires_at);
                (refused, DecisionReason::DenyListed { reason, expires_at })
            }
            Admission::Missing { rule } => {
                (refused, DecisionReason::MissingIdentifier { rule: *rule })
            }
            Admission::Banned { rule, until } => {
                (refused, DecisionReason::Banned { rule: *rule, until: *until })
            }
            Admission::Unmatched => (refused, DecisionReason::NoRule),
            Admission::Judge => match settled.closed_by {
                Some(rule) => (refused, DecisionReason::StoreUnavailable { rule }),
                None if plan.planned().is_empty() => (allowed, DecisionReason::NoRule),
                None => {
                    self.rule_results(snapshot, plan, settled, results);
                    (decide(results.iter().map(RuleResult::vote)), DecisionReason::Rules)
                }
            },
        };
        decision.parts.verdict = verdict;
        decision.parts.reason = reason;
        decision.parts.degraded = settled.degraded;
        if !decision.parts.results.is_empty() {
            decision.parts.now = settled.settlement.now;
        }
    }

    /// Joins each result with its rule's figures and soft state.
    #[inline]
    fn rule_results(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        settled: &Settled,
        results: &mut SmallVec<[RuleResult; 4]>,
    ) {
        let (rules, is_degraded) = (snapshot.policy.rules(), settled.degraded.is_some());
        let mut join = |line: usize, planned: &Planned, settled: &ChargeResult| {
            let Some(rule) = rules.get(planned.rule) else { return };
            let surplus = if is_degraded { fallback_surplus(rule, planned.limit(rule)) } else { 0 };
            let soft = self.warned.update(rule, planned, settled, surplus);
            let (limit, mode) = (planned.limit(rule).capacity(), planned.mode);
            let ChargeResult { admitted, report, .. } = *settled;
            results.push(RuleResult { line, limit, report, mode, admitted, soft });
        };
        // Nearly always all of them.
        if let Some(all) = settled.in_order() {
            for (line, (planned, result)) in plan.planned().iter().zip(all).enumerate() {
                join(line, planned, result);
            }
            return;
        }
        for (line, result) in settled.numbered() {
            if let Some(planned) = plan.planned().get(line) {
                join(line, planned, result);
            }
        }
    }
}

/// A request without an idempotency key is never a copy.
fn only_settled(result: SettleResult) -> Settled {
    match result {
        SettleResult::Settled(settled) | SettleResult::Replayed(settled, _) => settled,
        SettleResult::KeyReused => Settled::default(),
    }
}

impl Decision {
    /// Counts a request of a banned client, unless it is a peek.
    fn record_ban(&self, rule: usize) {
        let costs = |planned: &Planned| planned.rule == rule && planned.cost > 0;
        if let Some(stats) = self.snapshot.stats.get(rule)
            && self.parts.plan.planned().iter().any(costs)
        {
            stats.count(Event::Banned);
        }
    }
}
