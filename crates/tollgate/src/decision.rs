//! The result of a check, from the arithmetic to the entry points.

mod reused;

use std::fmt;
use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tollgate_core::{Limit, Micros, Mode, Outcome, Report, Timestamp, Verdict, Vote};
use tollgate_rules::document::{Consistency, OnStoreFailure};
use tollgate_rules::{Plan, Planned, Policy, Revision, Rule};
use tollgate_store::StoreErrorKind;

use self::reused::Reused;
use crate::snapshot::Snapshot;
use crate::soft::SoftState;

/// Whether a request is allowed, and the figures of every rule that applied.
#[must_use = "a decision that is not used limits nothing"]
pub struct Decision {
    /// A guard, not a pointer: counting references would be a write to memory that all threads share.
    pub(crate) snapshot: Guard<Arc<Snapshot>>,
    pub(crate) parts: Reused,
}

/// What a decision consists of, besides the policy that it was made by.
#[derive(Clone)]
pub(crate) struct DecisionParts {
    pub(crate) plan: Plan,
    pub(crate) verdict: Verdict,
    pub(crate) reason: DecisionReason,
    pub(crate) degraded: Option<StoreErrorKind>,
    /// The time of the request, by the limiter's clock.
    pub(crate) asked_at: Timestamp,
    /// The time of the decision, by the clock of the store that counted.
    pub(crate) now: Timestamp,
    /// The results of the charges that were counted, each with the index of its charge in the plan.
    pub(crate) results: SmallVec<[RuleResult; 4]>,
}

/// Why a request is allowed or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionReason {
    /// The rules that applied.
    Rules,
    /// No rule applied. Such a request passes, unless [`Unmatched::Deny`](crate::Unmatched::Deny) is set.
    NoRule,
    /// The client is on an allow list.
    AllowListed {
        /// The reason in the list, if any.
        reason: Option<Arc<str>>,
    },
    /// The client is on a block list.
    DenyListed {
        /// The reason in the list, if any.
        reason: Option<Arc<str>>,
        /// When the entry expires.
        expires_at: Option<Timestamp>,
    },
    /// A rule refuses requests without its identifier.
    MissingIdentifier {
        /// The index of the rule in its set.
        rule: usize,
    },
    /// A rule refuses the client for a while after repeated refusals.
    Banned {
        /// The index of the rule in its set.
        rule: usize,
        /// When the ban ends.
        until: Timestamp,
    },
    /// The store is unavailable, and a rule that applied fails closed.
    StoreUnavailable {
        /// The index of the rule in its set.
        rule: usize,
    },
}

/// Why a request was refused, as the APIs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// A limit was reached.
    RateLimited,
    /// The client is on a block list, the request lacks an identifier, or no rule applies to it.
    Denied,
    /// The client is banned after repeated refusals.
    Banned,
    /// The store is unavailable and the rule fails closed.
    StoreUnavailable,
}

/// The result of one charge, as small as a verdict allows: every check writes it, and few of them are asked for the
/// outcome, which follows from it, the plan and the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleResult {
    /// The index of the charge in the plan.
    pub(crate) line: usize,
    /// The most that can be in use.
    pub(crate) limit: u64,
    pub(crate) report: Report,
    pub(crate) mode: Mode,
    pub(crate) admitted: bool,
    pub(crate) soft: SoftState,
}

impl RuleResult {
    #[inline]
    pub(crate) const fn vote(&self) -> Vote<'_> {
        let Self { limit, report, mode, admitted, .. } = self;
        Vote { mode: *mode, admitted: *admitted, limit: *limit, report }
    }
}

/// One rule's part in a decision.
#[derive(Clone, Copy, Debug)]
pub struct RuleOutcome<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// How close the client is to this rule's limit.
    pub state: SoftState,
    /// The figures.
    pub outcome: Outcome,
    /// Of several views or charges of one request, the index of the one this is about; the first, if several share a
    /// counter.
    pub subject: usize,
    /// The limit of this client, as it was compiled.
    limit: &'a Limit,
}

