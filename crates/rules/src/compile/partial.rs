//! Rules of which a field cannot be read: what is wrong with their other fields. Without this, an author would
//! learn of a wrong glob only after a number in quotes was corrected.

use std::collections::HashSet;

use tollgate_document::{Decode as _, MapKey, Node, Problem, Scope, Segment, Value, segments};

use crate::compile::CompileOptions;
use crate::compile::flaw::Flaw;
use crate::compile::rule::compile_rule;
use crate::document::RuleDocument;

/// The fields that make up the limit. What is wrong with one of them often depends on the others.
const QUOTA: [&str; 11] = [
    "limit",
    "limit_from",
    "window_seconds",
    "window",
    "time_zone",
    "algorithm",
    "burst",
    "candidate",
    "action",
    "throttle",
    "soft",
];
/// The fields of `QUOTA` that make up the window.
const WINDOW: [&str; 3] = ["window_seconds", "window", "time_zone"];

/// What is wrong with the readable fields of the rule at `index` of the text, given the problems of the text.
/// What may be wrong only because a field is missing is left out.
pub(crate) fn flaws(rule: &Node, index: usize, problems: &[Problem]) -> Vec<Flaw> {
    let place = format!("rules[{index}]");
    let within = problems.iter().filter(|problem| problem.path.starts_with(&place));
    let unreadable: HashSet<String> =
        within.filter_map(|problem| field_of(&problem.path)).collect();
    let Some(document) = without(rule, &unreadable) else { return Vec::new() };
    let Err(flaws) = compile_rule(&document, CompileOptions::default()) else { return Vec::new() };
    // An unknown field may be a misspelt one of the limit.
    let is_lost = |name: &String| QUOTA.contains(&name.as_str()) || !RuleDocument::has_field(name);
    let is_quota_known = !unreadable.iter().any(is_lost);
    let is_window_known = !unreadable
        .iter()
        .any(|name| WINDOW.contains(&name.as_str()) || !RuleDocument::has_field(name));
    let is_certain = |flaw: &Flaw| {
        let field = flaw.field.split(['.', '[']).next().unwrap_or_default();
        match (field, flaw.field.as_str()) {
            (field, _) if unreadable.contains(field) => false,
            (_, "soft.warn_at" | "soft.clear_at") => true,
            ("time_zone", _) => is_window_known,
            (field, _) => is_quota_known || !QUOTA.contains(&field),
        }
    };
    flaws.into_iter().filter(is_certain).collect()
}

/// The field of a rule that a path leads into.
fn field_of(path: &str) -> Option<String> {
    match segments(path).as_slice() {
        [Segment::Key(_), Segment::Index(_), Segment::Key(field), ..] => Some(field.clone()),
        _ => None,
    }
}

/// The rule without these fields, with substitutes for those that a rule must have.
fn without(rule: &Node, unreadable: &HashSet<String>) -> Option<RuleDocument> {
    let Value::Map(entries) = &rule.value else { return None };
    let is_readable = |(key, _): &&(MapKey, Node)| !unreadable.contains(&key.text);
    let mut entries: Vec<(MapKey, Node)> = entries.iter().filter(is_readable).cloned().collect();
    let position = rule.position;
    let mut substitute = |names: &[&str], value: Value| {
        if !entries.iter().any(|(key, _)| names.contains(&key.text.as_str())) {
            let text = names.first().map(|name| (*name).to_owned()).unwrap_or_default();
            entries.push((MapKey { text, position }, Node { position, value }));
        }
    };
    substitute(&["rule_id"], Value::String("unread".to_owned()));
    substitute(&["limit"], Value::Number("1".to_owned()));
    substitute(&["window_seconds", "window"], Value::Number("1".to_owned()));
    substitute(&["identifier_type"], Value::String("global".to_owned()));
    let node = Node { position, value: Value::Map(entries) };
    RuleDocument::decode(&node, &mut Scope::default())
}
