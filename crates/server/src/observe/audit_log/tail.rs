//! The last recorded decisions of this node, for the tail of the dashboard. Of a flood it keeps some, so that it costs
//! little.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::Timestamp;

use super::log::DecisionEntry;

/// How many decisions are kept.
const TAIL_CAPACITY: usize = 1_000;
/// How many decisions of one second are kept.
const MAX_PER_SECOND: usize = 250;

#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<TailRing>);

#[derive(Debug, Default)]
struct TailRing {
    /// The oldest first.
    entries: VecDeque<Arc<DecisionEntry>>,
    second: u64,
    in_second: usize,
}

impl Tail {
    /// Keeps a decision, unless this second has enough of them.
    pub(super) fn keep(&self, now: Timestamp, entry: impl FnOnce() -> DecisionEntry) {
        let mut ring = self.0.lock();
        let second = now.as_micros() / 1_000_000;
        if ring.second != second {
            (ring.second, ring.in_second) = (second, 0);
        }
        if ring.in_second >= MAX_PER_SECOND {
            return;
        }
        ring.in_second += 1;
        if ring.entries.len() >= TAIL_CAPACITY {
            ring.entries.pop_front();
        }
        ring.entries.push_back(Arc::new(entry()));
    }

    /// The decisions that are kept, the newest first; of one tenant if that is given.
    pub(crate) fn last(&self, tenant: Option<&str>) -> Vec<Arc<DecisionEntry>> {
        let ring = self.0.lock();
        let is_wanted = |entry: &&Arc<DecisionEntry>| {
            tenant.is_none_or(|tenant| entry.tenant.as_deref() == Some(tenant))
        };
        ring.entries.iter().rev().filter(is_wanted).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::DecisionDetails;
    use super::*;

    fn entry(id: usize, tenant: &str) -> DecisionEntry {
        DecisionEntry {
            decision_id: id.to_string(),
            at: String::new(),
            action: "refused",
            rule_id: None,
            client: String::new(),
            tenant: Some(tenant.to_owned()),
            details: DecisionDetails::default(),
        }
    }

    #[test]
    fn the_tail_is_bounded_in_all_and_per_second() {
        let tail = Tail::default();
        for id in 0..MAX_PER_SECOND + 10 {
            tail.keep(Timestamp::from_secs(1), || entry(id, "acme"));
        }
        assert_eq!(tail.last(None).len(), MAX_PER_SECOND);
        for second in 2..10 {
            for id in 0..MAX_PER_SECOND {
                tail.keep(Timestamp::from_secs(second), || entry(id, "globex"));
            }
        }
        let last = tail.last(None);
        assert_eq!(last.len(), TAIL_CAPACITY);
        assert_eq!(last[0].decision_id, (MAX_PER_SECOND - 1).to_string(), "the newest first");
        assert!(tail.last(Some("acme")).is_empty(), "overwritten");
        tail.keep(Timestamp::from_secs(10), || entry(7, "acme"));
        assert_eq!(tail.last(Some("acme")).len(), 1);
        assert!(tail.last(Some("globex")).iter().all(|it| it.tenant.as_deref() == Some("globex")));
    }
}
