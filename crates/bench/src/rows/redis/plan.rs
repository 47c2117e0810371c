//! The plan of a client process, read from its command line as JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::Algorithm;

/// Units per day: as many as a day of one client may be worth.
const LIMIT: u64 = 50_000;

/// What to ask Redis, how much at once, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The URL of the store.
    pub(super) url: String,
    /// The servers behind it, each with a URL.
    pub(super) servers: Vec<String>,
    pub(super) question: Question,
    /// How many subjects there are to ask about.
    pub(super) subjects: usize,
    /// How many requests are in flight at any time.
    pub(super) in_flight: usize,
    pub(super) extent: Extent,
}

/// What is requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// A check by Tollgate's store.
    Check(Check),
    /// Each check as one call of the script, on existing counters.
    Script(Check),
    /// The least that Redis can count.
    Increment,
    /// What envoyproxy/ratelimit sends for so many counters.
    Pairs(usize),
}

/// A check of several rules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Check {
    /// By its name.
    pub(super) algorithm: String,
    pub(super) rules: usize,
    /// How many subjects its rules count by.
    pub(super) counted_by: usize,
    /// Units per day.
    pub(super) limit: u64,
}

impl Check {
    /// So many rules of an algorithm that count by one subject.
    pub(super) fn of(algorithm: Algorithm, rules: usize) -> Self {
        Self { algorithm: algorithm.name().to_owned(), rules, counted_by: 1, limit: LIMIT }
    }

    /// What every counter has used when the measurement begins: takes hours to drain.
    pub(super) const fn used(&self) -> u64 {
        self.limit / 10
    }

    /// The name of one of its rules. Algorithms and numbers of rules do not share counters.
    pub(super) fn rule(&self, number: usize) -> String {
        format!("{}_{}_of_{}_by_{}", self.algorithm, number + 1, self.rules, self.counted_by)
    }
}

/// How much is requested.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Extent {
    /// Each subject for the first time, and at such a cost that no counter expires soon.
    Entered,
    /// Each subject once.
    EachOnce,
    /// Subjects drawn at random, for about that time.
    Turn(Duration),
}
