//! The counters of a gateway, for metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::StatusCode;

use crate::failure::ForwardError;

const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "429", "5xx"];

/// The counters of a gateway.
#[derive(Debug, Default)]
pub struct GatewayCounts {
    responses: [AtomicU64; CLASSES.len()],
    failures: [AtomicU64; ForwardError::ALL.len()],
    retries: AtomicU64,
    upgrades: AtomicU64,
}

/// The figures at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Responses by class of status.
    pub responses: Vec<(&'static str, u64)>,
    /// Failures between the gateway and upstreams, by kind.
    pub failures: Vec<(&'static str, u64)>,
    /// Requests that were retried.
    pub retries: u64,
    /// Upgraded connections that are open.
    pub upgrades: u64,
}

impl GatewayCounts {
    /// Counts a response to a client, of an upstream or of the gateway.
    pub fn count_response(&self, status: StatusCode) {
        let class = match status.as_u16() {
            429 => 4,
            ..200 => 0,
            200..300 => 1,
            300..400 => 2,
            400..500 => 3,
            500.. => 5,
        };
        self.responses[class].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_failure(&self, failure: ForwardError) {
        if let Some(at) = ForwardError::ALL.iter().position(|known| *known == failure) {
            self.failures[at].fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Counts an upgraded connection until the returned value is dropped.
    pub(crate) fn open_upgrade(self: &Arc<Self>) -> OpenUpgrade {
        self.upgrades.fetch_add(1, Relaxed);
        OpenUpgrade(Arc::clone(self))
    }

    /// Reads the figures.
    #[must_use]
    pub fn read(&self) -> Readings {
        let load = |count: &AtomicU64| count.load(Relaxed);
        Readings {
            responses: CLASSES.into_iter().zip(self.responses.iter().map(load)).collect(),
            failures: ForwardError::ALL
                .into_iter()
                .map(ForwardError::name)
                .zip(self.failures.iter().map(load))
                .collect(),
            retries: load(&self.retries),
            upgrades: load(&self.upgrades),
        }
    }
}

/// An upgraded connection that is open.
#[derive(Debug)]
pub(crate) struct OpenUpgrade(Arc<GatewayCounts>);

impl Drop for OpenUpgrade {
    fn drop(&mut self) {
        self.0.upgrades.fetch_sub(1, Relaxed);
    }
}
