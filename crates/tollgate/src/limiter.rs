//! The only place where a request is judged: plan, settle, decide, record.

use std::future::Future;
use std::sync::Arc;

use arc_swap::ArcSwap;
use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tollgate_core::{Charge, Judgement, Line, Mode, Outcome, Timestamp, decide};
use tollgate_rules::{
    Attributes, ExplainScope, PathCase, Plan, Planned, Policy, Revision, Standing,
};
use tollgate_store::{MemoryStore, Store};

use crate::builder::{InvalidPolicy, LimiterBuilder};
use crate::clock::{Clock, SystemClock};
use crate::counting::{Counted, Counting};
use crate::decision::{Basis, Decision, Judged};
use crate::explain::Explained;
use crate::installed::Installed;
use crate::penalty::{Banning, Penalties};
use crate::question::{Peek, Question};
use crate::soft::{SoftState, Warned};
use crate::stats::{Event, RuleCounts};

/// Judges requests by a policy.
///
/// Checking cannot fail: a store that is away becomes a value inside the [`Decision`]. A limiter is
/// shared by reference or in an `Arc`; all methods take `&self`.
#[derive(Debug)]
pub struct Limiter<S = MemoryStore, C = SystemClock> {
    pub(crate) installed: ArcSwap<Installed>,
    pub(crate) counting: Counting<S>,
    pub(crate) clock: C,
    pub(crate) warned: Warned,
    pub(crate) penalties: Penalties,
    pub(crate) banning: Banning,
    pub(crate) path_case: PathCase,
    /// Keyed at random, so that nobody can make two clients share a counter on purpose.
    pub(crate) hasher: RandomState,
}

impl Limiter {
    /// A limiter with counters in memory, by a policy in YAML or JSON.
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
    /// Judges a request and charges it to every rule that applies, or to none.
    pub fn check(&self, request: &dyn Attributes) -> impl Future<Output = Decision> + Send {
        self.check_all(&[request])
    }

