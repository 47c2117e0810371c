//! A rule as a form: its fields as text, and back into the document. What the form does not show stays as it is.

use serde_json::{Map, Value as JsonValue, json};
use tollgate::rules::document::RuleDocument;
use tollgate_dashboard::model::RuleForm;

use super::form::Form;

/// Fields of a rule that the form shows, each with the path of its value.
const TEXTS: &[(&str, &[&str])] = &[
    ("rule_id", &["rule_id"]),
    ("name", &["name"]),
    ("description", &["description"]),
    ("window", &["window"]),
    ("time_zone", &["time_zone"]),
    ("algorithm", &["algorithm"]),
    ("on_missing", &["on_missing"]),
    ("tenant", &["tenant"]),
    ("action", &["action"]),
    ("consistency", &["consistency"]),
    ("on_store_failure", &["on_store_failure"]),
];
const NUMBERS: &[(&str, &[&str])] = &[
    ("limit", &["limit"]),
    ("burst", &["burst"]),
    ("cost", &["cost"]),
    ("priority", &["priority"]),
    ("fallback_factor", &["fallback_factor"]),
    ("max_delay_ms", &["throttle", "max_delay_ms"]),
    ("warn_at", &["soft", "warn_at"]),
    ("grace", &["soft", "grace"]),
    ("penalty_after", &["penalty", "after"]),
    ("penalty_within_seconds", &["penalty", "within_seconds"]),
    ("penalty_ban_seconds", &["penalty", "ban_seconds"]),
    ("candidate_limit", &["candidate", "limit"]),
];
const LISTS: &[(&str, &[&str])] = &[
    ("identifier_type", &["identifier_type"]),
    ("hosts", &["applies_to", "hosts"]),
    ("endpoints", &["applies_to", "endpoints"]),
    ("methods", &["applies_to", "methods"]),
    ("user_tiers", &["applies_to", "user_tiers"]),
];
/// Fields of a rule that only the text shows.
const OTHERS: &[&str] = &["limit_from", "key_pattern", "costs", "replaces", "refund_on", "refusal"];
/// Parts of fields that only the text shows.
const OTHER_PARTS: &[(&str, &str)] = &[
    ("/applies_to/attributes", "applies_to.attributes"),
    ("/candidate/window", "candidate.window"),
    ("/candidate/window_seconds", "candidate.window_seconds"),
    ("/candidate/burst", "candidate.burst"),
    ("/candidate/algorithm", "candidate.algorithm"),
];

/// The fields of a rule.
pub(super) fn fields_of(rule: &RuleDocument) -> RuleForm {
    let document = serde_json::to_value(rule).unwrap_or_default();
    let mut form = RuleForm { enabled: rule.enabled, ..RuleForm::default() };
    for (name, path) in TEXTS.iter().chain(NUMBERS).chain(LISTS) {
        if let Some(field) = field_mut(&mut form, name) {
            *field = shown(at(&document, path));
        }
    }
    if form.window.is_empty() {
        form.window = window_of(&document);
    }
    // These two are always in force, so the form shows which.
    for (field, default) in [(&mut form.algorithm, rule.algorithm.0.name()), (&mut form.cost, "1")]
    {
        if field.is_empty() {
            default.clone_into(field);
        }
    }
    let others = OTHERS.iter().filter(|name| document.get(**name).is_some());
    form.others = others.map(|name| (*name).to_owned()).collect();
    for (pointer, name) in OTHER_PARTS {
        if document.pointer(pointer).is_some() {
            form.others.push((*name).to_owned());
        }
    }
    form
}

/// The fields as they were typed.
pub(super) fn typed(sent: &Form) -> RuleForm {
    let mut form = RuleForm { enabled: sent.one("enabled").is_some(), ..RuleForm::default() };
    for (name, _) in TEXTS.iter().chain(NUMBERS).chain(LISTS) {
        if let (Some(field), Some(text)) = (field_mut(&mut form, name), sent.text(name)) {
            text.clone_into(field);
        }
    }
    form
}

