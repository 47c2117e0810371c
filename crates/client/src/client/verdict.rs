//! The answer to a check: what the server said, or what was decided without it.

use std::time::Duration;

use super::builder::OnFailure;
use super::error::Error;

/// Whether a request may pass, and what there is to say about it.
///
/// The figures belong to the rule that binds: of an allowed request the one with the smallest share
/// left, of a refused one the one with the longest wait. They are `None` if no rule applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a verdict that nobody looks at limits nobody"]
pub struct Verdict {
    /// Whether the request may pass.
    pub allowed: bool,
    /// The most that can be in use.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// When all of it is back, in seconds since 1970.
    pub reset_at: Option<u64>,
    /// Refused: after how long the same request would pass. `None` if it never will.
    pub retry_after: Option<Duration>,
    /// The rule that binds, or that refused without counting.
    pub rule_id: Option<String>,
    /// How close the client is to its limits.
    pub state: State,
    /// Refused: why.
    pub reason: Option<Reason>,
    /// Allowed, but to be held for so long before it goes on.
    pub delay: Option<Duration>,
    /// Names the decision, to have it explained or given back. `None` if nothing was counted.
    pub decision_id: Option<String>,
    /// Why the server's shared store had no say, if so.
    pub degraded: Option<String>,
    /// Who decided.
    pub source: Source,
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The server.
    Answered,
    /// Nobody: there was no answer, and such requests pass.
    FailedOpen(Error),
    /// Nobody: there was no answer, and such requests are refused.
    FailedClosed(Error),
}

/// How close a client is to its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing to say.
    #[default]
    Normal,
    /// Close to a limit.
    Warning,
    /// Admitted, but only after a wait.
    Throttled,
    /// A word of a newer server.
    Other,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A limit was reached.
    RateLimited,
    /// The client is on the blacklist, or lacks an identifier that a rule requires.
    Denied,
    /// The client kept exceeding a limit, and is refused until the wait is over.
    Banned,
    /// The server could not check the limit, and the rule does not pass unchecked requests.
    StoreUnavailable,
    /// A word of a newer server.
    Other,
}

impl Verdict {
    /// What holds for a request that nobody could judge.
    pub(super) fn without_answer(error: Error, on_failure: OnFailure) -> Self {
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
            source,
        }
    }

    /// Whether the server decided.
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        matches!(self.source, Source::Answered)
    }

    /// Why the server did not decide.
    #[must_use]
    pub const fn error(&self) -> Option<&Error> {
        match &self.source {
            Source::Answered => None,
            Source::FailedOpen(error) | Source::FailedClosed(error) => Some(error),
        }
    }
}

impl State {
    pub(super) fn from_word(word: &str) -> Self {
        match word {
            "normal" => Self::Normal,
            "warning" => Self::Warning,
            "throttled" => Self::Throttled,
            _ => Self::Other,
        }
    }
}

impl Reason {
    pub(super) fn from_word(word: &str) -> Self {
        match word {
            "rate_limited" => Self::RateLimited,
            "denied" => Self::Denied,
            "banned" => Self::Banned,
            "store_unavailable" => Self::StoreUnavailable,
            _ => Self::Other,
        }
    }
}
