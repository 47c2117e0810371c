//! The result of a check: by the server, or by the failure policy without it.

use std::time::Duration;

use tollgate_api::{Reason, RuleResult, State};

use super::builder::OnFailure;
use super::error::Error;

/// The result of a check: whether the request may pass, by which rule, until when.
///
/// The figures belong to the rule that binds: of an allowed request the one with the smallest share
/// left, of a refused one the one with the longest wait. They are `None` if no rule applied.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[must_use = "an unused decision limits no client"]
pub struct Decision {
    /// Whether the request may pass.
    pub allowed: bool,
    /// The most that can be in use.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// When the limit resets, in seconds since 1970: `fixed_window` and `sliding_window_counter` at the end of the
    /// current window, others when nothing is in use.
    pub reset_at: Option<u64>,
    /// Refused: after how long the same request would pass. `None` if it never will.
    pub retry_after: Option<Duration>,
    /// The rule that binds, or that refused without counting.
    pub rule_id: Option<String>,
    /// How close the client is to its limits.
    pub state: State,
    /// Refused: why.
    pub reason: Option<Reason>,
    /// Allowed, but only after this delay.
    pub delay: Option<Duration>,
    /// Names the decision, to explain or refund it. `None` if nothing was counted.
    pub decision_id: Option<String>,
    /// Why the server counted without its shared store, if it did.
    pub degraded: Option<String>,
    /// Every rule that applied, after [`Check::detail`](super::Check::detail).
    pub rules: Vec<RuleResult<'static>>,
    /// What it comes from: the server, or the failure policy.
    pub source: Source,
}

/// What a decision comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The server.
    Server,
    /// The failure policy: the request passes without a response.
    FailedOpen(Error),
    /// The failure policy: the request is refused without a response.
    FailedClosed(Error),
}

impl Decision {
    /// The decision of the failure policy.
    pub(super) fn without_server(error: Error, on_failure: OnFailure) -> Self {
        let (allowed, source) = match on_failure {
            OnFailure::Open => (true, Source::FailedOpen(error)),
            OnFailure::Closed => (false, Source::FailedClosed(error)),
        };
        Self {
            allowed,
            limit: None,
            remaining: None,
            reset_at: None,
            retry_after: None,
            rule_id: None,
            state: State::Normal,
            reason: None,
            delay: None,
            decision_id: None,
            degraded: None,
            rules: Vec::new(),
            source,
        }
    }

    /// Whether the server decided.
    #[must_use]
    pub const fn is_from_server(&self) -> bool {
        matches!(self.source, Source::Server)
    }

    /// Why the server did not decide.
    #[must_use]
    pub const fn error(&self) -> Option<&Error> {
        match &self.source {
            Source::Server => None,
            Source::FailedOpen(error) | Source::FailedClosed(error) => Some(error),
        }
    }
}
