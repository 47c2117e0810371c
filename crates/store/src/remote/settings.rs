//! How patient a node is with a store across a network, and what it can say about it.

use std::time::Duration;

use tollgate_core::Micros;

use crate::{HistogramSnapshot, StoreErrorKind};

/// How patient to be.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    /// How long a request may wait for its answer.
    pub deadline: Duration,
    /// How many failures in a row it takes until a server is left alone.
    pub failures: u32,
    /// How long it is left alone before one request tries again.
    pub probe_after: Duration,
    /// From which difference between the server's clock and ours on it is warned of.
    pub drift: Duration,
    /// How long a refusal is remembered at most, so that whoever keeps asking is not asked about.
    pub deny_cache: Micros,
    /// Whether moments are those of whoever asks, instead of the server's: for recorded traffic.
    pub uses_callers_clock: bool,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(50),
            failures: 5,
            probe_after: Duration::from_secs(1),
            drift: Duration::from_secs(1),
            deny_cache: Micros::from_secs(1),
            uses_callers_clock: false,
        }
    }
}

/// Whether a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// It is.
    Closed,
    /// It failed too often, and is left alone for a while.
    Open,
    /// One request is trying it.
    Probing,
}

/// How a server is doing.
#[derive(Clone, Debug)]
pub struct RemoteStatus {
    /// Where it is, without secrets.
    pub server: String,
    /// Whether it is asked.
    pub breaker: BreakerState,
    /// Whether the last call failed.
    pub is_failing: bool,
    /// How often it was left alone.
    pub openings: u64,
    /// How many requests it failed to answer.
    pub failures: u64,
    /// Calls to it; each may carry several requests.
    pub calls: u64,
    /// The failures by kind of error, each with its name in metrics.
    pub errors: [(&'static str, u64); StoreErrorKind::ALL.len()],
    /// How long calls took.
    pub latency: HistogramSnapshot,
    /// How far its clock is ahead of ours, in seconds; `None`: it has not been asked.
    pub drift_seconds: Option<f64>,
}
