//! Who changed what, and who was refused.

use serde::Deserialize;
use serde_json::Value as JsonValue;
use tollgate::rules::{PAST_TIME, format_time, parse_past_time, to_yaml};
use tollgate_dashboard::model::{Audit, AuditFilter, AuditRow, AuditTab, Outcome, Paging, Section};
use tollgate_dashboard::path;

use super::client_decisions::DecisionsJson;
use crate::admin::auth::Right;
use crate::edge::ui::convert::{DecisionJson, time_of};
use crate::edge::ui::diff::diff;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;

/// How many records a page has.
const PAGE: &str = "50";
/// The kinds of entries that changes are of.
const KINDS: [&str; 10] = [
    "rule",
    "tier",
    "client",
    "override",
    "whitelist",
    "blacklist",
    "api_key",
    "token",
    "ban",
    "counters",
];
/// How many fields a summary names.
const MAX_FIELDS: usize = 3;
/// How many characters of a value a summary shows.
const MAX_VALUE_CHARS: usize = 40;

/// A page of changes, as the API lists them.
#[derive(Debug, Deserialize)]
pub(super) struct ChangesJson {
    pub(super) records: Vec<ChangeJson>,
}

/// A change, as the API lists it.
#[derive(Debug, Deserialize)]
pub(super) struct ChangeJson {
    pub(super) revision: u64,
    pub(super) at: String,
    pub(super) actor: String,
    pub(super) actor_name: Option<String>,
    role: String,
    address: Option<String>,
    kind: String,
    entry: String,
    action: String,
    pub(super) was: Option<JsonValue>,
    pub(super) becomes: Option<JsonValue>,
}

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<Audit, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let text = |name: &str| visit.parameter(name).unwrap_or_default().to_owned();
    let is_known = |words: &&str| words.split(',').all(|it| Outcome::from_word(it).is_some());
    let filter = AuditFilter {
        actor: text("actor"),
        kind: text("kind"),
        entry: text("entry"),
        client: text("client"),
        client_type: text("client_type"),
        rule_id: text("rule_id"),
        action: visit.parameter("action").filter(is_known).unwrap_or_default().to_owned(),
        tenant: text("tenant"),
        since: text("since"),
        until: text("until"),
    };
    let is_of_decisions = visit.parameter("log") == Some("decisions");
    let tab = if is_of_decisions { AuditTab::Decisions } else { AuditTab::Changes };
    let kinds = KINDS.iter().filter(|kind| **kind != "token" || visit.may(Right::Admin));
    let kinds = kinds.map(|kind| (*kind).to_owned()).collect();
    let mut audit = Audit { tab, filter, kinds, ..Audit::default() };
    let names: &[&str] = if is_of_decisions {
        &["client", "client_type", "rule_id", "action", "tenant", "since", "until"]
    } else {
        &["actor", "kind", "entry", "tenant", "since", "until"]
    };
    let mut filters: Vec<(&str, &str)> =
        names.iter().filter_map(|name| Some((*name, visit.parameter(name)?))).collect();
    // A type alone, as browsers send the fields of forms, is no filter.
    if visit.parameter("client").is_none() {
        filters.retain(|(name, _)| *name != "client_type");
    }
    let times = match times_of(visit) {
        Ok(times) => times,
        Err(problem) => {
            audit.changes = Section::Failed(problem.failure());
            audit.decisions = Section::Failed(problem.failure());
            return Ok(audit);
        }
    };
    let is_time = |name: &str| times.iter().any(|(own, _)| *own == name);
    let mut query: Vec<(&str, &str)> =
        filters.iter().filter(|(name, _)| !is_time(name)).copied().collect();
    query.extend(times.iter().map(|(name, time)| (*name, time.as_str())));
    query.push(("limit", PAGE));
    query.extend(visit.parameter("before").map(|before| ("before", before)));
    let log = if is_of_decisions { "/api/v1/audit/decisions" } else { "/api/v1/audit" };
    match visit.get(log, &query).await {
        Ok(response) => {
            let link = |before: &str| {
                let word = if is_of_decisions { "decisions" } else { "changes" };
                let mut parameters = vec![("log", word)];
                parameters.extend(&filters);
                parameters.push(("before", before));
                path::with_query("", &parameters).trim_start_matches('?').to_owned()
            };
            audit.paging = Paging {
                next: response.next("before").map(|before| link(&before)),
                first: visit.parameter("before").map(|_| link("")),
                total: None,
            };
            if is_of_decisions {
                let DecisionsJson { records } = response.json()?;
                let rows = records.into_iter().map(DecisionJson::into_row).collect();
                audit.decisions = Section::Ready(rows);
            } else {
                let ChangesJson { records } = response.json()?;
                audit.changes = Section::Ready(records.into_iter().map(row_of).collect());
            }
        }
        Err(problem) => {
            audit.changes = Section::Failed(problem.failure());
            audit.decisions = Section::Failed(problem.failure());
        }
    }
    Ok(audit)
}

