//! What nodes ask each other, and how the responses of several nodes are put together.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate::RuleCounts;

use super::StatsFigures;
use crate::observe::audit_log::log::DecisionEntry;
use crate::observe::audit_log::tail::TailAsk;
use crate::observe::history::RequestFigures;
use crate::observe::recent_traffic::top::{RankedList, RankingSum, TopAsk, TopFigures};

/// How many rules a node sends the counts of: those that were used most.
const MAX_RULES: usize = 5_000;
/// How many entries of each list a node sends.
pub(in crate::observe) const SENT_ENTRIES: usize = 200;

/// What a node asks all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FigureQuery {
    Top(TopAsk),
    Stats,
    Tail(TailAsk),
}

/// What a node responds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FigureResponse {
    Top(TopFigures),
    Stats(SentStats),
    /// The last decisions, the newest first.
    Tail(Vec<DecisionEntry>),
}

/// The counts of a node as they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SentStats {
    totals: RequestFigures,
    bans_in_force: u64,
    bans_made: u64,
    bans_not_made: u64,
    /// The counts of a rule, in the order of [`numbers`].
    rules: Vec<(String, Vec<u64>)>,
}

/// The counts of a rule. Other versions may have more of them.
fn numbers(counts: &RuleCounts) -> Vec<u64> {
    let RuleCounts { admitted, refused, banned, would_refuse, warned, delayed, degraded, .. } =
        counts;
    let RuleCounts { fallback_local, fallback_open, fallback_closed, .. } = counts;
    [
        admitted,
        refused,
        banned,
        would_refuse,
        warned,
        delayed,
        degraded,
        fallback_local,
        fallback_open,
        fallback_closed,
    ]
    .map(|count| *count)
    .to_vec()
}

fn counts(numbers: &[u64]) -> RuleCounts {
    let at = |place: usize| numbers.get(place).copied().unwrap_or(0);
    RuleCounts {
        admitted: at(0),
        refused: at(1),
        banned: at(2),
        would_refuse: at(3),
        warned: at(4),
        delayed: at(5),
        degraded: at(6),
        fallback_local: at(7),
        fallback_open: at(8),
        fallback_closed: at(9),
    }
}

impl From<StatsFigures> for SentStats {
    fn from(figures: StatsFigures) -> Self {
        let used = figures.rules.iter().filter(|(_, it)| *it != RuleCounts::default());
        let mut rules: Vec<(String, Vec<u64>)> =
            used.map(|(rule_id, it)| (rule_id.to_string(), numbers(it))).collect();
        rules.sort_unstable_by_key(|(_, numbers)| std::cmp::Reverse(numbers.iter().sum::<u64>()));
        rules.truncate(MAX_RULES);
        let StatsFigures { totals, bans_in_force, bans_made, bans_not_made, .. } = figures;
        Self { totals, bans_in_force, bans_made, bans_not_made, rules }
    }
}

/// Adds the top lists of nodes up.
pub(in crate::observe) fn merge_top(
    own: &TopFigures,
    others: &[TopFigures],
    limit: usize,
) -> TopFigures {
    let list = |is_by_pair, list: fn(&TopFigures) -> &RankedList| {
        let mut sum = RankingSum::new(is_by_pair);
        let has_others = !others.is_empty();
        for figures in others.iter().chain([own]).map(list) {
            // A name that a node did not send may have as many requests there as the next one of its list.
            sum.may_lack += figures.may_lack + if has_others { figures.next } else { 0 };
            figures.entries.iter().for_each(|entry| sum.add(entry.clone()));
        }
        sum.finish(limit)
    };
    TopFigures {
        refused: list(false, |it| &it.refused),
        near_limit: list(false, |it| &it.near_limit),
        busiest: list(false, |it| &it.busiest),
        would_refuse: list(true, |it| &it.would_refuse),
    }
}

/// Adds the counts of nodes up. Bans are in force on all nodes, as far as nodes share them.
pub(super) fn merge_stats(own: StatsFigures, others: Vec<SentStats>) -> StatsFigures {
    let mut sum = own;
    let mut places: HashMap<Arc<str>, usize> = sum
        .rules
        .iter()
        .enumerate()
        .map(|(place, (rule_id, _))| (rule_id.clone(), place))
        .collect();
    for other in others {
        sum.totals = sum.totals.plus(&other.totals);
        sum.bans_in_force = sum.bans_in_force.max(other.bans_in_force);
        sum.bans_made += other.bans_made;
        sum.bans_not_made += other.bans_not_made;
        for (rule_id, more) in other.rules {
            let next = places.len();
            let place = *places.entry(rule_id.as_str().into()).or_insert(next);
            if place == sum.rules.len() {
                sum.rules.push((rule_id.into(), RuleCounts::default()));
            }
            if let Some((_, known)) = sum.rules.get_mut(place) {
                let added = numbers(known).into_iter().zip(numbers(&counts(&more)));
                *known = counts(&added.map(|(a, b)| a.saturating_add(b)).collect::<Vec<_>>());
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::recent_traffic::top::RankedEntry;

    #[test]
    fn counts_of_nodes_add_up() {
        let counted = |admitted, fallback_closed| RuleCounts {
            admitted,
            fallback_closed,
            ..RuleCounts::default()
        };
        let figures = |rules: &[(&str, RuleCounts)], allowed, bans| StatsFigures {
            totals: RequestFigures { allowed, ..RequestFigures::default() },
            bans_in_force: bans,
            bans_made: bans,
            bans_not_made: 0,
            rules: rules.iter().map(|(rule_id, it)| (Arc::from(*rule_id), *it)).collect(),
        };
        let own = figures(&[("a", counted(1, 0)), ("unused", counted(0, 0))], 1, 1);
        let other = figures(&[("b", counted(5, 6)), ("a", counted(2, 3))], 7, 2);
        let json = serde_json::to_string(&FigureResponse::Stats(other.into())).expect("JSON");
        let FigureResponse::Stats(other) = serde_json::from_str(&json).expect("a response") else {
            panic!("{json}");
        };
        let sum = merge_stats(own, vec![other.clone(), other]);
        let expected = figures(
            &[("a", counted(5, 6)), ("unused", counted(0, 0)), ("b", counted(10, 12))],
            15,
            2,
        );
        assert_eq!(sum, StatsFigures { bans_made: 5, ..expected });
    }

    #[test]
    fn top_lists_of_nodes_add_up_by_tenant_and_name() {
        let list = |entries: &[(&str, &str, u64)], next| RankedList {
            entries: entries
                .iter()
                .map(|(tenant, name, count)| RankedEntry {
                    name: (*name).to_owned(),
                    tenant: Some((*tenant).to_owned()),
                    count: *count,
                    ..RankedEntry::default()
                })
                .collect(),
            may_lack: 1,
            next,
        };
        let top = |refused| TopFigures { refused, ..TopFigures::default() };
        let own = top(list(&[("t", "a", 5), ("t", "b", 4)], 2));
        let other = top(list(&[("t", "b", 4), ("u", "a", 1)], 0));
        let merged = merge_top(&own, std::slice::from_ref(&other), 2).refused;
        let names: Vec<(&str, u64)> =
            merged.entries.iter().map(|it| (it.name.as_str(), it.count)).collect();
        assert_eq!(names, [("b", 8), ("a", 5)]);
        assert_eq!((merged.may_lack, merged.next), (4, 1));
        assert_eq!(merge_top(&own, &[], 1).refused.may_lack, 1, "of one node nothing is missing");
    }
}
