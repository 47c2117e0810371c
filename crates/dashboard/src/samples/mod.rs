//! Every page with made-up data: realistic, empty, and hostile. For the gallery, and for tests.

mod clients;
mod operations;
mod overview;
mod rules;
mod tries;

use crate::model::{
    Audit, Banner, Chrome, Client, ClientRef, Clients, EditedRule, EffectPreview, ErrorPage,
    Failure, Health, Identifier, Keys, Live, Notice, Overview, Range, RangeChoice, Rights, Rules,
    Section, Severity, SignIn, Simulation, Time, Viewer,
};
use crate::{Page, path};

/// The moment that samples are of: 2025-11-18T13:00:00Z.
pub const NOW: Time = Time::from_secs(1_763_470_800);

/// What hostile samples add to every text: markup, quotes, a bidi mark, a zero-width space, a terminal escape.
pub const HOSTILE: &str =
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\u{202e}\u{200b}\u{1b}[31m\u{0}";

/// A page of the gallery.
pub struct Sample {
    /// The name of its file.
    pub name: &'static str,
    /// Its frame.
    pub chrome: Chrome,
    /// Its content.
    pub page: Page,
}

/// How texts and figures of samples are made.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    is_hostile: bool,
}

impl Words {
    /// A text.
    pub(crate) fn t(self, text: &str) -> String {
        if self.is_hostile { format!("{text}{HOSTILE}") } else { text.to_owned() }
    }

    /// A text that may be missing.
    pub(crate) fn some(self, text: &str) -> Option<String> {
        Some(self.t(text))
    }

    /// Several texts.
    pub(crate) fn list(self, texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| self.t(text)).collect()
    }

    /// A whole number.
    pub(crate) fn n(self, number: u64) -> u64 {
        if self.is_hostile { u64::MAX } else { number }
    }

    /// A number.
    pub(crate) fn f(self, number: f64) -> f64 {
        if self.is_hostile { f64::NAN } else { number }
    }

    /// A client by one identifier.
    pub(crate) fn client(self, identifier_type: &str, value: &str) -> ClientRef {
        ClientRef { name: self.t(value), identifiers: vec![self.part(identifier_type, value)] }
    }

    /// One identifier.
    pub(crate) fn part(self, identifier_type: &str, value: &str) -> Identifier {
        Identifier { identifier_type: self.t(identifier_type), value: self.t(value) }
    }
}

/// So many seconds before the moment of the samples.
pub(crate) const fn before(seconds: u64) -> Time {
    Time::from_secs(NOW.as_secs() - seconds)
}

/// So many seconds after the moment of the samples.
pub(crate) const fn after(seconds: u64) -> Time {
    Time::from_secs(NOW.as_secs() + seconds)
}

/// Pages as they look on a busy day.
#[must_use]
pub fn rich() -> Vec<Sample> {
    full(Words { is_hostile: false })
}

/// The same pages, with every text hostile and every number extreme.
#[must_use]
pub fn hostile() -> Vec<Sample> {
    full(Words { is_hostile: true })
}

fn full(w: Words) -> Vec<Sample> {
    let frame = chrome(w);
    let quiet = Chrome { banners: Vec::new(), ..frame.clone() };
    let saved = Chrome {
        notice: Some(Notice {
            severity: Severity::Info,
            text: w.t("Saved as revision 42."),
            link: Some((w.t("What changed"), path::AUDIT.to_owned())),
        }),
        ..quiet.clone()
    };
    let page = |name, chrome: &Chrome, page| Sample { name, chrome: chrome.clone(), page };
    vec![
        page("overview", &frame, Page::Overview(Box::new(overview::overview(w)))),
        page("rules", &quiet, Page::Rules(Box::new(rules::rules(w)))),
        page("rule", &saved, Page::Rule(Box::new(rules::rule(w)))),
        page("rule-yaml", &quiet, Page::Rule(Box::new(rules::rule_as_yaml(w)))),
        page("rule-deleted", &quiet, Page::DeletedRule(Box::new(rules::deleted(w)))),
        page("clients", &quiet, Page::Clients(Box::new(clients::clients(w)))),
        page("client", &quiet, Page::Client(Box::new(clients::client(w)))),
        page("client-banned", &quiet, Page::Client(Box::new(clients::banned(w)))),
        page("live", &quiet, Page::Live(Box::new(clients::live(w)))),
        page("decision", &quiet, Page::Decision(Box::new(tries::decision(w)))),
        page("try", &quiet, Page::Try(Box::new(tries::try_request(w)))),
        page("simulate", &quiet, Page::Simulate(Box::new(tries::simulation(w)))),
        page("audit", &quiet, Page::Audit(Box::new(operations::changes(w)))),
        page("audit-decisions", &quiet, Page::Audit(Box::new(operations::decisions(w)))),
        page("bans", &quiet, Page::Lists(Box::new(operations::bans(w)))),
        page("deny-list", &quiet, Page::Lists(Box::new(operations::deny_list(w)))),
        page("overrides", &quiet, Page::Lists(Box::new(operations::overrides(w)))),
        page("keys", &quiet, Page::Keys(Box::new(operations::keys(w)))),
        page("health", &frame, Page::Health(Box::new(operations::health(w)))),
        page("error", &quiet, Page::Error(Box::new(error(w)))),
    ]
}

