//! The outcome of a request, as reports and scenarios name it.

use tollgate::{Decision, Micros};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passes at once.
    Allowed,
    /// It passes after a delay.
    Throttled,
    /// It does not pass.
    Refused,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Allowed, Self::Throttled, Self::Refused];

    /// The outcome of a decision.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        match decision.is_allowed() {
            false => Self::Refused,
            true if decision.delay().is_some_and(|delay| delay > Micros::ZERO) => Self::Throttled,
            true => Self::Allowed,
        }
    }

    /// The name in reports and scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
        }
    }
}
