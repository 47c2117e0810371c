//! What pages say about the server that its settings know.

use tollgate::rules::LintContext;

use super::UiShared;
use crate::settings::{CheckAuth, Settings};

#[derive(Debug)]
pub(super) struct ServerFacts {
    /// The address of the check API.
    pub(super) check_url: String,
    pub(super) check_needs_token: bool,
    /// Where counters are, without secrets.
    pub(super) store: String,
    is_redis: bool,
    has_trusted_proxies: bool,
    pub(super) drift_warning_seconds: f64,
    pub(super) memory_bytes: u64,
    /// The directory with files of envoyproxy/ratelimit; empty without.
    pub(super) envoy_folder: String,
    /// The share of allowed requests that is recorded.
    pub(super) sample_allowed: f64,
}

impl ServerFacts {
    pub(super) fn new(settings: &Settings) -> Self {
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let folder = settings.envoy_config.as_ref();
        Self {
            check_url: format!("{scheme}://{}", settings.http),
            check_needs_token: settings.check_auth != CheckAuth::None,
            store: if settings.store.is_shared() {
                settings.store.to_string()
            } else {
                "memory of this node".to_owned()
            },
            is_redis: settings.store.is_redis(),
            has_trusted_proxies: !settings.identity.client_ip.trusted_proxies.is_empty(),
            drift_warning_seconds: settings.remote.drift.as_secs_f64(),
            memory_bytes: settings.memory.bytes(),
            envoy_folder: folder.map_or_else(String::new, |folder| folder.display().to_string()),
            sample_allowed: settings.audit.sample_allowed,
        }
    }
}

impl UiShared {
    /// Where rules run, for the linter.
    pub(super) fn lint_context(&self) -> LintContext {
        LintContext {
            nodes: u32::try_from(self.app.live_nodes()).ok().filter(|nodes| *nodes > 0),
            trusted_proxies: Some(self.about.has_trusted_proxies),
            redis: self.about.is_redis,
        }
    }
}
