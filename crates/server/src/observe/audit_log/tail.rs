//! The last recorded decisions of this node, for the tail of the dashboard, and how those of several nodes are put
//! together. Of a flood it keeps some, so that it costs little.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate::Timestamp;

use super::log::DecisionEntry;

/// How many decisions are kept.
const TAIL_CAPACITY: usize = 1_000;
/// How many decisions of one second are kept.
const MAX_PER_SECOND: usize = 250;

/// The identifiers by which a client is found, as in the log.
const NAMES: [&str; 3] = ["user_id", "api_key", "ip"];

/// Which decisions of the tail are asked for. Empty texts limit nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct TailAsk {
    /// Only decisions about this client, as it is [recorded](super::recorded).
    pub(crate) client: String,
    /// Only decisions that this rule made, or would have made.
    pub(crate) rule_id: String,
    /// Only decisions about paths that begin so.
    pub(crate) endpoint: String,
    /// Only decisions with this action.
    pub(crate) action: String,
    /// Only decisions about requests of this tenant.
    pub(crate) tenant: Option<String>,
    /// How many at most.
    pub(crate) limit: usize,
}

impl TailAsk {
    /// Whether a decision is asked for.
    pub(crate) fn fits(&self, entry: &DecisionEntry) -> bool {
        let fits = |wanted: &str, has: Option<&str>| wanted.is_empty() || has == Some(wanted);
        let DecisionEntry { client, details, .. } = entry;
        let has_name = |kind: &&str| details.identifiers.get(*kind) == Some(&self.client);
        self.tenant.as_deref().is_none_or(|tenant| entry.tenant.as_deref() == Some(tenant))
            && (fits(&self.client, Some(client)) || NAMES.iter().any(has_name))
            && (fits(&self.rule_id, entry.rule_id.as_deref())
                || details.also_would_refuse.contains(&self.rule_id))
            && fits(&self.action, Some(&entry.action))
            && details.endpoint.as_deref().unwrap_or_default().starts_with(&self.endpoint)
    }

    /// Puts decisions of several nodes together, the newest first. Other nodes are not trusted to have left out those that
    /// were not asked for.
    pub(crate) fn merge(
        &self,
        tails: impl IntoIterator<Item = Vec<DecisionEntry>>,
    ) -> Vec<DecisionEntry> {
        let mut all: Vec<DecisionEntry> =
            tails.into_iter().flatten().filter(|entry| self.fits(entry)).collect();
        // Times of equal length, so that their texts have their order.
        all.sort_by(|one, other| other.at.cmp(&one.at));
        all.truncate(self.limit);
        all
    }
}

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

    /// The decision of that id, if it is kept.
    pub(crate) fn find(&self, decision_id: &str) -> Option<Arc<DecisionEntry>> {
        let ring = self.0.lock();
        ring.entries.iter().rev().find(|entry| entry.decision_id == decision_id).cloned()
    }

    /// The last decisions that are asked for, the newest first.
    pub(crate) fn last(&self, ask: &TailAsk) -> Vec<DecisionEntry> {
        let entries: Vec<Arc<DecisionEntry>> = {
            let ring = self.0.lock();
            let fitting = ring.entries.iter().rev().filter(|entry| ask.fits(entry));
            fitting.take(ask.limit).cloned().collect()
        };
        entries.iter().map(|entry| DecisionEntry::clone(entry)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::log::DecisionDetails;
    use super::*;

    fn entry(id: usize, tenant: &str) -> DecisionEntry {
        DecisionEntry {
            decision_id: id.to_string(),
            node: None,
            at: String::new(),
            action: "refused".into(),
            rule_id: None,
            client: String::new(),
            tenant: Some(tenant.to_owned()),
            details: DecisionDetails::default(),
        }
    }

    fn all() -> TailAsk {
        TailAsk { limit: usize::MAX, ..TailAsk::default() }
    }

    fn of_tenant(tenant: &str) -> TailAsk {
        TailAsk { tenant: Some(tenant.to_owned()), ..all() }
    }

    #[test]
    fn the_tail_is_bounded_in_all_and_per_second() {
        let tail = Tail::default();
        for id in 0..MAX_PER_SECOND + 10 {
            tail.keep(Timestamp::from_secs(1), || entry(id, "acme"));
        }
        assert_eq!(tail.last(&all()).len(), MAX_PER_SECOND);
        for second in 2..10 {
            for id in 0..MAX_PER_SECOND {
                tail.keep(Timestamp::from_secs(second), || entry(id, "globex"));
            }
        }
        let last = tail.last(&all());
        assert_eq!(last.len(), TAIL_CAPACITY);
        assert_eq!(last[0].decision_id, (MAX_PER_SECOND - 1).to_string(), "the newest first");
        assert!(tail.last(&of_tenant("acme")).is_empty(), "overwritten");
        tail.keep(Timestamp::from_secs(10), || entry(7, "acme"));
        assert_eq!(tail.last(&of_tenant("acme")).len(), 1);
        let globex = tail.last(&of_tenant("globex"));
        assert!(globex.iter().all(|it| it.tenant.as_deref() == Some("globex")));
        let some = TailAsk { limit: 3, ..of_tenant("globex") };
        assert_eq!(tail.last(&some), globex[..3]);
    }

    #[test]
    fn decisions_are_found_by_what_is_asked_for() {
        let mut ann = entry(1, "acme");
        ann.client = "ann".to_owned();
        ann.rule_id = Some("login".to_owned());
        ann.details.endpoint = Some("/login/x".to_owned());
        ann.details.also_would_refuse.push("watch".to_owned());
        ann.details.identifiers.insert("ip".to_owned(), "203.0.113.9".to_owned());
        let check = |ask: TailAsk, expected: bool| assert_eq!(ask.fits(&ann), expected, "{ask:?}");
        let text = |text: &str| text.to_owned();
        for (client, fits) in [("ann", true), ("203.0.113.9", true), ("an", false), ("x", false)] {
            check(TailAsk { client: text(client), ..all() }, fits);
        }
        for (rule_id, fits) in [("login", true), ("watch", true), ("log", false)] {
            check(TailAsk { rule_id: text(rule_id), ..all() }, fits);
        }
        for (endpoint, fits) in [("/login", true), ("/login/x", true), ("/x", false)] {
            check(TailAsk { endpoint: text(endpoint), ..all() }, fits);
        }
        for (action, fits) in [("refused", true), ("denied", false)] {
            check(TailAsk { action: text(action), ..all() }, fits);
        }
        check(of_tenant("acme"), true);
        check(of_tenant("globex"), false);
        check(TailAsk { client: text("ann"), action: text("denied"), ..all() }, false);
    }

    #[test]
    fn decisions_of_nodes_are_merged_by_time_and_what_was_not_asked_for_is_left_out() {
        let at = |second: usize, tenant: &str| DecisionEntry {
            at: format!("2026-11-18T21:00:{second:02}.000000Z"),
            ..entry(second, tenant)
        };
        let own = vec![at(9, "acme"), at(4, "acme")];
        let other = vec![at(7, "acme"), at(6, "globex"), at(5, "acme")];
        let ask = TailAsk { limit: 3, ..of_tenant("acme") };
        let merged = ask.merge([own, other]);
        let ids: Vec<&str> = merged.iter().map(|entry| entry.decision_id.as_str()).collect();
        assert_eq!(ids, ["9", "7", "5"]);
        // As it travels.
        let json = serde_json::to_string(&merged).expect("JSON");
        assert_eq!(serde_json::from_str::<Vec<DecisionEntry>>(&json).expect("entries"), merged);
    }
}
