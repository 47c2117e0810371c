//! The first page: requests, refusals, latency, stores and nodes at a glance.

use super::rules::RuleRow;
use super::series::{Figure, LatencySeries, RequestSeries};
use super::shared::{Section, TopClient};
use super::time::Time;

/// The first page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// What to try first; shown while no request was checked yet.
    pub first_check: Option<FirstCheck>,
    /// Requests per second.
    pub requests: Figure,
    /// The share of requests that were refused or denied, from 0 to 1.
    pub refused_share: Figure,
    /// The 99th percentile of checks in milliseconds.
    pub check_p99_ms: Figure,
    /// Requests per second that were checked without the shared store.
    pub without_store: Figure,
    /// Requests over the range.
    pub course: RequestSeries,
    /// The clients with most refusals.
    pub most_refused: Vec<TopClient>,
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
    /// Whether the last call failed.
    pub is_failing: bool,
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
    /// Whether it takes traffic.
    pub is_ready: bool,
    /// The revision of its policy.
    pub revision: u64,
    /// When that came into force there.
    pub revision_at: Option<Time>,
    /// Requests per second.
    pub requests_per_second: f64,
    /// The share of them that was refused.
    pub refused_share: f64,
    /// The worst state of its circuit breakers.
    pub breaker: Breaker,
    /// Since when.
    pub breaker_since: Option<Time>,
    /// Its counters.
    pub memory: Memory,
}
