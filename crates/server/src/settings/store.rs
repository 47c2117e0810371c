//! Settings for stores: their URL, timeouts and circuit breaker.

use std::time::Duration;

use serde_json::Value as Json;
use tollgate::Micros;
use tollgate::store::{RemoteSettings, StoreUrl};
use tollgate_document::{Problem, Value};

use super::layers::Layers;
use super::value::{Setting, problem};

pub(super) fn read(layers: &mut Layers<'_>, remote: &mut RemoteSettings) {
    let deadlines = Duration::from_millis(1)..=Duration::from_secs(60);
    layers.read_within("store_failure.deadline", &mut remote.deadline, deadlines);
    let mut failures = u64::from(remote.failures);
    layers.read_within("store_failure.failures", &mut failures, 1..=1_000_000);
    remote.failures = u32::try_from(failures).unwrap_or(u32::MAX);
    let pauses = Duration::from_millis(10)..=Duration::from_hours(1);
    layers.read_within("store_failure.probe_after", &mut remote.probe_after, pauses);
    let drifts = Duration::from_millis(1)..=Duration::from_hours(24);
    layers.read_within("store_failure.drift_warning", &mut remote.drift, drifts);
    let times = Duration::ZERO..=Duration::from_hours(24 * 800);
    layers.read_within("carry_over", &mut remote.carry_over, times);
    let micros = remote.deny_cache.get();
    let mut refusals = Duration::from_micros(micros);
    layers.read_within("deny_cache", &mut refusals, Duration::ZERO..=Duration::from_secs(1));
    remote.deny_cache = Micros::new(u64::try_from(refusals.as_micros()).unwrap_or(micros));
}

/// A URL may contain a password, so messages do not repeat it.
impl Setting for StoreUrl {
    fn expected() -> String {
        "memory:, or the URL of Redis or PostgreSQL".to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text).ok()
    }

    fn read(value: &Value) -> Result<Self, Problem> {
        let text = value.scalar().ok_or_else(<Self as Setting>::expected);
        text.and_then(Self::parse).map_err(problem)
    }

    fn show(&self) -> Json {
        self.to_string().into()
    }
}
