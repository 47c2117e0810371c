//! What works and what does not: stores, catalog, clocks, hot keys, memory, nodes.

use super::overview::{Memory, NodeRow, StoreServer};
use super::series::LatencySeries;
use super::shared::{Identifier, Section};
use super::time::Time;

/// The page of health.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Where counters are, without secrets: `memory of this node`, `redis://redis-1:6379, redis://redis-2:6379`.
    pub store: String,
    /// The servers that store counters.
    pub stores: Vec<StoreServer>,
    /// The difference of clocks that is worth a warning, in seconds.
    pub drift_warning_seconds: f64,
    /// What rules do without the store, whether it is away or not.
    pub fallbacks: Vec<FallbackGroup>,
    /// Duration of settling in the store.
    pub store_latency: LatencySeries,
    /// The catalog, if the rules come from one.
    pub catalog: Option<CatalogHealth>,
    /// Files that are watched: rules, Envoy's limits.
    pub files: Vec<FileHealth>,
    /// The counters that a large share of the requests of this node charges, each in one server of the store.
    pub hot_keys: Vec<HotKey>,
    /// Counters in the memory of this node.
    pub memory: Memory,
    /// Other figures that are good or bad: bans not kept, decisions lost for the log, refused copies of the policy.
    pub facts: Vec<HealthFact>,
    /// The nodes of the fleet.
    pub nodes: Section<Vec<NodeRow>>,
    /// Since when the other nodes cannot be reached.
    pub cut_off_since: Option<Time>,
}

/// How often one kind of error occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorCount {
    /// The kind, as in the metrics.
    pub kind: String,
    /// How often.
    pub count: u64,
}

/// What a rule does without the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FallbackMode {
    /// Each node counts for itself.
    #[default]
    Local,
    /// Requests pass.
    Open,
    /// Requests are refused.
    Closed,
    /// The counter is never shared (`consistency: local`), so nothing changes.
    NotShared,
}

/// The rules that do the same without the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FallbackGroup {
    /// What they do.
    pub mode: FallbackMode,
    /// Their ids, some of them if there are many.
    pub rule_ids: Vec<String>,
    /// How many there are.
    pub rules: u64,
    /// What they allow meanwhile, as in "2x the limit on each node"; empty where that says nothing.
    pub allowance: String,
    /// Requests per second that are decided so now.
    pub per_second: f64,
    /// Requests that were decided so since the node started.
    pub requests: u64,
}

/// The database of rules, clients and tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogHealth {
    /// Where it is, without secrets: "sqlite:tollgate.db".
    pub location: String,
    /// When it last responded.
    pub synced_at: Option<Time>,
    /// Whether it responds.
    pub is_reachable: bool,
    /// The last error.
    pub error: Option<String>,
    /// Its revision, as last read.
    pub revision: u64,
    /// Whether the policy came from a copy, because the catalog was away at the start; and which.
    pub copy: Option<String>,
}

/// A file that is watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileHealth {
    /// What it is: "rules", "limits of Envoy".
    pub what: String,
    /// Its path.
    pub path: String,
    /// When it was last loaded.
    pub loaded_at: Option<Time>,
    /// Why the last load failed; the one before stays in force.
    pub error: Option<String>,
}

/// A counter that is charged very often.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotKey {
    /// The rule.
    pub rule_id: String,
    /// What the counter is of: a client, an endpoint, or all requests.
    pub name: String,
    /// The identifiers of the client; none if it is of no client, or they are secret.
    pub identifiers: Vec<Identifier>,
    /// Requests per second.
    pub per_second: f64,
    /// The share of the requests of this node that charge it, from 0 to 1.
    pub share: f64,
}

/// A figure that is good or bad.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthFact {
    /// What it is: "Decisions lost for the log".
    pub name: String,
    /// Its value as text.
    pub value: String,
    /// Whether it should not be so.
    pub is_bad: bool,
    /// What it means, or what to do.
    pub hint: String,
}
