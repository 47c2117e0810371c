//! The last decisions of all nodes, for the tail of the dashboard.

use std::{iter, mem};

use super::query::{FigureQuery, FigureResponse};
use super::{FigureScope, Merged};
use crate::app::state::Shared;
use crate::observe::audit_log::log::DecisionEntry;
use crate::observe::audit_log::tail::TailAsk;

/// How many decisions a node sends.
const MAX_SENT: usize = 100;
/// How many bytes of decisions a node sends: of decisions with long texts, fewer.
const MAX_SENT_BYTES: usize = 64 << 10;

impl Shared {
    /// The last decisions of all nodes that are asked for, the newest first, at most a second old; for an administrator of a
    /// tenant without rules of others.
    pub(crate) async fn tail(&self, ask: &TailAsk) -> Merged<Vec<DecisionEntry>> {
        let mut others = self.others(FigureScope::Fleet, FigureQuery::Tail(ask.clone())).await;
        let tails =
            mem::take(&mut others.responses).into_iter().filter_map(|response| match response {
                FigureResponse::Tail(entries) => Some(entries),
                FigureResponse::Top(_) | FigureResponse::Stats(_) => None,
            });
        let tails: Vec<_> = tails.collect();
        let nodes = 1 + tails.len();
        let own = self.audit_log.tail.last(ask);
        let tenant = ask.tenant.as_deref();
        let merged = ask.merge(iter::once(own).chain(tails)).into_iter();
        let seen = merged.map(|entry| self.without_foreign_rules(entry, tenant));
        // One that was found by a rule of others is not found.
        others.merged(seen.filter(|entry| ask.fits(entry)).collect(), nodes)
    }

    /// The last decisions of this node, as another node gets them.
    pub(super) fn sent_tail(&self, ask: TailAsk) -> Vec<DecisionEntry> {
        let limit = ask.limit.min(MAX_SENT);
        within(MAX_SENT_BYTES, self.audit_log.tail.last(&TailAsk { limit, ..ask }))
    }
}

/// As many decisions as fit into so many bytes.
fn within(max_bytes: usize, mut entries: Vec<DecisionEntry>) -> Vec<DecisionEntry> {
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += serde_json::to_vec(entry).map_or(0, |json| json.len());
        bytes <= max_bytes
    });
    let count = fitting.count();
    entries.truncate(count);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_with_long_texts_fill_no_more_than_their_bytes() {
        let entry: DecisionEntry = serde_json::from_value(serde_json::json!({
            "decision_id": "d00000000-r1", "at": "2026-11-18T21:00:00.000000Z", "action": "refused",
            "rule_id": "r", "client": "x".repeat(300), "tenant": null,
        }))
        .expect("a decision");
        let bytes = serde_json::to_vec(&entry).expect("JSON").len();
        let all = vec![entry; 7];
        assert_eq!(within(7 * bytes, all.clone()).len(), 7);
        assert_eq!(within(7 * bytes - 1, all.clone()).len(), 6);
        assert!(within(bytes - 1, all).is_empty());
    }
}
