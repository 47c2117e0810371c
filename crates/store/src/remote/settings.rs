//! Timeouts and circuit breaker of a store across a network, and the status of its servers.

use std::time::Duration;

use tollgate_core::Micros;

use super::fleet_gate::FleetGate;
use crate::{HistogramSnapshot, StoreErrorKind};

/// Timeouts, circuit breaker and deny cache.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    /// The timeout of a request.
    pub deadline: Duration,
    /// How many failures in a row open the circuit breaker.
    pub failures: u32,
    /// How long the circuit breaker stays open before one request probes the server.
    pub probe_after: Duration,
    /// The difference between the server's clock and ours that is warned of.
    pub drift: Duration,
    /// How long a refusal stays in the deny cache at most.
    pub deny_cache: Micros,
    /// How long counters of earlier versions are carried over, from when the first node of this version met the store:
    /// their names are not keyed, so all who can write to the store could forge one. At most two windows of a rule.
    pub carry_over: Duration,
    /// Whether the time is the caller's instead of the server's: for recorded traffic.
    pub uses_callers_clock: bool,
    /// Closed while the store must not be used.
    pub gate: FleetGate,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_millis(50),
            failures: 5,
            probe_after: Duration::from_secs(1),
            drift: Duration::from_secs(1),
            deny_cache: Micros::from_secs(1),
            carry_over: Duration::from_hours(24),
            uses_callers_clock: false,
            gate: FleetGate::default(),
        }
    }
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests are sent.
    Closed,
    /// It failed too often: requests fail at once.
    Open,
    /// Half-open: one request probes the server.
    Probing,
}

/// The status of a server.
#[derive(Clone, Debug)]
pub struct RemoteStatus {
    /// Its address, without secrets.
    pub server: String,
    /// The state of its circuit breaker.
    pub breaker: BreakerState,
    /// Why it cannot be used, or how the last call failed; `None` if it did not.
    pub failure: Option<StoreErrorKind>,
    /// Times the circuit breaker opened.
    pub openings: u64,
    /// How many requests failed.
    pub failures: u64,
    /// Calls to it; each may carry several requests.
    pub calls: u64,
    /// The failures by kind of error, each with its name in metrics.
    pub errors: [(&'static str, u64); StoreErrorKind::ALL.len()],
    /// How long calls took.
    pub latency: HistogramSnapshot,
    /// How far its clock is ahead of ours, in seconds; `None`: unknown yet.
    pub drift_seconds: Option<f64>,
}
