//! How requests ended, by entry point: each is counted once, however many rules apply to it.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Decision, DecisionReason, Micros, Refusal};

/// The entry point of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryPoint {
    /// The check API over HTTP.
    Http,
    /// The check API over gRPC.
    Grpc,
    /// Envoy's rate limit service, over gRPC or as JSON.
    Envoy,
    /// Forward-auth.
    Authorize,
    /// The gateway.
    Gateway,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// It passed, and was counted.
    Allowed,
    /// A limit was reached.
    Refused,
    /// The client is on the deny list, is banned, or lacks a required identifier; or no rule applies, and such
    /// requests are refused.
    Denied,
    /// It passed after a delay.
    Throttled,
    /// It passed because no rule applies, or because its client is on the allow list.
    Unlimited,
    /// It was not checked: the request was invalid, its caller disconnected before the decision, or the
    /// store was unavailable and a rule fails closed.
    Error,
}

const ENTRIES: [&str; 5] = ["http", "grpc", "envoy", "authorize", "gateway"];
const OUTCOMES: [&str; 6] = ["allowed", "refused", "denied", "throttled", "unlimited", "error"];

/// Counts requests. The labels are positions, so that counting is one atomic addition.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    entries: [EntryCounts; ENTRIES.len()],
    degraded: AtomicU64,
}

/// The counts of one entry, on a cache line that no other entry writes to.
#[derive(Debug, Default)]
#[repr(align(64))]
struct EntryCounts([AtomicU64; OUTCOMES.len()]);

/// The counts at one moment, by entry and outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts([[u64; OUTCOMES.len()]; ENTRIES.len()]);

impl RequestOutcome {
    /// The outcome of a request that was checked.
    #[inline]
    pub(crate) fn of(entry: EntryPoint, decision: &Decision) -> Self {
        match decision.refusal() {
            Some(Refusal::RateLimited) => Self::Refused,
            Some(Refusal::Denied | Refusal::Banned) => Self::Denied,
            Some(Refusal::StoreUnavailable) => Self::Error,
            None => match decision.reason() {
                DecisionReason::NoRule | DecisionReason::AllowListed { .. } => Self::Unlimited,
                _ if matches!(entry, EntryPoint::Envoy) && finds_nothing_left(decision) => {
                    Self::Refused
                }
                _ if decision.delay().is_some_and(|delay| delay > Micros::ZERO) => Self::Throttled,
                _ => Self::Allowed,
            },
        }
    }
}

/// Whether a descriptor of Envoy that only peeks finds its limit used up: Envoy gets `OVER_LIMIT`.
fn finds_nothing_left(decision: &Decision) -> bool {
    decision.outcomes().any(|outcome| {
        let figures = &outcome.outcome;
        figures.cost == 0 && figures.report.remaining == 0 && !outcome.is_shadow()
    })
}

impl Requests {
    /// Counts a request.
    #[inline]
    pub(crate) fn count(&self, entry: EntryPoint, outcome: RequestOutcome) {
        self.entries[entry as usize].0[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was decided without the shared store.
    #[cold]
    pub(crate) fn count_degraded(&self) {
        self.degraded.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were decided without the shared store.
    pub(crate) fn degraded(&self) -> u64 {
        self.degraded.load(Ordering::Relaxed)
    }

    pub(crate) fn read(&self) -> RequestCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RequestCounts(std::array::from_fn(|entry| self.entries[entry].0.each_ref().map(read)))
    }
}

/// A request that is being checked. If it is dropped before it ended, its caller has disconnected, and
/// it counts as an error.
#[derive(Debug)]
pub(crate) struct Unfinished<'a> {
    requests: &'a Requests,
    entry: Option<EntryPoint>,
}

impl<'a> Unfinished<'a> {
    /// A request that is counted, if it arrived at an entry point.
    #[inline]
    pub(crate) const fn new(requests: &'a Requests, entry: Option<EntryPoint>) -> Self {
        Self { requests, entry }
    }

    /// The request has ended. It is counted here as an error if it was not checked; otherwise the check
    /// counted it.
    #[inline]
    pub(crate) fn finish(mut self, is_error: bool) {
        if !is_error {
            self.entry = None;
        }
    }
}

impl Drop for Unfinished<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            self.requests.count(entry, RequestOutcome::Error);
        }
    }
}

impl RequestCounts {
    /// Each count with its entry and outcome.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        ENTRIES.into_iter().zip(self.0).flat_map(|(entry, counts)| {
            OUTCOMES.into_iter().zip(counts).map(move |(outcome, count)| (entry, outcome, count))
        })
    }

    /// All requests with an outcome, at all entry points.
    pub(crate) fn total(&self, outcome: RequestOutcome) -> u64 {
        self.0.iter().map(|counts| counts[outcome as usize]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_entry_and_outcome() {
        let requests = Requests::default();
        for (entry, outcome, times) in [
            (EntryPoint::Http, RequestOutcome::Allowed, 1),
            (EntryPoint::Grpc, RequestOutcome::Refused, 2),
            (EntryPoint::Envoy, RequestOutcome::Denied, 3),
            (EntryPoint::Authorize, RequestOutcome::Throttled, 4),
            (EntryPoint::Gateway, RequestOutcome::Unlimited, 5),
            (EntryPoint::Gateway, RequestOutcome::Error, 6),
            (EntryPoint::Http, RequestOutcome::Error, 1),
        ] {
            (0..times).for_each(|_| requests.count(entry, outcome));
        }
        let counts = requests.read();
        let counted: Vec<_> = counts.iter().filter(|(.., count)| *count > 0).collect();
        let expected = [
            ("http", "allowed", 1),
            ("http", "error", 1),
            ("grpc", "refused", 2),
            ("envoy", "denied", 3),
            ("authorize", "throttled", 4),
            ("gateway", "unlimited", 5),
            ("gateway", "error", 6),
        ];
        assert_eq!(counted, expected);
        assert_eq!(counts.total(RequestOutcome::Error), 7);
    }
}
