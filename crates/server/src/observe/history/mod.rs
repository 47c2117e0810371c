//! The figures of this node over the last 24 hours, in fixed memory at falling resolution: seconds for 5 minutes, 10
//! seconds for an hour, minutes for a day (1 MB); of rules 10 seconds for 5 minutes, minutes for an hour, 10 minutes
//! for a day (6 MB, if a thousand rules are used).
//!
//! Once a second [`Shared::keep_history`] reads the counters that metrics have anyway, and keeps how much they grew. No
//! check takes part in it.

mod levels;
mod quantiles;
mod rules;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate::store::HistogramSnapshot;
use tollgate::{Micros, Policy, Timestamp};

use self::levels::{HistoryLevels, HistorySample, HistorySlice, Resolution};
use self::quantiles::{BUCKETS, Buckets, growth, quantiles};
use self::rules::RuleHistories;
use crate::app::state::Shared;
use crate::observe::metrics::{RequestCounts, RequestOutcome};
use crate::observe::refusers::Refusers;

/// The longest range that is kept: 24 hours.
pub(crate) const MAX_RANGE: Micros = Micros::from_secs(24 * 60 * 60);
/// The resolutions of the figures of the node.
const RESOLUTIONS: [Resolution; 3] =
    [Resolution::new(1, 300), Resolution::new(10, 360), Resolution::new(60, 1_440)];
/// How many changes of the policy are kept.
const MAX_REVISIONS: usize = 500;
const SECOND: u64 = 1_000_000;

/// The figures of one moment: how requests ended within it, and how long checks took.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HistoryPoint {
    /// When it began.
    pub(crate) at: Timestamp,
    /// How requests ended, each counted once.
    pub(crate) requests: RequestFigures,
    /// How long checks took.
    pub(crate) check: Quantiles,
    /// How long the store took to settle.
    pub(crate) store: Quantiles,
    /// Which rules refused.
    pub(crate) refusers: Refusers,
}

/// How requests ended, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub(crate) struct RequestFigures {
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    pub(crate) denied: u64,
    pub(crate) throttled: u64,
    pub(crate) unlimited: u64,
    pub(crate) error: u64,
    /// Those of the others that were decided without the shared store.
    pub(crate) degraded: u64,
}

impl RequestFigures {
    fn new(counts: &RequestCounts, degraded: u64) -> Self {
        Self {
            allowed: counts.total(RequestOutcome::Allowed),
            refused: counts.total(RequestOutcome::Refused),
            denied: counts.total(RequestOutcome::Denied),
            throttled: counts.total(RequestOutcome::Throttled),
            unlimited: counts.total(RequestOutcome::Unlimited),
            error: counts.total(RequestOutcome::Error),
            degraded,
        }
    }

    /// All requests.
    pub(crate) const fn all(&self) -> u64 {
        let Self { allowed, refused, denied, throttled, unlimited, error, .. } = self;
        *allowed + *refused + *denied + *throttled + *unlimited + *error
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn minus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(&self, other: &Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            allowed: operation(self.allowed, other.allowed),
            refused: operation(self.refused, other.refused),
            denied: operation(self.denied, other.denied),
            throttled: operation(self.throttled, other.throttled),
            unlimited: operation(self.unlimited, other.unlimited),
            error: operation(self.error, other.error),
            degraded: operation(self.degraded, other.degraded),
        }
    }
}

/// Durations below which half, 95 % and 99 % of all were, in seconds. `None` if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantiles {
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
    pub(crate) p99: Option<f64>,
}

/// The figures of a range, the oldest first, without gaps: each point is a step after the one before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HistoryFigures {
    /// The length of a point.
    pub(crate) step: Micros,
    pub(crate) points: Vec<HistoryPoint>,
    /// The policies that came into force within the range, the oldest first.
    pub(crate) revisions: Vec<RevisionMark>,
}

/// When a policy came into force on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionMark {
    pub(crate) at: Timestamp,
    pub(crate) revision: u64,
    /// How many rules it has.
    pub(crate) rules: usize,
    /// Whether it has other rules than the one before; a ban or a list makes a revision too.
    pub(crate) has_other_rules: bool,
}

/// The decisions of one rule over a range, the oldest first, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleHistory {
    pub(crate) rule_id: Arc<str>,
    /// The length of a point, which is longer than those of the node.
    pub(crate) step: Micros,
    /// When the first point began.
    pub(crate) from: Timestamp,
    pub(crate) points: Vec<RuleFigures>,
}

/// The decisions of one rule within a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleFigures {
    pub(crate) allowed: u64,
    /// Refused, and requests of clients that the rule had banned.
    pub(crate) refused: u64,
    pub(crate) would_refuse: u64,
}

/// The figures of this node over the last 24 hours.
#[derive(Debug)]
pub(crate) struct History {
    kept: Mutex<KeptHistory>,
}

#[derive(Debug)]
struct KeptHistory {
    node: HistoryLevels<NodeSample>,
    rules: RuleHistories,
    revisions: VecDeque<RevisionMark>,
    /// The policy of the last second.
    policy: Option<Policy>,
    /// The counters at the last second.
    before: CounterReadings,
    /// The upper bounds of the buckets of histograms.
    bounds: Vec<f64>,
}

