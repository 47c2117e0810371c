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
use crate::app::readiness::NodeReadiness;
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
                .find(|node| node.is_this && self.principal.tenant().is_none())
                .map_or_else(String::new, |it| it.host),
            revision: app.policy_source.in_force().revision.number,
            csrf: self.session.form_token(),
            banners: self.banners(),
            notice: parameter("notice")
                .and_then(|word| notice::of(word, parameter("of"), parameter("rule"))),
            range: range_of(parameter, self.now()),
            hidden: self.hidden_tabs(),
            envoy_limits: app.envoy.source.loaded.load().config.limits().len() as u64,
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
        let app = &self.ui.app;
        let mut banners = banners_of(&app.reading(), self.now().as_micros());
        banners.extend(app.unreachable_since().map(|since| Banner {
            severity: Severity::Warning,
            what: "Other nodes cannot be reached".to_owned(),
            since: Some(time(since)),
            means: "figures are of this node only".to_owned(),
            link: Some(("See the nodes".to_owned(), format!("{}#nodes", path::HEALTH))),
        }));
        banners
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
    let health = |section: &str| {
        Some(("See what that means".to_owned(), format!("{}#{section}", path::HEALTH)))
    };
    let mut banners = Vec::new();
    for server in reading.servers.iter().filter(|it| it.breaker != BreakerState::Closed) {
        banners.push(Banner {
            severity: Severity::Bad,
            what: format!("{}: circuit breaker {}", server.server, state_name(server)),
            since: None,
            means: "rules decide without it, each as its on_store_failure says".to_owned(),
            link: health("stores"),
        });
    }
    if let Some(silence) = reading.catalog_silence_seconds.filter(|it| *it > CATALOG_SILENCE) {
        let silence = Micros::new((silence * 1e6) as u64).get();
        banners.push(Banner {
            severity: Severity::Warning,
            what: "The catalog does not respond".to_owned(),
            since: Some(time(tollgate::Timestamp::from_micros(now_micros.saturating_sub(silence)))),
            means: "checks go on with the last rules; nothing can be changed".to_owned(),
            link: health("policy"),
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
                "the last valid ones stay in force. {}",
                first_problem(load.error.as_deref().unwrap_or_default())
            ),
            link: health("policy"),
        });
    }
    let unready = match reading.readiness {
        NodeReadiness::Ready => None,
        NodeReadiness::WaitingForCatalog => Some((
            Severity::Bad,
            "This node has not read its catalog yet",
            "it reports that it is not ready, and decides by the built-in rules until then",
        )),
        NodeReadiness::Draining => {
            Some((Severity::Warning, "This node shuts down", "it finishes requests in progress"))
        }
    };
    banners.extend(unready.map(|(severity, what, means)| Banner {
        severity,
        what: what.to_owned(),
        means: means.to_owned(),
        ..Banner::default()
    }));
    banners
}

/// The first problem of a file as a sentence with its place, and how many others there are. An error that is no list of
/// problems is its first line.
fn first_problem(error: &str) -> String {
    let is_problem = |line: &&str| line.starts_with("error: ");
    let count = error.lines().filter(is_problem).count();
    let Some(first) = error.lines().find(is_problem) else {
        return error.lines().next().unwrap_or_default().to_owned();
    };
    let after = error.lines().skip_while(|line| !is_problem(line)).skip(1);
    let place = after.take_while(|line| !is_problem(line)).find_map(|line| {
        let place = line.trim_start().strip_prefix("--> ")?;
        Some(place.trim_end().to_owned())
    });
    let what = first.trim_start_matches("error: ").trim_end_matches('.');
    let place = place.map(|place| format!("{place}: ")).unwrap_or_default();
    match count {
        1 => format!("{place}{what}."),
        2 => format!("{place}{what}, and 1 more problem."),
        _ => format!("{place}{what}, and {} more problems.", count - 1),
    }
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

#[cfg(test)]
mod tests {
    use super::first_problem;

    #[test]
    fn the_first_problem_of_a_file_is_a_sentence_with_its_place() {
        let error = "few.yaml has problems:\nerror: rule per_address, limit: a whole number is expected\n --> few.yaml:1:9\n  |\n\
                     1 | rules: x\n  |        ^\nerror: rule b, window: missing\n --> few.yaml:3:1\n";
        assert_eq!(
            first_problem(error),
            "few.yaml:1:9: rule per_address, limit: a whole number is expected, and 1 more problem."
        );
        assert_eq!(first_problem("error: nothing\n"), "nothing.");
        assert_eq!(
            first_problem("cannot read few.yaml: gone\n  help"),
            "cannot read few.yaml: gone"
        );
        assert_eq!(first_problem(""), "");
    }
}
