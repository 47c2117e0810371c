//! The frame of a page: who is signed in, what is wrong right now, and what the last form did.

use tollgate::Micros;
use tollgate::store::{BreakerState, RemoteStatus};
use tollgate_dashboard::model::{Banner, Chrome, Notice, Range, Rights, Severity, Tab, Viewer};
use tollgate_dashboard::path;

use super::convert::time;
use super::notice;
use super::range::range_of;
use super::visit::Visit;
use crate::admin::auth::{Principal, Right};
use crate::app::state::Shared;
use crate::observe::metrics::MetricsSnapshot;
use crate::policy::source::PolicySource;

/// How long the catalog may be silent before pages say so.
const CATALOG_SILENCE: f64 = 15.0;

impl Visit {
    /// The frame of a page of this visit.
    pub(super) fn chrome(&self, tab: Tab) -> Chrome {
        let app = &self.ui.app;
        let parameter = |name: &str| self.parameter(name);
        Chrome {
            now: time(self.now()),
            tab,
            viewer: self.viewer(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: app
                .nodes()
                .into_iter()
                .find(|node| node.is_this)
                .map_or_else(String::new, |it| it.host),
            nodes: 1,
            revision: app.policy_source.in_force().revision.number,
            csrf: self.session.form_token(),
            banners: self.banners(),
            notice: parameter("notice").and_then(|word| notice::of(word, parameter("of"))),
            range: range_of(parameter, self.now()),
            hidden: self.hidden_tabs(),
            read_only: read_only(app),
        }
    }

    /// Pages that this visitor may not see. Administrators of a tenant see what is of that tenant.
    fn hidden_tabs(&self) -> Vec<Tab> {
        let all = [
            (Tab::Clients, Right::Viewer),
            (Tab::Try, Right::Look),
            (Tab::Simulate, Right::RuleViewer),
            (Tab::Keys, Right::Viewer),
            (Tab::Health, Right::Viewer),
        ];
        let hidden = all.into_iter().filter(|(_, right)| !self.may(*right)).map(|(tab, _)| tab);
        hidden.collect()
    }

    /// The range of time of the page.
    pub(super) fn range(&self) -> Range {
        range_of(|name| self.parameter(name), self.now())
    }

    fn viewer(&self) -> Viewer {
        let name = match &self.principal {
            Principal::Token(token) => token.name.clone().unwrap_or_else(|| token.token_id.clone()),
            principal => principal.name().to_owned(),
        };
        let may = |right| self.may(right);
        Viewer {
            name,
            role: self.principal.role().name().to_owned(),
            tenant: self.principal.tenant().map(str::to_owned),
            rights: Rights {
                edits_rules: may(Right::RuleEditor),
                operates: may(Right::Operator),
                administers: may(Right::Admin),
            },
        }
    }

    /// What is wrong right now, the worst first. Administrators of a tenant do not see the machines.
    fn banners(&self) -> Vec<Banner> {
        if !self.may(Right::Viewer) {
            return Vec::new();
        }
        banners_of(&self.ui.app.reading(), self.now().as_micros())
    }
}

/// Why nothing can be changed on this server.
fn read_only(app: &Shared) -> Option<String> {
    match &app.policy_source {
        PolicySource::Catalog(_) => None,
        PolicySource::File(source) => Some(match source.file() {
            Some(file) => format!(
                "The rules come from the file {}: change it there, and it is in force within seconds.",
                file.display()
            ),
            None => "This server has limits of Envoy's files and no other rules.".to_owned(),
        }),
    }
}

fn banners_of(reading: &MetricsSnapshot, now_micros: u64) -> Vec<Banner> {
    let health = || Some(("See what that means".to_owned(), path::HEALTH.to_owned()));
    let mut banners = Vec::new();
    for server in reading.servers.iter().filter(|it| it.breaker != BreakerState::Closed) {
        banners.push(Banner {
            severity: Severity::Bad,
            what: format!("{}: circuit breaker {}", server.server, state_name(server)),
            since: None,
            means: "rules decide without it, each as its on_store_failure says".to_owned(),
            link: health(),
        });
    }
    if let Some(silence) = reading.catalog_silence_seconds.filter(|it| *it > CATALOG_SILENCE) {
        let silence = Micros::new((silence * 1e6) as u64).get();
        banners.push(Banner {
            severity: Severity::Warning,
            what: "The catalog does not respond".to_owned(),
            since: Some(time(tollgate::Timestamp::from_micros(now_micros.saturating_sub(silence)))),
            means: "checks go on with the last rules; nothing can be changed".to_owned(),
            link: health(),
        });
    }
    let loads = [("The rules file", &reading.rules_load), ("Envoy's files", &reading.envoy_load)];
    for (what, load) in loads {
        let Some(load) = load.as_deref().filter(|load| load.error.is_some()) else { continue };
        banners.push(Banner {
            severity: Severity::Warning,
            what: format!("{what} cannot be loaded"),
            since: None,
            means: format!(
                "the last valid ones stay in force: {}",
                load.error.as_deref().unwrap_or_default()
            ),
            link: health(),
        });
    }
    if !reading.ready {
        banners.push(Banner {
            severity: Severity::Warning,
            what: "This node shuts down".to_owned(),
            means: "it finishes requests in progress".to_owned(),
            ..Banner::default()
        });
    }
    banners
}

const fn state_name(server: &RemoteStatus) -> &'static str {
    match server.breaker {
        BreakerState::Closed => "closed",
        BreakerState::Probing => "half-open",
        BreakerState::Open => "open",
    }
}

/// A notice that a form was refused.
pub(super) fn refused(text: String) -> Notice {
    Notice { severity: Severity::Bad, text, link: None }
}
