//! The one answer, all the way from the arithmetic to whoever asked.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Judgement, Micros, Mode, Outcome, Timestamp};
use tollgate_rules::{Plan, Policy, Revision, Rule};
use tollgate_store::StoreErrorKind;

use crate::snapshot::Snapshot;
use crate::soft::SoftState;

/// Whether a request may pass, and everything there is to say about it.
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) plan: Plan,
    pub(crate) judgement: Judgement,
    pub(crate) basis: Basis,
    pub(crate) degraded: Option<StoreErrorKind>,
    /// The moment of the request by the limiter's clock.
    pub(crate) asked_at: Timestamp,
    /// The moment of the judgement by the clock of whoever counted.
    pub(crate) now: Timestamp,
    /// What became of the lines of the plan that were counted, with the number of the line.
    pub(crate) lines: SmallVec<[Judged; 4]>,
}

/// What a decision rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The rules that applied.
    Rules,
    /// No rule applied, so the request passes.
    NoRule,
    /// The client is never limited.
    AllowListed {
        /// Why, if the list says so.
        reason: Option<Arc<str>>,
    },
    /// The client is always refused.
    DenyListed {
        /// Why, if the list says so.
        reason: Option<Arc<str>>,
        /// When that ends.
        expires_at: Option<Timestamp>,
    },
    /// A rule refuses requests without its identifier.
    MissingIdentifier {
        /// Where the rule stands in its set.
        rule: usize,
    },
    /// A rule refuses the client for a while, for it kept exceeding the limit.
    Banned {
        /// Where the rule stands in its set.
        rule: usize,
        /// When the ban ends.
        until: Timestamp,
    },
    /// The store is away, and a rule that applied does not pass requests without it.
    StoreUnavailable {
        /// Where the rule stands in its set.
        rule: usize,
    },
}

/// Why a request was refused, in the words of the APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// A limit was reached.
    RateLimited,
    /// The client or the request is not welcome at all.
    Denied,
    /// The client kept exceeding a limit, and is refused for a while.
    Banned,
    /// The limit could not be checked and the rule does not pass unchecked requests.
    StoreUnavailable,
}

/// An outcome and the plan's line it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub(crate) line: usize,
    pub(crate) outcome: Outcome,
    pub(crate) soft: SoftState,
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
    /// Of several views or lines of one request, the number of the one this is about; the first, if
    /// several share a counter.
    pub subject: usize,
}

impl RuleOutcome<'_> {
    /// Whether the rule would refuse, or refuses.
    #[must_use]
    pub const fn is_exceeded(&self) -> bool {
        !self.outcome.admitted
    }

    /// Whether the rule only watches.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.outcome.mode == Mode::Shadow
    }
}

impl Decision {
    /// A decision about nothing yet.
    #[inline]
    pub(crate) fn pending(snapshot: Arc<Snapshot>, now: Timestamp) -> Self {
        Self {
            snapshot,
            plan: Plan::default(),
            judgement: Judgement::default(),
            basis: Basis::NoRule,
            degraded: None,
            asked_at: now,
            now,
            lines: SmallVec::new(),
        }
    }

    /// Whether the request may pass.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.judgement.admitted
    }

    /// Why it was refused; `None` if it was not.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        if self.is_allowed() {
            return None;
        }
        Some(match self.basis {
            Basis::DenyListed { .. } | Basis::MissingIdentifier { .. } => Refusal::Denied,
            Basis::Banned { .. } => Refusal::Banned,
            Basis::StoreUnavailable { .. } => Refusal::StoreUnavailable,
            Basis::Rules | Basis::NoRule | Basis::AllowListed { .. } => Refusal::RateLimited,
        })
    }

    /// How many counters were charged.
    #[must_use]
    pub fn charged(&self) -> usize {
        let is_charged = |judged: &&Judged| judged.outcome.admitted && judged.outcome.cost > 0;
        if self.is_allowed() { self.lines.iter().filter(is_charged).count() } else { 0 }
    }

    /// What the decision rests on.
    #[must_use]
    pub const fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Every rule that applied, in order of precedence.
    pub fn outcomes(&self) -> impl Iterator<Item = RuleOutcome<'_>> {
        self.lines.iter().filter_map(|judged| self.named(judged))
    }

    /// The rule that speaks for the request: when refused, the one with the longest wait; when
    /// allowed, the one with the least left. `None` if no enforced rule applied.
    #[must_use]
    pub fn binding(&self) -> Option<RuleOutcome<'_>> {
        self.named(self.lines.get(self.judgement.binding?)?)
    }

    /// The first rule that only watches and would have refused the request; `None` if there is none, or
    /// nothing was to be charged.
    #[must_use]
    pub fn would_refuse(&self) -> Option<RuleOutcome<'_>> {
        let refuses = |judged: &&Judged| {
            !judged.outcome.admitted
                && judged.outcome.mode == Mode::Shadow
                && judged.outcome.cost > 0
        };
        self.named(self.lines.iter().find(refuses)?)
    }

    fn named(&self, judged: &Judged) -> Option<RuleOutcome<'_>> {
        let rule = self.snapshot.policy.rules().get(judged.outcome.rule)?;
        let subject = self.plan.planned().get(judged.line)?.subject;
        Some(RuleOutcome { rule, state: judged.soft, outcome: judged.outcome, subject })
    }

    /// The largest cost that would still be admitted; `None` if no enforced rule applied.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.binding().map(|binding| binding.outcome.report.remaining)
    }

    /// When refused: the wait after which the same request would pass. `None`: it never will, or it
    /// was not a limit that refused it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Micros> {
        if let Basis::Banned { until, .. } = self.basis {
            return Some(until.since(self.now));
        }
        self.binding().and_then(|binding| binding.outcome.report.retry_after)
    }

    /// How long an allowed request is to be held before it goes on.
    #[must_use]
    pub const fn delay(&self) -> Option<Micros> {
        self.judgement.delay
    }

    /// How close the client is to its limits: the most pressing state of all enforced rules.
    #[must_use]
    pub fn state(&self) -> SoftState {
        let enforced = self.lines.iter().filter(|judged| judged.outcome.mode != Mode::Shadow);
        enforced.map(|judged| judged.soft).max().unwrap_or_default()
    }

    /// Why the shared store had no say, if it was asked in vain.
    #[must_use]
    pub const fn degraded(&self) -> Option<StoreErrorKind> {
        self.degraded
    }

    /// The tier the request was judged in.
    #[must_use]
    pub fn tier(&self) -> Option<&str> {
        self.plan.tier()
    }

    /// The rule that refused without counting: the client is banned by it or lacks its identifier, or
    /// it cannot be counted.
    #[must_use]
    pub fn refuser(&self) -> Option<&Rule> {
        match self.basis {
            Basis::MissingIdentifier { rule }
            | Basis::Banned { rule, .. }
            | Basis::StoreUnavailable { rule } => self.policy().rules().get(rule),
            Basis::Rules | Basis::NoRule | Basis::AllowListed { .. } | Basis::DenyListed { .. } => {
                None
            }
        }
    }

    /// The policy that judged.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.snapshot.policy
    }

    /// Which version of the policy judged.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.policy().revision()
    }

    /// The moment of the judgement.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }
}

/// Keys are left out: they may be secrets.
impl fmt::Debug for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decision")
            .field("judgement", &self.judgement)
            .field("basis", &self.basis)
            .field("degraded", &self.degraded)
            .field("revision", &self.revision())
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}
