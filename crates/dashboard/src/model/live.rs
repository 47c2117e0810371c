//! Who is pushing now: four top lists and the tail of decisions.

use super::shared::{DecisionRow, FiguresOf, Outcome, TopClient};

/// The live page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// How far back the top lists go, in seconds.
    pub window_seconds: u64,
    /// The windows that can be chosen, in seconds: `?window=60`.
    pub windows: Vec<u64>,
    /// Whose requests the lists rank.
    pub of: FiguresOf,
    /// The clients with most refusals.
    pub refused: TopList,
    /// The clients that are closest to a limit, the closest first.
    pub near_limit: TopList,
    /// The clients with most requests.
    pub busiest: TopList,
    /// The clients that shadow rules and candidates would have refused most.
    pub would_refuse: TopList,
    /// What the tail is limited to.
    pub filter: TailFilter,
    /// Whose decisions the tail has.
    pub tail_of: FiguresOf,
    /// The last decisions that fit the filter, the newest first.
    pub tail: Vec<DecisionRow>,
    /// What the tail does not have, as a sentence: "1 % of allowed requests are sampled."
    pub caveat: Option<String>,
}

/// A ranking of clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopList {
    /// The clients, the highest count first.
    pub rows: Vec<TopClient>,
    /// How much any count may be too low, at most; 0: all counts are exact.
    pub may_lack: u64,
}

/// What the tail of decisions is limited to. Empty texts limit nothing. Each is a parameter of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailFilter {
    /// Only decisions about this client.
    pub client: String,
    /// Only decisions that this rule made.
    pub rule_id: String,
    /// Only decisions about paths that begin so.
    pub endpoint: String,
    /// Only decisions that ended so.
    pub outcome: Option<Outcome>,
}

impl Outcome {
    /// Its word in queries, as in the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::WouldRefuse => "would_refuse",
            Self::Unlimited => "unlimited",
            Self::Error => "error",
        }
    }

    /// The words of those that did not pass, for the log of decisions.
    pub const REFUSALS: &'static str = "refused,denied";

    /// Those that can be filtered by.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::Denied, Self::Throttled, Self::WouldRefuse, Self::Allowed];

    /// The outcome that a word of a query names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.word() == word)
    }
}