impl RuleOutcome<'_> {
    /// Whether the request exceeds the rule, also if the rule is a shadow rule.
    #[must_use]
    pub const fn is_exceeded(&self) -> bool {
        !self.outcome.admitted
    }

    /// Whether the rule is a shadow rule, as candidates are.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.outcome.mode == Mode::Shadow
    }

    /// The limit of this client, as it was compiled.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        self.limit
    }

    /// The limit as it was written: units, and the window in which they are given. With a burst, `outcome.limit` is
    /// the burst and `outcome.window` the time in which it is refilled.
    #[must_use]
    pub fn quota(&self) -> (u64, Micros) {
        let window = match self.limit.calendar() {
            None => self.limit.window(),
            Some(_) => self.outcome.window,
        };
        (self.limit.limit(), window)
    }

    /// How long until the limit resets, at `now`, the time of the decision.
    #[must_use]
    pub fn reset_after(&self, now: Timestamp) -> Micros {
        self.limit.reset_after(now, &self.outcome.report)
    }
}

impl Default for DecisionParts {
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            verdict: Verdict::default(),
            reason: DecisionReason::NoRule,
            degraded: None,
            asked_at: Timestamp::default(),
            now: Timestamp::default(),
            results: SmallVec::new(),
        }
    }
}

impl DecisionParts {
    /// Forgets what it was about.
    #[inline]
    fn clear(&mut self) {
        self.plan.clear();
        self.verdict = Verdict::default();
        self.reason = DecisionReason::NoRule;
        self.degraded = None;
        if self.results.spilled() {
            self.results = SmallVec::new();
        }
        self.results.clear();
    }
}

impl Decision {
    /// A decision that has not been made yet.
    #[inline]
    pub(crate) fn pending(snapshot: Guard<Arc<Snapshot>>, now: Timestamp) -> Self {
        Self { snapshot, parts: Reused::at(now) }
    }

    /// A decision that is to be kept: a guard that lives long would slow others down.
    pub(crate) fn kept(snapshot: &Arc<Snapshot>, now: Timestamp) -> Self {
        Self::pending(Guard::from_inner(Arc::clone(snapshot)), now)
    }

