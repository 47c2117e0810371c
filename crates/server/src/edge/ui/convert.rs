//! From the types of the server and the JSON of its API to what pages show.

use serde::Deserialize;
use std::collections::BTreeMap;
use tollgate::Timestamp;
use tollgate::rules::document::{Action, AppliesTo, RuleDocument};
use tollgate::rules::{WindowLength, parse_time};
use tollgate_dashboard::model::{
    ClientRef, DecisionRow, Identifier, Outcome, Quota, RuleState, Section, Time,
};

use super::page_problem::PageProblem;

/// How much of a list a few words have.
const MAX_NAMED: usize = 3;

/// A moment as pages show it.
pub(super) const fn time(moment: Timestamp) -> Time {
    Time::from_millis(moment.as_micros() / 1_000)
}

/// A moment that the API wrote in RFC 3339.
pub(super) fn time_of(text: &str) -> Option<Time> {
    parse_time(text).map(time)
}

/// A part of a page that may not be read.
pub(super) fn section<T>(read: Result<T, PageProblem>) -> Section<T> {
    match read {
        Ok(value) => Section::Ready(value),
        Err(problem) => Section::Failed(problem.failure()),
    }
}

/// The limit of a rule.
pub(super) fn quota_of(rule: &RuleDocument) -> Quota {
    let millis = |micros: tollgate::Micros| micros.get() / 1_000;
    let (window_ms, calendar) = match (&rule.window, rule.window_seconds) {
        (Some(window), _) => match window.length() {
            WindowLength::Equal(length) => (millis(length), None),
            WindowLength::Calendar(unit) => {
                let zone = rule.time_zone.as_deref().unwrap_or("UTC");
                (millis(unit.nominal()), Some(format!("1 {}, {zone}", unit.name())))
            }
        },
        (None, Some(seconds)) => (millis(seconds.micros()), None),
        (None, None) => (0, None),
    };
    Quota {
        limit: rule.limit,
        window_ms,
        calendar,
        burst: rule.burst.filter(|burst| *burst != rule.limit),
        algorithm: rule.algorithm.0.name().to_owned(),
        identifiers: rule.identifier_type.to_vec(),
    }
}

/// Whether a rule is enforced.
pub(super) fn state_of(rule: &RuleDocument) -> RuleState {
    match (rule.enabled, rule.action) {
        (false, _) => RuleState::Disabled,
        (true, Action::LogOnly) => RuleState::Shadow,
        (true, _) => RuleState::Enforced,
    }
}

/// Which requests a rule applies to, in a few words: "POST /login"; empty for all.
pub(super) fn applies_to(conditions: &AppliesTo) -> String {
    let AppliesTo { hosts, endpoints, methods, user_tiers, attributes } = conditions;
    let mut parts = Vec::new();
    for (list, before) in [(methods, ""), (hosts, ""), (endpoints, "")] {
        if !list.is_empty() {
            parts.push(format!("{before}{}", some_of(list)));
        }
    }
    if !user_tiers.is_empty() {
        parts.push(format!("tier {}", some_of(user_tiers)));
    }
    for (name, values) in attributes.iter().take(MAX_NAMED) {
        parts.push(format!("{name} {}", some_of(values)));
    }
    parts.join(" ")
}

/// The first names of a list, and how many more there are.
fn some_of(names: &[String]) -> String {
    let shown = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// An identifier as a page names it.
pub(super) fn identifier(identifier_type: &str, value: &str) -> Identifier {
    Identifier { identifier_type: identifier_type.to_owned(), value: value.to_owned() }
}

/// One text, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

/// The identifiers of an entry that names a client.
pub(super) fn identifiers(types: Texts, values: Texts) -> Vec<Identifier> {
    let pairs = types.into_vec().into_iter().zip(values.into_vec());
    pairs.map(|(identifier_type, value)| Identifier { identifier_type, value }).collect()
}

/// A decision as the API and its events write it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct DecisionJson {
    pub(super) decision_id: String,
    pub(super) at: String,
    pub(super) action: String,
    pub(super) rule_id: Option<String>,
    #[serde(default)]
    pub(super) also_would_refuse: Vec<String>,
    pub(super) client: String,
    pub(super) tenant: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) endpoint: Option<String>,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) cost: u64,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) retry_after: Option<u64>,
    pub(super) degraded: Option<String>,
    /// The name of the node that decided.
    pub(super) node: Option<String>,
    #[serde(default)]
    pub(super) identifiers: BTreeMap<String, String>,
}

impl DecisionJson {
    pub(super) fn into_row(self) -> DecisionRow {
        // A client is named by one identifier; the others are those of the request.
        let named = ["user_id", "api_key", "ip", "tenant"].into_iter().find_map(|kind| {
            let value = self.identifiers.get(kind).filter(|value| **value == self.client)?;
            Some(vec![identifier(kind, value)])
        });
        let all = || self.identifiers.iter().map(|(kind, value)| identifier(kind, value)).collect();
        let identifiers = named.unwrap_or_else(all);
        DecisionRow {
            at: time_of(&self.at).unwrap_or_default(),
            decision_id: Some(self.decision_id),
            outcome: Outcome::from_word(&self.action).unwrap_or_default(),
            client: ClientRef { name: self.client, identifiers },
            tenant: self.tenant,
            method: self.method,
            endpoint: self.endpoint,
            rule_id: self.rule_id,
            also_would_refuse: self.also_would_refuse,
            reason: self.reason,
            cost: self.cost,
            limit: self.limit,
            remaining: self.remaining,
            retry_after: self.retry_after,
            degraded: self.degraded,
            node: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::rules::{Format, Source};

    fn rule(text: &str) -> RuleDocument {
        let text = format!("{{\"rules\": [{text}]}}");
        let source = Source::parse_as(&text, Format::Json);
        assert!(source.problems.is_empty(), "{:?}", source.problems);
        source.document.rules[0].clone()
    }

    #[test]
    fn limits_are_shown_in_one_form() {
        let seconds = rule(
            r#"{"rule_id": "a", "limit": 10, "window_seconds": 0.5, "identifier_type": "ip"}"#,
        );
        let quota = quota_of(&seconds);
        assert_eq!((quota.limit, quota.window_ms, quota.burst), (10, 500, None));
        assert_eq!(quota.algorithm, "sliding_window_counter");
        let month = rule(
            r#"{"rule_id": "a", "limit": 10, "window": "1 month", "time_zone": "Europe/Berlin",
                "algorithm": "fixed_window", "identifier_type": ["user_id", "endpoint"]}"#,
        );
        let quota = quota_of(&month);
        assert_eq!(quota.calendar.as_deref(), Some("1 month, Europe/Berlin"));
        assert_eq!(quota.identifiers, ["user_id", "endpoint"]);
    }

    #[test]
    fn conditions_are_a_few_words() {
        let check = |conditions: &str, expected: &str| {
            let rule = rule(&format!(
                r#"{{"rule_id": "a", "limit": 1, "window": "1m", "identifier_type": "ip",
                    "applies_to": {conditions}}}"#
            ));
            assert_eq!(applies_to(&rule.applies_to), expected);
        };
        check("{}", "");
        check(r#"{"methods": ["POST"], "endpoints": ["/login"]}"#, "POST /login");
        check(r#"{"endpoints": ["/a", "/b", "/c", "/d", "/e"]}"#, "/a, /b, /c and 2 more");
        check(r#"{"user_tiers": ["free"]}"#, "tier free");
    }
}