/// Pages of a server that has just started, without data; and of one whose catalog is away.
#[must_use]
pub fn empty() -> Vec<Sample> {
    let w = Words { is_hostile: false };
    let chrome = Chrome { banners: Vec::new(), revision: 1, ..chrome(w) };
    let failure = Failure {
        what: "The catalog does not respond.".to_owned(),
        since: Some(before(252)),
        still_works: Some("Checks go on with the policy of revision 42.".to_owned()),
    };
    let away = Chrome {
        read_only: Some("The rules come from the file rules.yaml: change it there.".to_owned()),
        ..chrome.clone()
    };
    let rule = EditedRule { is_new: true, is_writable: true, ..EditedRule::default() };
    let off = EditedRule {
        rule_id: "login".to_owned(),
        effect: EffectPreview::Off("The setting preview.memory is 0.".to_owned()),
        history: Section::Failed(failure.clone()),
        ..EditedRule::default()
    };
    let page = |name, chrome: &Chrome, page| Sample { name, chrome: chrome.clone(), page };
    vec![
        page("empty-overview", &chrome, Page::Overview(Box::new(overview::first(w)))),
        page("empty-rules", &chrome, Page::Rules(Box::default())),
        page("empty-rule", &chrome, Page::Rule(Box::new(rule))),
        page("failed-rule", &away, Page::Rule(Box::new(off))),
        page("empty-clients", &chrome, Page::Clients(Box::default())),
        page("empty-client", &chrome, Page::Client(Box::default())),
        page(
            "empty-live",
            &chrome,
            Page::Live(Box::new(Live {
                windows: vec![60, 300],
                window_seconds: 60,
                ..Live::default()
            })),
        ),
        page("empty-decision", &chrome, Page::Decision(Box::default())),
        page("empty-try", &chrome, Page::Try(Box::default())),
        page(
            "empty-simulate",
            &chrome,
            Page::Simulate(Box::new(Simulation { form: tries::form(w), ..Simulation::default() })),
        ),
        page("empty-audit", &chrome, Page::Audit(Box::default())),
        page(
            "failed-audit",
            &away,
            Page::Audit(Box::new(Audit {
                changes: Section::Failed(failure.clone()),
                ..Audit::default()
            })),
        ),
        page("empty-bans", &chrome, Page::Lists(Box::default())),
        page(
            "empty-keys",
            &chrome,
            Page::Keys(Box::new(Keys { tokens: Some(Section::default()), ..Keys::default() })),
        ),
        page(
            "empty-health",
            &chrome,
            Page::Health(Box::new(Health {
                store: "memory of this node".to_owned(),
                ..Health::default()
            })),
        ),
        page(
            "failed-client",
            &away,
            Page::Client(Box::new(Client {
                decisions: Section::Failed(failure.clone()),
                overrides: Section::Failed(failure),
                ..Client::default()
            })),
        ),
        page("blank-overview", &Chrome::default(), Page::Overview(Box::<Overview>::default())),
        page(
            "blank-rules",
            &Chrome::default(),
            Page::Rules(Box::new(Rules { rules_in_all: 3, ..Rules::default() })),
        ),
        page(
            "blank-clients",
            &Chrome::default(),
            Page::Clients(Box::new(Clients { query: "u".to_owned(), ..Clients::default() })),
        ),
    ]
}

/// The sign-in page, at first and after a failure.
#[must_use]
pub fn sign_ins() -> [SignIn; 2] {
    let first = SignIn {
        csrf: "c2lnbi1pbg".to_owned(),
        version: "0.2.0".to_owned(),
        problem: None,
        next: "/".to_owned(),
        command: Some("tollgate tokens create --role admin --name dashboard".to_owned()),
    };
    let problem = format!("The token is not known here.{HOSTILE}");
    [first.clone(), SignIn { problem: Some(problem), next: HOSTILE.to_owned(), ..first }]
}

fn chrome(w: Words) -> Chrome {
    Chrome {
        now: NOW,
        viewer: Viewer {
            name: w.t("token ops-1"),
            role: w.t("operator"),
            tenant: w.is_hostile.then(|| w.t("acme")),
            rights: Rights { edits_rules: true, operates: true, administers: true },
        },
        version: w.t("0.2.0"),
        node: w.t("tg-a"),
        revision: w.n(42),
        csrf: w.t("Zm9yLXRlc3Rz"),
        banners: vec![
            Banner {
                severity: Severity::Warning,
                what: w.t("redis-2 circuit open"),
                since: Some(before(1_132)),
                means: w.t("3 rules count locally at 2x, 1 fails closed."),
                link: Some((w.t("What happens now"), path::HEALTH.to_owned())),
            },
            Banner {
                severity: Severity::Info,
                what: w.t("tg-c is one revision behind"),
                since: Some(before(240)),
                means: w.t("it does not reach the catalog."),
                link: None,
            },
        ],
        range: Range { choice: RangeChoice::Hours4, from: before(14_400), until: NOW },
        ..Chrome::default()
    }
}

fn error(w: Words) -> ErrorPage {
    ErrorPage {
        status: 404,
        title: w.t("No such rule"),
        detail: w.t("There is no rule `logn`. Did you mean `login`?"),
        since: Some(before(60)),
        still_works: w.some("Everything else works."),
        links: vec![
            (w.t("Rule login"), path::rule("login")),
            (w.t("All rules"), path::RULES.to_owned()),
        ],
    }
}
