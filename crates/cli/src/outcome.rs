//! The outcome of a request, as reports and scenarios name it.

use tollgate::{Decision, Micros};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It passes at once.
    Allowed,
    /// It passes after a delay.
    Throttled,
    /// It does not pass.
    Refused,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Allowed, Self::Throttled, Self::Refused];

    /// The outcome of a decision.
    pub(crate) fn of(decision: &Decision) -> Self {
        match decision.is_allowed() {
            false => Self::Refused,
            true if decision.delay().is_some_and(|delay| delay > Micros::ZERO) => Self::Throttled,
            true => Self::Allowed,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
        }
    }
}