/// The times of the filter as the API takes them.
fn times_of(visit: &Visit) -> Result<Vec<(&'static str, String)>, PageProblem> {
    let typed =
        ["since", "until"].into_iter().filter_map(|name| Some((name, visit.parameter(name)?)));
    typed
        .map(|(name, text)| match parse_past_time(text, visit.now()) {
            Some(time) => Ok((name, format_time(time))),
            None => Err(PageProblem::invalid(format!("{name} is no time: {PAST_TIME}"))),
        })
        .collect()
}

fn row_of(change: ChangeJson) -> AuditRow {
    let text = |value: &Option<JsonValue>| {
        value.as_ref().and_then(|value| to_yaml(value).ok()).unwrap_or_default()
    };
    AuditRow {
        revision: change.revision,
        at: time_of(&change.at).unwrap_or_default(),
        summary: summary(&change),
        diff: diff(&text(&change.was), &text(&change.becomes)),
        actor_name: change.actor_name,
        actor: change.actor,
        role: change.role,
        address: change.address,
        kind: change.kind,
        entry: entry_text(&change.entry),
        action: change.action,
    }
}

/// The name of an entry. Those with several parts are lists: `["tenant","acme"]` is shown as `tenant · acme`.
fn entry_text(entry: &str) -> String {
    fn texts(value: &JsonValue) -> Vec<&str> {
        match value {
            JsonValue::String(text) => vec![text],
            JsonValue::Array(items) => items.iter().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }

    match serde_json::from_str::<JsonValue>(entry) {
        Ok(list @ JsonValue::Array(_)) => texts(&list).join(" · "),
        _ => entry.to_owned(),
    }
}

/// What a change did, in one line: "limit 5 → 10".
pub(super) fn summary(change: &ChangeJson) -> String {
    let (Some(JsonValue::Object(was)), Some(JsonValue::Object(becomes))) =
        (&change.was, &change.becomes)
    else {
        return match (&change.was, &change.becomes) {
            (None, Some(_)) => "created".to_owned(),
            (Some(_), None) => "removed".to_owned(),
            _ => change.action.clone(),
        };
    };
    let mut names: Vec<&String> = was.keys().chain(becomes.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let changed: Vec<String> = names
        .into_iter()
        .filter(|name| was.get(*name) != becomes.get(*name))
        .map(|name| match (was.get(name), becomes.get(name)) {
            (Some(old), Some(new)) => format!("{name} {} → {}", shown(old), shown(new)),
            (None, Some(new)) => format!("{name} {}", shown(new)),
            _ => format!("{name} removed"),
        })
        .collect();
    let more = changed.len().saturating_sub(MAX_FIELDS);
    let text = changed.into_iter().take(MAX_FIELDS).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

fn shown(value: &JsonValue) -> String {
    let text = match value {
        JsonValue::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text;
    }
    text.chars().take(MAX_VALUE_CHARS).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_several_parts_are_shown_without_brackets() {
        for (entry, expected) in [
            ("login", "login"),
            (r#"["ip","10.0.0.0/8"]"#, "ip · 10.0.0.0/8"),
            (
                r#"["burst",["tenant","user_id"],["acme","bob"]]"#,
                "burst · tenant · user_id · acme · bob",
            ),
            ("[not a list", "[not a list"),
            ("5", "5"),
        ] {
            assert_eq!(entry_text(entry), expected);
        }
    }

    #[test]
    fn a_change_is_one_line() {
        let check = |was: JsonValue, becomes: JsonValue, expected: &str| {
            let change = json!({
                "revision": 2, "at": "", "actor": "a", "role": "admin", "address": null,
                "kind": "rule", "entry": "r", "action": "update", "was": was, "becomes": becomes,
            });
            let change: ChangeJson = serde_json::from_value(change).expect("a change");
            assert_eq!(summary(&change), expected);
        };
        check(json!({"limit": 5}), json!({"limit": 10}), "limit 5 → 10");
        check(json!(null), json!({"limit": 10}), "created");
        check(json!({"limit": 10}), json!(null), "removed");
        check(json!({"a": 1}), json!({"b": "x"}), "a removed, b x");
        let (one, two) =
            (json!({"a": 1, "b": 1, "c": 1, "d": 1}), json!({"a": 2, "b": 2, "c": 2, "d": 2}));
        check(one, two, "a 1 → 2, b 1 → 2, c 1 → 2 and 1 more");
    }
}
