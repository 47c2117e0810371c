//! Reloads rules and files for Envoy that have changed, and logs what is in force.

use tollgate::{Policy, Revision};

use crate::app::App;
use crate::policy::source::PolicySource;

impl App {
    /// Reloads the rules and puts them into force; an invalid file changes nothing.
    pub fn reload(&self) {
        if let PolicySource::File(source) = &self.state.policy_source
            && source.file().is_some()
        {
            self.log_reload(source.reload(self.state.now(), |policy| self.install(policy)));
        }
        let envoy = &self.state.envoy;
        if let Some(read) =
            envoy.source.reload(self.state.now(), |limits| self.install_envoy(limits))
        {
            self.log_envoy_reload(read);
        }
    }

    /// Reloads the rules if their file has changed and is no longer being written, which is when it is
    /// the same as at the last call.
    pub fn reload_if_changed(&self) {
        if let PolicySource::File(source) = &self.state.policy_source
            && let Some(read) =
                source.reload_if_settled(self.state.now(), |policy| self.install(policy))
        {
            self.log_reload(read);
        }
        let (envoy, now) = (&self.state.envoy, self.state.now());
        let read = envoy.source.reload_if_settled(now, |limits| self.install_envoy(limits));
        if let Some(read) = read {
            self.log_envoy_reload(read);
        }
    }

    /// A short description of the files for Envoy in force; `None` if there is no directory of them.
    #[must_use]
    pub fn envoy_summary(&self) -> Option<String> {
        let source = &self.state.envoy.source;
        let config = source.loaded.load();
        let (limits, domains) = (config.config.limits().len(), config.config.domains().count());
        let (s, ss) = (if limits == 1 { "" } else { "s" }, if domains == 1 { "" } else { "s" });
        let directory = source.directory()?.display();
        Some(format!("{limits} limit{s} of {domains} domain{ss} from {directory}"))
    }

    fn log_envoy_reload(&self, read: Result<usize, String>) {
        match read {
            Ok(_) => {
                tracing::info!(
                    "limits for Envoy loaded: {}",
                    self.envoy_summary().unwrap_or_default()
                );
            }
            Err(problems) => tracing::error!(
                "limits for Envoy not loaded, the last good ones stay in force: {problems}"
            ),
        }
    }

    fn install(&self, policy: &Policy) {
        self.state.limiter.install(policy);
        self.state.tell_revision(policy);
    }

    fn install_envoy(&self, limits: &Policy) {
        self.state.envoy.limiter.install(limits);
    }

    fn log_reload(&self, read: Result<Revision, String>) {
        match read {
            Ok(Revision { number, .. }) if self.state.policy_source.in_force().rules == 0 => {
                let summary = self.policy_summary();
                tracing::warn!(revision = number, "rules loaded: {summary}: nothing has a limit");
            }
            Ok(Revision { number, .. }) => {
                tracing::info!(revision = number, "rules loaded: {}", self.policy_summary());
            }
            Err(problems) => {
                tracing::error!("rules not loaded, the last good ones stay in force: {problems}");
            }
        }
    }
}