/// Puts the fields into a document. Empty fields are removed from it: their defaults hold. A number that is none stays
/// text, so that the linter says so.
pub(super) fn put_into(document: &JsonValue, form: &RuleForm) -> JsonValue {
    let mut document = document.as_object().cloned().unwrap_or_default();
    let mut form = form.clone();
    // A window in seconds stays one until the field is changed.
    if form.window == window_of(&JsonValue::Object(document.clone())) {
        form.window.clear();
    } else {
        document.remove("window_seconds");
    }
    let mut value = |name: &str| field_mut(&mut form, name).map(std::mem::take).unwrap_or_default();
    let mut set: Vec<(&[&str], Option<JsonValue>)> = Vec::new();
    for (name, path) in TEXTS {
        let text = value(name);
        set.push((path, (!text.is_empty()).then(|| JsonValue::from(text))));
    }
    for (name, path) in NUMBERS {
        let text = value(name);
        let number = serde_json::from_str::<serde_json::Number>(&text);
        let number = number.map_or_else(|_| JsonValue::from(text.as_str()), JsonValue::Number);
        set.push((path, (!text.is_empty()).then_some(number)));
    }
    for (name, path) in LISTS {
        let text = value(name);
        let items = text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty());
        let items: Vec<&str> = items.collect();
        set.push((
            path,
            match (&*items, *name) {
                ([], _) => None,
                ([one], "identifier_type") => Some(json!(one)),
                (items, _) => Some(json!(items)),
            },
        ));
    }
    for (path, value) in set {
        put(&mut document, path, value);
    }
    put(&mut document, &["enabled"], (!form.enabled).then_some(json!(false)));
    JsonValue::Object(document)
}

/// Sets the value at a path, or removes it. An object that becomes empty is removed too.
fn put(object: &mut Map<String, JsonValue>, path: &[&str], value: Option<JsonValue>) {
    match (path, value) {
        ([name], Some(value)) => {
            object.insert((*name).to_owned(), value);
        }
        ([name], None) => {
            object.remove(*name);
        }
        ([name, rest @ ..], value) => {
            let inner = object.entry((*name).to_owned()).or_insert_with(|| json!({}));
            if let Some(inner) = inner.as_object_mut() {
                put(inner, rest, value);
                if inner.is_empty() {
                    object.remove(*name);
                }
            }
        }
        ([], _) => {}
    }
}

/// A window in seconds with its unit; empty if there is none.
fn window_of(document: &JsonValue) -> String {
    let seconds = document.get("window_seconds").and_then(JsonValue::as_f64);
    let millis = seconds.map(|seconds| (seconds * 1_000.0).round());
    match millis {
        Some(millis) if millis % 1_000.0 == 0.0 => format!("{}s", millis / 1_000.0),
        Some(millis) => format!("{millis}ms"),
        None => String::new(),
    }
}

fn at<'a>(document: &'a JsonValue, path: &[&str]) -> Option<&'a JsonValue> {
    path.iter().try_fold(document, |value, name| value.get(name))
}

