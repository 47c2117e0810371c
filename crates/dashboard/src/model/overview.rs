//! The first page: requests, refusals, latency, stores and nodes at a glance.

use super::rules::RuleRow;
use super::series::{Figure, LatencySeries, RequestSeries};
use super::shared::{FiguresOf, Section, TopClient};
use super::time::Time;

/// The first page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// What to try first; shown while no request was checked yet.
    pub first_check: Option<FirstCheck>,
    /// Requests per second of this node.
    pub requests: Figure,
    /// How many nodes are heard, and requests per second of all of them together; none if it is this one only.
    pub fleet_requests: Option<(usize, f64)>,
    /// The share of requests that were refused, denied or not checked, from 0 to 1.
    pub refused_share: Figure,
    /// The 99th percentile of checks in milliseconds; without a course if there were none.
    pub check_p99_ms: Figure,
    /// Requests per second that were checked without the shared store.
    pub without_store: Figure,
    /// Requests over the range.
    pub course: RequestSeries,
    /// The clients with most refusals.
    pub most_refused: Vec<TopClient>,
    /// Whose refusals that ranking counts.
    pub most_refused_of: FiguresOf,
    /// How far back that ranking goes, in seconds.
    pub top_seconds: u64,
    /// The rules with most refusals.
    pub rules: Vec<RuleRow>,
    /// Duration of checks.
    pub check_latency: LatencySeries,
    /// Duration of settling in the store.
    pub store_latency: LatencySeries,
    /// The servers that store counters; none if they are in memory only.
    pub stores: Vec<StoreServer>,
    /// Counters in the memory of this node.
    pub memory: Memory,
    /// The nodes of the fleet, this one included.
    pub nodes: Section<Vec<NodeRow>>,
    /// Since when the others cannot be reached.
    pub cut_off_since: Option<Time>,
}

/// How to send a first request: the page shows it as a curl line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstCheck {
    /// The address of the check API: `http://127.0.0.1:8080`.
    pub base_url: String,
    /// Whether the check API needs a token.
    pub needs_token: bool,
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breaker {
    /// Calls are made.
    #[default]
    Closed,
    /// One call is made to see whether the server responds again.
    HalfOpen,
    /// No calls are made; each rule's `on_store_failure` applies.
    Open,
}

/// A server that stores counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreServer {
    /// Its address, without secrets.
    pub server: String,
    /// Its circuit breaker.
    pub breaker: Breaker,
    /// Since when the breaker is in that state, if that is known.
    pub since: Option<Time>,
    /// Why it cannot be used, or how the last call failed: the name of a kind of error, or none.
    pub failure: Option<String>,
    /// How often the breaker opened.
    pub openings: u64,
    /// Calls in all.
    pub calls: u64,
    /// Failed requests in all.
    pub failures: u64,
    /// The failures by kind of error, those that occurred.
    pub errors: Vec<super::health::ErrorCount>,
    /// The median duration of its calls in milliseconds, if there were any.
    pub p50_ms: Option<f64>,
    /// The 95th percentile.
    pub p95_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: Option<f64>,
    /// How far its clock is ahead of this node's, in seconds.
    pub drift_seconds: Option<f64>,
}

/// Counters in the memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How many.
    pub counters: u64,
    /// The bytes they take.
    pub bytes: u64,
    /// The most bytes they may take.
    pub max_bytes: u64,
    /// Counters evicted before they expired.
    pub evictions: u64,
}

/// A node of the fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// Whether it is the one that made this page.
    pub is_this: bool,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it last reported.
    pub seen_at: Time,
    /// How it is now; none if it is silent.
    pub state: Option<NodeState>,
    /// The revision of its policy.
    pub revision: u64,
    /// The beginning of the SHA-256 of its rules file: nodes with files count revisions separately.
    pub rules_file: Option<String>,
    /// The beginning of the digest of its files for Envoy.
    pub envoy_files: Option<String>,
    /// When that came into force there.
    pub revision_at: Option<Time>,
}

/// How a node is that is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeState {
    /// Why it takes no traffic, in a few words; none if it does.
    pub unready: Option<&'static str>,
    /// Requests per second.
    pub requests_per_second: f64,
    /// The share of them that was refused.
    pub refused_share: f64,
    /// Its store, as it sees it.
    pub store: NodeStore,
}

/// The store, as a node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeStore {
    /// Counters are in its memory.
    #[default]
    Memory,
    /// All servers respond.
    Reachable,
    /// Some servers do not respond.
    Partly {
        /// How many do.
        up: u32,
        /// How many there are.
        servers: u32,
    },
    /// No server responds.
    Unreachable,
}