/// How much the counters of the node grew.
#[derive(Clone, Debug, Default)]
struct NodeSample {
    requests: RequestFigures,
    check: Buckets,
    store: Buckets,
    refusers: Refusers,
}

impl HistorySample for NodeSample {
    fn add(&mut self, other: &Self) {
        self.requests = self.requests.plus(&other.requests);
        self.refusers.add(&other.refusers);
        for (sum, more) in [(&mut self.check, &other.check), (&mut self.store, &other.store)] {
            for place in 0..BUCKETS {
                sum[place] = sum[place].saturating_add(more[place]);
            }
        }
    }
}

/// Counters at one moment.
#[derive(Clone, Debug, Default)]
struct CounterReadings {
    requests: RequestFigures,
    check: HistogramSnapshot,
    store: HistogramSnapshot,
}

impl Default for History {
    fn default() -> Self {
        Self {
            kept: Mutex::new(KeptHistory {
                node: HistoryLevels::new(&RESOLUTIONS),
                rules: RuleHistories::default(),
                revisions: VecDeque::new(),
                policy: None,
                before: CounterReadings::default(),
                bounds: Vec::new(),
            }),
        }
    }
}

impl History {
    /// The figures of the last `range`, at the resolution that is kept of it.
    pub(crate) fn figures(&self, now: Timestamp, range: Micros) -> HistoryFigures {
        let kept = self.kept.lock();
        let HistorySlice { step, from, points } = kept.node.last(now, range);
        let mut at = from;
        let points = points.iter().map(|sample| {
            let point = kept.point(at, sample);
            at = at.plus(step);
            point
        });
        let since = now.minus(range);
        let revisions = kept.revisions.iter().filter(|mark| mark.at >= since).copied();
        HistoryFigures { step, points: points.collect(), revisions: revisions.collect() }
    }

    /// The decisions of rules over the last `range`, of those that had any and that `is_wanted`.
    pub(crate) fn rules(
        &self,
        now: Timestamp,
        range: Micros,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Vec<RuleHistory> {
        self.kept.lock().rules.last(now, range, is_wanted)
    }

    /// The last whole second.
    pub(crate) fn last(&self) -> Option<HistoryPoint> {
        let kept = self.kept.lock();
        let (at, sample) = kept.node.newest()?;
        Some(kept.point(at, sample))
    }
}

impl KeptHistory {
    fn point(&self, at: Timestamp, sample: &NodeSample) -> HistoryPoint {
        HistoryPoint {
            at,
            requests: sample.requests,
            check: quantiles(&sample.check, &self.bounds),
            store: quantiles(&sample.store, &self.bounds),
            refusers: sample.refusers.clone(),
        }
    }

    /// Adds how much the counters grew in the second from `at` on.
    fn add(&mut self, at: Timestamp, after: CounterReadings, refusers: Refusers) {
        let sample = NodeSample {
            requests: after.requests.minus(&self.before.requests),
            check: growth(&self.before.check, &after.check),
            store: growth(&self.before.store, &after.store),
            refusers,
        };
        self.node.add(at, &sample);
        if self.bounds.is_empty() {
            self.bounds = after.check.buckets.iter().map(|(bound, _)| *bound).collect();
        }
        self.before = after;
    }

    fn note_revision(&mut self, mark: RevisionMark, policy: Policy) {
        let before = self.policy.replace(policy);
        if self.revisions.back().is_some_and(|last| last.revision == mark.revision) {
            return;
        }
        if self.revisions.len() == MAX_REVISIONS {
            self.revisions.pop_front();
        }
        let is_of_rules = |before: Policy| {
            self.policy.as_ref().is_some_and(|policy| !policy.shares_rules_with(&before))
        };
        let has_other_rules = before.is_none_or(is_of_rules);
        self.revisions.push_back(RevisionMark { has_other_rules, ..mark });
    }
}

impl Shared {
    /// How requests ended since the start.
    pub(crate) fn request_figures(&self) -> RequestFigures {
        let requests = &self.metrics.requests;
        RequestFigures::new(&requests.read(), requests.degraded())
    }

    /// Adds the figures of every second to the history, until it is dropped.
    pub(crate) async fn keep_history(&self) {
        loop {
            let left = SECOND - self.now().as_micros() % SECOND;
            sleep(Duration::from_micros(left)).await;
            let traffic = Arc::clone(&self.recent_traffic);
            // On another thread than those of checks; it fails only if the runtime ends.
            let refusers = spawn_blocking(move || traffic.take_refusers()).await;
            self.add_second(refusers.unwrap_or_default());
        }
    }

    fn add_second(&self, refusers: Refusers) {
        let now = self.now();
        // A little after the end of the second, unless the clock was set.
        let at = Timestamp::from_micros((now.as_micros() / SECOND).saturating_sub(1) * SECOND);
        let in_force = self.policy_source.in_force();
        let readings = CounterReadings {
            requests: self.request_figures(),
            check: self.metrics.checks.read(),
            store: self.store_durations.read(),
        };
        let policy = self.limiter.policy();
        let mut kept = self.history.kept.lock();
        kept.add(at, readings, refusers);
        kept.rules.add(at, self.rule_counts());
        let (revision, rules) = (in_force.revision.number, in_force.rules);
        let mark = RevisionMark { at: in_force.since, revision, rules, has_other_rules: true };
        kept.note_revision(mark, policy);
    }
}
