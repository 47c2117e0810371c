//! The schema describes just what the reader accepts.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollgate_rules::{Source, schema};

/// Where each record of the schema stands in a document: `?` is where its fields go.
const RECORDS: [(&str, &str); 13] = [
    ("", "{?}"),
    ("RuleDocument", "{rules: [{?}]}"),
    ("AppliesTo", "{rules: [{applies_to: {?}}]}"),
    ("CandidateDocument", "{rules: [{candidate: {?}}]}"),
    ("LimitFromDocument", "{rules: [{limit_from: {?}}]}"),
    ("RefusalDocument", "{rules: [{refusal: {?}}]}"),
    ("ThrottleDocument", "{rules: [{throttle: {?}}]}"),
    ("SoftDocument", "{rules: [{soft: {?}}]}"),
    ("PenaltyDocument", "{rules: [{penalty: {?}}]}"),
    ("TierDocument", "{tiers: [{?}]}"),
    ("ClientDocument", "{clients: [{?}]}"),
    ("OverrideDocument", "{overrides: [{?}]}"),
    ("ListDocument", "{blacklist: [{?}]}"),
];

fn record<'a>(schema: &'a Value, name: &str) -> &'a Value {
    if name.is_empty() { schema } else { &schema["$defs"][name] }
}

fn properties(record: &Value) -> &serde_json::Map<String, Value> {
    record["properties"].as_object().expect("a record has properties")
}

#[test]
fn the_reader_knows_the_same_fields() {
    let schema = schema();
    for (name, template) in RECORDS {
        let source = Source::parse(&template.replace('?', "qqqqqqqq: 1"));
        let mut advice = source.problems.iter().filter_map(|problem| problem.advice.as_deref());
        let known = advice.find_map(|advice| advice.strip_prefix("the fields are "));
        let known = known.expect("the reader tells what it knows").split(", ");
        let described = properties(record(&schema, name)).keys().map(String::as_str);
        assert_eq!(known.collect::<BTreeSet<_>>(), described.collect(), "{name}");
    }
    let names = schema["$defs"].as_object().expect("there are definitions").iter();
    let records = names.filter(|(_, record)| record["type"] == "object").count();
    assert_eq!(records, RECORDS.len() - 1, "every record is in the table");
}

#[test]
fn the_reader_requires_the_same_fields() {
    let schema = schema();
    for (name, template) in RECORDS {
        let source = Source::parse(&template.replace('?', ""));
        let depth = template.matches('{').count() - 1;
        let inside = |path: &&str| path.matches('.').count() + usize::from(depth == 0) == depth;
        let missing = source
            .problems
            .iter()
            .filter(|problem| problem.message == "this required field is missing")
            .filter(|problem| inside(&problem.path.as_str()))
            .filter_map(|problem| problem.path.rsplit('.').next());
        let required = record(&schema, name)["required"].as_array().cloned().unwrap_or_default();
        let required = required.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>();
        assert_eq!(missing.collect::<BTreeSet<_>>(), required, "{name}");
    }
}

#[test]
fn every_record_is_closed_and_every_field_described() {
    let schema = schema();
    for (name, _) in RECORDS {
        let record = record(&schema, name);
        assert_eq!(record["additionalProperties"], json!(false), "{name}");
        assert!(record["description"].is_string(), "{name}");
        for (field, property) in properties(record) {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(description.len() > 5, "{name}.{field}");
        }
    }
}

#[test]
fn key_facts() {
    let schema = schema();
    for (pointer, expected) in [
        ("/$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ("/title", json!("Tollgate policy")),
        ("/properties/rules/items/$ref", json!("#/$defs/RuleDocument")),
        ("/$defs/RuleDocument/required", json!(["rule_id", "limit", "identifier_type"])),
        (
            "/$defs/RuleDocument/oneOf",
            json!([{"required": ["window_seconds"]}, {"required": ["window"]}]),
        ),
        ("/$defs/RuleDocument/properties/rule_id/pattern", json!("^[a-z0-9_.-]{1,100}$")),
        ("/$defs/RuleDocument/properties/limit/minimum", json!(0)),
        ("/$defs/RuleDocument/properties/limit/maximum", json!(i64::MAX)),
        ("/$defs/RuleDocument/properties/burst/minimum", json!(1)),
        ("/$defs/RuleDocument/properties/priority/minimum", json!(i64::MIN)),
        ("/$defs/RuleDocument/properties/window_seconds/minimum", json!(0.001)),
        ("/$defs/RuleDocument/properties/window_seconds/maximum", json!(31_622_400)),
        ("/$defs/RuleDocument/properties/key_pattern/default", json!("*")),
        ("/$defs/RuleDocument/properties/enabled/default", json!(true)),
        ("/$defs/SoftDocument/properties/warn_at/default", json!(0.8)),
        ("/$defs/SoftDocument/properties/warn_at/maximum", json!(1)),
        ("/$defs/Action/enum", json!(["reject", "throttle", "log_only"])),
        ("/$defs/Algorithm/enum/2", json!("sliding_window_counter")),
    ] {
        assert_eq!(schema.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert!(
        !schema.to_string().contains("\"format\""),
        "integer types are described by their bounds"
    );
}
