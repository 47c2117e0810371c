//! When files were loaded, the policy or those of envoyproxy/ratelimit, and whether the last attempt succeeded.

use std::sync::Arc;

use tollgate::Timestamp;

/// The result of the last load, and the time of the last good one.
#[derive(Clone, Debug)]
pub(crate) struct LoadStatus {
    /// When the files in force were loaded.
    pub(crate) loaded_at: Timestamp,
    /// When the files were last read, successfully or not.
    pub(crate) tried_at: Timestamp,
    /// Why the last load failed; `None` if it did not.
    pub(crate) error: Option<Arc<str>>,
}

impl LoadStatus {
    pub(crate) const fn loaded(now: Timestamp) -> Self {
        Self { loaded_at: now, tried_at: now, error: None }
    }

    pub(crate) fn failed(&self, now: Timestamp, error: &str) -> Self {
        Self { loaded_at: self.loaded_at, tried_at: now, error: Some(error.into()) }
    }
}