    /// Whether the request is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.parts.verdict.admitted
    }

    /// Why it was refused; `None` if it was allowed.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        if self.is_allowed() {
            return None;
        }
        Some(match self.parts.reason {
            DecisionReason::DenyListed { .. }
            | DecisionReason::MissingIdentifier { .. }
            | DecisionReason::NoRule => Refusal::Denied,
            DecisionReason::Banned { .. } => Refusal::Banned,
            DecisionReason::StoreUnavailable { .. } => Refusal::StoreUnavailable,
            DecisionReason::Rules | DecisionReason::AllowListed { .. } => Refusal::RateLimited,
        })
    }

    /// How many counters were charged.
    #[must_use]
    pub fn charged(&self) -> usize {
        let is_charged = |result: &&RuleResult| result.admitted && self.is_costly(result);
        if self.is_allowed() { self.parts.results.iter().filter(is_charged).count() } else { 0 }
    }

    /// Why the request is allowed or refused.
    #[must_use]
    pub fn reason(&self) -> &DecisionReason {
        &self.parts.reason
    }

    /// How many rules apply of which nothing is known, since the request was refused, or passed, without them.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.parts.plan.planned().len().saturating_sub(self.parts.results.len())
    }

    /// Every rule that applied and was counted, in order of precedence.
    pub fn outcomes(&self) -> impl Iterator<Item = RuleOutcome<'_>> {
        self.parts.results.iter().filter_map(|result| self.named(result))
    }

    /// The rule that is reported: for a refused request the one with the longest wait, for an allowed one the one
    /// with the least left. `None` if no enforced rule applied.
    #[must_use]
    pub fn binding(&self) -> Option<RuleOutcome<'_>> {
        self.named(self.parts.results.get(self.parts.verdict.binding?)?)
    }

    /// The first shadow rule or candidate that would have refused the request; `None` if there is none, or nothing was to be
    /// charged.
    #[must_use]
    pub fn would_refuse(&self) -> Option<RuleOutcome<'_>> {
        self.all_that_would_refuse().next()
    }

    /// Every shadow rule and candidate that would have refused the request, in order of precedence. Of several views or
    /// charges, one may be there several times.
    pub fn all_that_would_refuse(&self) -> impl Iterator<Item = RuleOutcome<'_>> {
        let refuses = |result: &&RuleResult| {
            !result.admitted && result.mode == Mode::Shadow && self.is_costly(result)
        };
        self.parts.results.iter().filter(refuses).filter_map(|result| self.named(result))
    }

    /// Whether a request that exceeds this shadow rule is counted for it. A candidate is for what would be refused
    /// besides, so that it counts requests that passed.
    pub(crate) fn is_would_refuse_counted(&self, rule: usize) -> bool {
        self.is_allowed() || !self.snapshot.policy.rules().get(rule).is_some_and(Rule::is_candidate)
    }

    /// The charge that a result is of.
    #[inline]
    pub(crate) fn planned(&self, result: &RuleResult) -> Option<&Planned> {
        self.parts.plan.planned().get(result.line)
    }

    fn is_costly(&self, result: &RuleResult) -> bool {
        self.planned(result).is_some_and(|planned| planned.cost > 0)
    }

    fn named(&self, result: &RuleResult) -> Option<RuleOutcome<'_>> {
        let planned = self.planned(result)?;
        let rule = self.snapshot.policy.rules().get(planned.rule)?;
        let mut outcome = planned.outcome(rule, self.parts.now, result.admitted, result.report);
        let (subject, limit) = (planned.subject, planned.limit(rule));
        if self.parts.degraded.is_some() {
            outcome.surplus = fallback_surplus(rule, limit);
        }
        Some(RuleOutcome { rule, state: result.soft, outcome, subject, limit })
    }

    /// What is left of the limit of the rule that is reported, which is the largest cost that would still be admitted;
    /// `None` if no enforced rule applied. Without its store, a node may admit more.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.binding().map(|binding| binding.outcome.remaining())
    }

    /// How long until the same request would pass. `None`: it is allowed, it never will pass, or it was not a limit
    /// that refused it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Micros> {
        if let DecisionReason::Banned { until, .. } = self.parts.reason {
            return Some(until.since(self.parts.now));
        }
        self.binding().and_then(|binding| binding.outcome.report.retry_after)
    }

    /// How long an allowed request is delayed.
    #[must_use]
    pub fn delay(&self) -> Option<Micros> {
        self.parts.verdict.delay
    }

    /// How close the client is to its limits: the highest state of all enforced rules.
    #[must_use]
    pub fn state(&self) -> SoftState {
        let enforced = self.parts.results.iter().filter(|result| result.mode != Mode::Shadow);
        enforced.map(|result| result.soft).max().unwrap_or_default()
    }

    /// Why the shared store did not count, if it failed.
    #[must_use]
    pub fn degraded(&self) -> Option<StoreErrorKind> {
        self.parts.degraded
    }

    /// The tier that the request was checked in.
    #[must_use]
    pub fn tier(&self) -> Option<&str> {
        self.parts.plan.tier()
    }

    /// The rule that refused without counting: it banned the client, lacks its identifier, or fails closed.
    #[must_use]
    pub fn refuser(&self) -> Option<&Rule> {
        match self.parts.reason {
            DecisionReason::MissingIdentifier { rule }
            | DecisionReason::Banned { rule, .. }
            | DecisionReason::StoreUnavailable { rule } => self.policy().rules().get(rule),
            DecisionReason::Rules
            | DecisionReason::NoRule
            | DecisionReason::AllowListed { .. }
            | DecisionReason::DenyListed { .. } => None,
        }
    }

    /// The policy that the decision was made by.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.snapshot.policy
    }

    /// The revision of that policy.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.policy().revision()
    }

    /// The time of the decision.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.parts.now
    }
}

/// By how much the limit of a rule on this node is larger than its own while the shared store is away.
#[cold]
pub(crate) fn fallback_surplus(rule: &Rule, limit: &Limit) -> u64 {
    let is_scaled =
        rule.on_store_failure == OnStoreFailure::Local && rule.consistency != Consistency::Local;
    let scaled = || limit.scaled(rule.fallback_factor).capacity();
    if is_scaled { scaled().saturating_sub(limit.capacity()) } else { 0 }
}

/// Omits keys: they may be secrets.
impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("verdict", &self.parts.verdict)
            .field("reason", &self.parts.reason)
            .field("degraded", &self.parts.degraded)
            .field("revision", &self.revision())
            .field("results", &self.parts.results)
            .finish_non_exhaustive()
    }
}