    /// Judges a question by whatever it is to be judged by.
    pub fn answer(
        &self,
        question: Question<'_>,
    ) -> impl Future<Output = Decision> + Send + use<'_, S, C> {
        let mut decision = self.planned(question);
        async move {
            self.settle(&mut decision).await;
            decision
        }
    }

    /// [`Limiter::answer`] at once, if the counters are in memory. `None`: they are not, and nothing
    /// was judged.
    #[inline]
    pub fn answer_at_once(&self, question: Question<'_>) -> Option<Decision> {
        if !self.counting.shared.is_immediate() {
            return None;
        }
        let mut decision = self.planned(question);
        self.settle_at_once(&mut decision).then_some(decision)
    }

    /// Charges like [`Limiter::answer`], but leaves the statistics as they are: for a further charge of
    /// a request that they have counted already, or one that they count later.
    pub fn charge_uncounted(
        &self,
        question: Question<'_>,
    ) -> impl Future<Output = Decision> + Send + use<'_, S, C> {
        let mut decision = self.planned(question);
        async move {
            let Decision { installed, plan, asked_at: now, .. } = &decision;
            let counted = if plan.is_to_be_counted() {
                self.counting.settle(plan, installed.policy.rules(), *now).await
            } else {
                Counted::default()
            };
            self.conclude(&mut decision, &counted);
            decision
        }
    }

    #[inline]
    pub(crate) fn planned(&self, question: Question<'_>) -> Decision {
        let now = self.clock.now();
        let mut decision = Decision::pending(self.installed.load_full(), now);
        let Decision { installed, plan, .. } = &mut decision;
        question.plan_into(plan, &installed.policy, now, &self.hasher);
        decision
    }

    /// Judges several views of one request together: all or nothing over all of them.
    pub fn check_all(
        &self,
        subjects: &[&dyn Attributes],
    ) -> impl Future<Output = Decision> + Send + use<'_, S, C> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let plan = installed.policy.plan(subjects, now, &self.hasher);
        self.judge(installed, plan, now)
    }

    /// Judges a request by one rule, whatever the conditions of that rule. `None`: there is no such
    /// rule.
    pub fn check_rule(
        &self,
        rule_id: &str,
        request: &dyn Attributes,
    ) -> Option<impl Future<Output = Decision> + Send + use<'_, S, C>> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let plan = installed.policy.plan_rule(rule_id, request, now, &self.hasher)?;
        Some(self.judge(installed, plan, now))
    }

    /// Looks at what a request would meet, without charging it.
    pub fn peek(&self, request: &dyn Attributes) -> impl Future<Output = Decision> + Send {
        self.check_all(&[&Peek(request)])
    }

    /// [`Limiter::peek`] as if no rule had banned the client: what is left of its limits.
    pub fn peek_unbanned(
        &self,
        request: &dyn Attributes,
    ) -> impl Future<Output = Decision> + Send + use<'_, S, C> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let mut plan = installed.policy.plan(&[&Peek(request)], now, &self.hasher);
        if matches!(plan.standing, Standing::Banned { .. }) {
            plan.standing = Standing::Judge;
        }
        self.judge(installed, plan, now)
    }

    /// Says whether a request would pass, of every rule whether it applies to it and why, what is left
    /// of those that do, and which one binds. Charges nothing.
    pub fn explain(
        &self,
        request: &dyn Attributes,
    ) -> impl Future<Output = Explained> + Send + use<'_, S, C> {
        self.explain_within(request, ExplainScope::All)
    }

    /// Explains only the rules within `scope`.
    pub fn explain_within(
        &self,
        request: &dyn Attributes,
        scope: ExplainScope,
    ) -> impl Future<Output = Explained> + Send + use<'_, S, C> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let explanation = installed.policy.explain_within(request, now, scope);
        let look = installed.policy.plan(&[&Peek(request)], now, &self.hasher);
        let plan = installed.policy.plan(&[request], now, &self.hasher);
        async move {
            let peek = self.judge(installed, look, now).await;
            let tried = self.try_out(&peek, &plan).await;
            Explained::new(explanation, &peek, &tried)
        }
    }

    /// How each rule would see a request at its cost; nothing if no rule is asked, or none can be.
    async fn try_out(&self, peek: &Decision, plan: &Plan) -> Vec<Outcome> {
        if *peek.basis() != Basis::Rules {
            return Vec::new();
        }
        let rules = peek.installed.policy.rules();
        let tried = self.counting.try_out(plan, rules, peek.asked_at, &self.hasher).await;
        let lines = plan.planned().iter().zip(tried.unwrap_or_default());
        let outcome = |(planned, line): (&Planned, Line)| {
            Some(planned.outcome(rules.get(planned.rule)?, line.admitted, line.report))
        };
        lines.filter_map(outcome).collect()
    }

    /// Puts another policy in force, at once and as a whole. Counters, statistics and bans go on.
    pub fn install(&self, policy: &Policy) -> Revision {
        self.install_under_bans(&policy.clone().with_path_case(self.path_case));
        policy.revision()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.installed.load().policy.clone()
    }

    /// How often each rule admitted, refused, warned.
    #[must_use]
    pub fn stats(&self) -> Vec<(Arc<str>, RuleCounts)> {
        let installed = self.installed.load();
        let ids = installed.policy.rules().iter().map(|rule| Arc::clone(&rule.id));
        ids.zip(installed.stats.iter().map(|stats| stats.read())).collect()
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.counting.shared
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    async fn judge(&self, installed: Arc<Installed>, plan: Plan, now: Timestamp) -> Decision {
        let mut decision = Decision { plan, ..Decision::pending(installed, now) };
        self.settle(&mut decision).await;
        decision
    }

    /// Makes a decision that has its plan.
    pub(crate) async fn settle(&self, decision: &mut Decision) {
        let Decision { installed, plan, asked_at: now, .. } = &*decision;
        let counted = if plan.is_to_be_counted() {
            self.counting.settle(plan, installed.policy.rules(), *now).await
        } else {
            Counted::default()
        };
        self.decide(decision, &counted);
    }

    /// The same without waiting; `false`: the store cannot, and nothing was charged.
    #[inline]
    pub(crate) fn settle_at_once(&self, decision: &mut Decision) -> bool {
        let now = decision.asked_at;
        let mut counted = Counted { now, ..Counted::default() };
        if decision.plan.is_to_be_counted() {
            let charges = decision.charges();
            if !self.counting.shared.settle_at_once(&charges, now, &mut counted.lines) {
                return false;
            }
        }
        self.decide(decision, &counted);
        true
    }

    /// Fills in what is to be said about a plan that was counted, and notes it.
    #[inline]
    pub(crate) fn decide(&self, decision: &mut Decision, counted: &Counted) {
        self.conclude(decision, counted);
        self.record(decision);
    }

    /// Counts what each rule said. A rule that fitted while another refused was not asked in the
    /// end, and whoever only looks is not counted.
    pub(crate) fn record(&self, decision: &Decision) {
        if let Basis::Banned { rule, .. } = decision.basis {
            decision.record_ban(rule);
        }
        for Judged { line, outcome, soft } in &decision.lines {
            let Some(stats) = decision.installed.stats.get(outcome.rule) else { continue };
            if outcome.cost == 0 {
                continue;
            }
            match (outcome.admitted, outcome.mode) {
                (true, _) if !decision.is_allowed() => continue,
                (true, _) => stats.count(Event::Admitted),
                (false, Mode::Shadow) => stats.count(Event::WouldRefuse),
                (false, _) => {
                    stats.count(Event::Refused);
                    let rule = decision.installed.policy.rules().get(outcome.rule);
                    if let Some(rule) = rule.filter(|rule| rule.penalty.is_some()) {
                        self.note_refusal(decision, *line, rule);
                    }
                }
            }
            match soft {
                SoftState::Warning if outcome.admitted => stats.count(Event::Warned),
                SoftState::Normal | SoftState::Warning => {}
                SoftState::Throttled => stats.count(Event::Delayed),
            }
        }
        if decision.degraded.is_some() {
            decision.record_fallbacks();
        }
    }

    /// Fills in what is to be said about a plan that was counted. In place: a decision is large, and
    /// every copy of it shows.
    #[inline]
    pub(crate) fn conclude(&self, decision: &mut Decision, counted: &Counted) {
        let refused = Judgement { admitted: false, binding: None, delay: None };
        let allowed = Judgement { admitted: true, ..refused };
        let Decision { installed, plan, lines, .. } = decision;
        let (judgement, basis) = match &plan.standing {
            Standing::Allowed { reason } => {
                (allowed, Basis::AllowListed { reason: reason.clone() })
            }
            Standing::Denied { reason, expires_at } => {
                let (reason, expires_at) = (reason.clone(), *expires_at);
                (refused, Basis::DenyListed { reason, expires_at })
            }
            Standing::Missing { rule } => (refused, Basis::MissingIdentifier { rule: *rule }),
            Standing::Banned { rule, until } => {
                (refused, Basis::Banned { rule: *rule, until: *until })
            }
            Standing::Judge => match counted.closed_by {
                Some(rule) => (refused, Basis::StoreUnavailable { rule }),
                None if plan.planned().is_empty() => (allowed, Basis::NoRule),
                None => {
                    lines.extend(self.judged(installed, plan, counted));
                    (decide(lines.iter().map(|judged| &judged.outcome)), Basis::Rules)
                }
            },
        };
        decision.judgement = judgement;
        decision.basis = basis;
        decision.degraded = counted.degraded;
        if !decision.lines.is_empty() {
            decision.now = counted.now;
        }
    }

    /// Joins each counted line with its rule's figures and soft state.
    fn judged<'a>(
        &'a self,
        installed: &'a Installed,
        plan: &'a Plan,
        counted: &'a Counted,
    ) -> impl Iterator<Item = Judged> + 'a {
        let rules = installed.policy.rules();
        counted.numbered().filter_map(move |(line, settled)| {
            let planned = plan.planned().get(line)?;
            let rule = rules.get(planned.rule)?;
            let outcome = planned.outcome(rule, settled.admitted, settled.report);
            let soft = self.warned.judge(rule.soft, &outcome, planned.fingerprint());
            Some(Judged { line, outcome, soft })
        })
    }
}

impl<C: Clock> Limiter<MemoryStore, C> {
    /// [`Limiter::check`] without `async`: counters in memory never wait.
    pub fn check_now(&self, request: &dyn Attributes) -> Decision {
        let mut decision = self.planned(Question::Request(request));
        self.settle_at_once(&mut decision);
        decision
    }
}

impl Decision {
    /// What is to be charged; nothing, if there is nothing to count.
    #[inline]
    pub(crate) fn charges(&self) -> SmallVec<[Charge<'_>; 4]> {
        let mut charges = SmallVec::new();
        if self.plan.is_to_be_counted() {
            charges.extend(self.plan.charges(self.installed.policy.rules()));
        }
        charges
    }

    /// Counts a request of a banned client, unless it only looks.
    fn record_ban(&self, rule: usize) {
        let costs = |planned: &Planned| planned.rule == rule && planned.cost > 0;
        if let Some(stats) = self.installed.stats.get(rule)
            && self.plan.planned().iter().any(costs)
        {
            stats.count(Event::Banned);
        }
    }
}