/// A value as the text of a field.
fn shown(value: Option<&JsonValue>) -> String {
    match value {
        None => String::new(),
        Some(JsonValue::String(text)) => text.clone(),
        Some(JsonValue::Array(items)) => {
            items.iter().map(|item| shown(Some(item))).collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    }
}

/// The field of that name.
fn field_mut<'a>(form: &'a mut RuleForm, name: &str) -> Option<&'a mut String> {
    Some(match name {
        "rule_id" => &mut form.rule_id,
        "name" => &mut form.name,
        "description" => &mut form.description,
        "limit" => &mut form.limit,
        "window" => &mut form.window,
        "time_zone" => &mut form.time_zone,
        "algorithm" => &mut form.algorithm,
        "burst" => &mut form.burst,
        "identifier_type" => &mut form.identifier_type,
        "on_missing" => &mut form.on_missing,
        "tenant" => &mut form.tenant,
        "hosts" => &mut form.hosts,
        "endpoints" => &mut form.endpoints,
        "methods" => &mut form.methods,
        "user_tiers" => &mut form.user_tiers,
        "cost" => &mut form.cost,
        "action" => &mut form.action,
        "max_delay_ms" => &mut form.max_delay_ms,
        "warn_at" => &mut form.warn_at,
        "grace" => &mut form.grace,
        "priority" => &mut form.priority,
        "consistency" => &mut form.consistency,
        "on_store_failure" => &mut form.on_store_failure,
        "fallback_factor" => &mut form.fallback_factor,
        "penalty_after" => &mut form.penalty_after,
        "penalty_within_seconds" => &mut form.penalty_within_seconds,
        "penalty_ban_seconds" => &mut form.penalty_ban_seconds,
        "candidate_limit" => &mut form.candidate_limit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::rules::Source;

    fn rule(json: &JsonValue) -> RuleDocument {
        let source = Source::parse_item(&json.to_string(), "rules");
        assert!(source.problems.is_empty(), "{:?}", source.problems);
        source.document.rules[0].clone()
    }

    #[test]
    fn every_field_of_the_form_is_known() {
        for (name, _) in TEXTS.iter().chain(NUMBERS).chain(LISTS) {
            assert!(field_mut(&mut RuleForm::default(), name).is_some(), "{name}");
        }
    }

    /// What a person does not touch must not change.
    #[test]
    fn a_rule_is_the_same_after_a_form() {
        for document in [
            json!({"rule_id": "a", "limit": 5, "window": "1m", "identifier_type": "ip"}),
            json!({"rule_id": "a", "limit": 5, "window_seconds": 0.5, "identifier_type": "ip"}),
            json!({
                "rule_id": "b", "name": "Login", "description": "d", "limit": 10, "window": "10s",
                "algorithm": "token_bucket", "burst": 50, "identifier_type": ["user_id", "endpoint"],
                "key_pattern": "x*", "on_missing": "deny", "tenant": "acme",
                "applies_to": {"hosts": ["*.example.com"], "endpoints": ["/a", "/b/*"], "methods": ["POST"],
                               "user_tiers": ["free"], "attributes": {"header:x": ["1"]}},
                "cost": 2, "costs": {"POST /a": 3}, "action": "throttle", "throttle": {"max_delay_ms": 500},
                "soft": {"warn_at": 0.5, "clear_at": 0.25, "grace": 1}, "priority": -3, "replaces": ["a"],
                "consistency": "local", "on_store_failure": "closed", "fallback_factor": 3,
                "penalty": {"after": 5, "within_seconds": 60, "ban_seconds": 600},
                "refund_on": ["5xx"], "enabled": false,
            }),
            json!({"rule_id": "c", "limit": 5, "window": "1m", "identifier_type": "ip", "candidate": {"limit": 4}}),
            json!({"rule_id": "d", "limit": 5, "window": "1m", "identifier_type": "ip", "algorithm": "gcra",
                "candidate": {"window_seconds": 90, "burst": 3, "algorithm": "token_bucket"}}),
        ] {
            let before = rule(&document);
            let document = serde_json::to_value(&before).expect("JSON");
            let form = fields_of(&before);
            let after = rule(&put_into(&document, &form));
            assert_eq!(before, after);
        }
    }

    #[test]
    fn fields_are_put_into_the_document() {
        let document = json!({"rule_id": "a", "limit": 5, "window_seconds": 60, "identifier_type": "ip",
            "costs": {"/a": 2}, "soft": {"warn_at": 0.5}});
        let form = RuleForm {
            rule_id: "a".to_owned(),
            limit: "10".to_owned(),
            window: "1h".to_owned(),
            identifier_type: "user_id,\n endpoint".to_owned(),
            methods: "GET, POST".to_owned(),
            burst: "many".to_owned(),
            enabled: true,
            ..RuleForm::default()
        };
        let expected = json!({"rule_id": "a", "limit": 10, "window": "1h", "identifier_type": ["user_id", "endpoint"],
            "costs": {"/a": 2}, "applies_to": {"methods": ["GET", "POST"]}, "burst": "many"});
        assert_eq!(put_into(&document, &form), expected);
    }
}
