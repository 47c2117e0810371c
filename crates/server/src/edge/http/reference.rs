//! Makes the description of the API a reference to read: groups in the order in which they are needed, with
//! a sentence each, examples of errors that fit their status, and the schemas of policy documents.

use http::StatusCode;
use serde_json::{Map, Value, json};
use tollgate::http::PROBLEM_JSON;
use tollgate::rules::schema;

/// The groups of calls, in the order of the page.
const GROUPS: [(&str, &str); 10] = [
    (
        "check",
        "May this request pass? Check it, peek, explain, refund, reset; forward-auth for proxies.",
    ),
    ("users", "Look after one user: limits, usage, exceptions."),
    ("rules", "The limits, exceptions from them, bans, and the policy as a whole."),
    ("lists", "Clients that are never limited, or always refused."),
    ("clients", "Tiers, and which client is in which."),
    ("keys and tokens", "API keys of clients, and tokens of this API with their roles."),
    ("audit", "Who changed what, who was refused, and why."),
    ("operate", "Figures, rankings and events of this node."),
    ("health", "For probes and Prometheus; no token is needed."),
    (
        ALIASES,
        "The calls of other groups, under the paths of an earlier API. New programs do not need them.",
    ),
];

/// The group of calls that are there twice.
const ALIASES: &str = "aliases";
const ALIAS_PREFIX: &str = "/admin/api/v1/rate-limits/";

/// Where documents are sent: the end of a path, the method, and the schema.
const BODIES: [(&str, &str, &str); 9] = [
    ("/rules", "post", "RuleDocument"),
    ("/rules/{rule_id}", "put", "RuleFields"),
    ("/whitelist", "post", "ListDocument"),
    ("/blacklist", "post", "ListDocument"),
    ("/overrides", "put", "OverrideDocument"),
    ("/clients", "put", "ClientDocument"),
    ("/tiers", "put", "TiersDocument"),
    ("/users/{user_id}/override", "post", "UserOverride"),
    ("/api/v1/policy", "put", "PolicyDocument"),
];

/// Which calls respond with the entry that they wrote, or with `dry_run` with what would change: the end of the
/// path, the method, and the schema of the entry.
const WRITES: [(&str, &str, &str); 6] = [
    ("/whitelist", "post", "ListEntry"),
    ("/blacklist", "post", "ListEntry"),
    ("/overrides", "put", "OverrideEntry"),
    ("/clients", "put", "ClientEntry"),
    ("/users/{user_id}/tier", "put", "ClientEntry"),
    ("/users/{user_id}/override", "post", "OverrideEntry"),
];

/// Which lists are shown: the end of the path, which is also the name of the list, and the schema of an
/// entry with that of its document.
const LISTS: [(&str, &str, &str); 6] = [
    ("rules", "RuleEntry", "RuleDocument"),
    ("whitelist", "ListEntry", "ListDocument"),
    ("blacklist", "ListEntry", "ListDocument"),
    ("overrides", "OverrideEntry", "OverrideDocument"),
    ("clients", "ClientEntry", "ClientDocument"),
    ("tiers", "TierEntry", "TierDocument"),
];

/// An error for each status: its code, and a detail as the server writes it.
const ERRORS: [(u16, &str, &str); 19] = [
    (
        400,
        "invalid_body",
        "identifiers.usr: unknown field `usr`, expected one of `user_id`, `api_key`, `ip`, `tenant`",
    ),
    (401, "token_required", "this call needs a token: Authorization: Bearer TOKEN"),
    (403, "right_missing", "the role of this token does not permit this call"),
    (404, "unknown_rule", "there is no rule api_default"),
    (405, "rules_from_file", "the rules come from a file and are changed there"),
    (406, "not_acceptable", "events are sent as text/event-stream"),
    (408, "request_timeout", "the body did not arrive in time"),
    (
        409,
        "still_in_use",
        "an override is an exception from the rule api_default, for user_id bob: remove it first",
    ),
    (410, "revision_not_kept", "revision 3 is not kept any more; the oldest is 17"),
    (412, "changed_meanwhile", "the rule api_default was changed meanwhile: it is at version 7"),
    (413, "body_too_large", "the body is larger than 64KiB"),
    (415, "not_json", "send JSON, with Content-Type: application/json"),
    (421, "unknown_host", "this server does not answer to that host"),
    (
        422,
        "invalid_document",
        "limit: this required field is missing; add limit: Units per window; 0 blocks",
    ),
    (429, "too_many_calls", "this server is called too often"),
    (500, "internal", "an error of this server; its log says more"),
    (503, "catalog_unavailable", "the catalog cannot be asked; nothing was changed"),
    (
        504,
        "outcome_unknown",
        "the catalog became unavailable during a change: check whether it was made",
    ),
    (507, "insufficient_storage", "the disk of the catalog is almost full"),
];

/// Completes a description.
pub(crate) fn arrange(api: &mut Value) {
    let groups = GROUPS.iter().map(|(name, about)| json!({"name": name, "description": about}));
    api["tags"] = groups.collect();
    if let Some(schemas) = api.pointer_mut("/components/schemas").and_then(Value::as_object_mut) {
        schemas.extend(document_schemas());
    }
    let Some(paths) = api.get_mut("paths").and_then(Value::as_object_mut) else { return };
    for (path, item) in paths {
        let Some(calls) = item.as_object_mut() else { continue };
        for (method, call) in calls {
            if path.starts_with(ALIAS_PREFIX) {
                call["tags"] = json!([ALIASES]);
            }
            let document = BODIES.iter().find(|(end, of, _)| path.ends_with(end) && of == method);
            if let Some((_, _, name)) = document {
                call["requestBody"]["content"]["application/json"]["schema"] = reference(name);
            }
            let written = WRITES.iter().find(|(end, of, _)| path.ends_with(end) && of == method);
            if let Some((_, _, entry)) = written {
                let trial = json!({"anyOf": [reference(entry), reference("ChangesAnswer")]});
                respond(call, 201, reference(entry));
                respond(call, 200, trial);
            }
            if method == "get" {
                show_entries(path, call);
            }
            add_errors(call);
        }
    }
}

/// Gives a call that shows entries their schema.
fn show_entries(path: &str, call: &mut Value) {
    let list = LISTS.iter().find(|(list, ..)| path.ends_with(&format!("/{list}")));
    let schema = match list {
        Some((list, entry, _)) => json!({
            "type": "object",
            "required": [list],
            "properties": {*list: {"type": "array", "items": reference(entry)}},
        }),
        None if path.ends_with("/rules/{rule_id}") => reference("RuleEntry"),
        None if path == "/api/v1/policy" => reference("PolicyDocument"),
        None if path.ends_with("/policy/revisions/{revision}") => reference("PolicyDocument"),
        None => return,
    };
    respond(call, 200, schema);
}

/// Gives a response with JSON its schema.
fn respond(call: &mut Value, status: u16, schema: Value) {
    let place = format!("/responses/{status}/content/application~1json/schema");
    if let Some(shown) = call.pointer_mut(&place) {
        *shown = schema;
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Gives every problem of a call an example of its status.
fn add_errors(call: &mut Value) {
    let Some(responses) = call.get_mut("responses").and_then(Value::as_object_mut) else { return };
    for (status, response) in responses {
        let content = response.get_mut("content").and_then(|content| content.get_mut(PROBLEM_JSON));
        let Some(content) = content else { continue };
        let known = ERRORS.iter().find(|(number, ..)| number.to_string() == *status);
        let Some((number, code, detail)) = known else { continue };
        let title = StatusCode::from_u16(*number).ok().and_then(|it| it.canonical_reason());
        content["example"] = json!({
            "type": "about:blank", "title": title, "status": number, "code": code, "detail": detail,
        });
    }
}

/// The schemas of policy documents and their entries, by name.
fn document_schemas() -> Map<String, Value> {
    let mut policy = json!(schema());
    let definitions = policy["$defs"].take();
    let mut schemas = Map::new();
    if let Value::Object(definitions) = definitions {
        schemas.extend(definitions);
    }
    if let Some(policy) = policy.as_object_mut() {
        policy.retain(|name, _| !name.starts_with('$'));
    }
    schemas.insert("PolicyDocument".to_owned(), policy);
    for schema in schemas.values_mut() {
        move_references(schema);
        accept_null(schema);
    }
    // In a call that names the rule or the user in its path, the body need not.
    let mut fields = schemas.get("RuleDocument").cloned().unwrap_or_default();
    if let Some(required) = fields["required"].as_array_mut() {
        required.retain(|name| name != "rule_id");
    }
    schemas.insert("RuleFields".to_owned(), fields);
    let mut exception = schemas.get("OverrideDocument").cloned().unwrap_or_default();
    for name in ["identifier_type", "identifier"] {
        if let Some(required) = exception["required"].as_array_mut() {
            required.retain(|it| it != name);
        }
        if let Some(properties) = exception["properties"].as_object_mut() {
            properties.remove(name);
        }
    }
    schemas.insert("UserOverride".to_owned(), exception);
    let tiers = json!({
        "type": "object",
        "required": ["tiers"],
        "additionalProperties": false,
        "properties": {"tiers": {"type": "array", "items": reference("TierDocument")}},
    });
    schemas.insert("TiersDocument".to_owned(), tiers);
    for (_, entry, document) in LISTS {
        let mut shown = schemas.get(document).cloned().unwrap_or_default();
        if let Some(shown) = shown.as_object_mut() {
            shown.remove("additionalProperties");
        }
        if let Some(properties) = shown.get_mut("properties").and_then(Value::as_object_mut) {
            properties.extend(log_fields());
        }
        schemas.insert(entry.to_owned(), shown);
    }
    schemas
}

/// What the server adds to an entry, with `detail` or after a change.
fn log_fields() -> Map<String, Value> {
    let fields = [
        ("version", "integer", "Its version, which is also its ETag"),
        ("created_at", "string", "When it was written"),
        ("created_by", "string", "The token that wrote it"),
        ("updated_at", "string", "When it was written last"),
        ("updated_by", "string", "The token that wrote it last"),
        ("written_by", "string", "`tenant-admin`, if one wrote it"),
    ];
    let field = |(name, kind, about): (&str, _, _)| {
        (name.to_owned(), json!({"type": kind, "description": about}))
    };
    fields.map(field).into_iter().collect()
}

/// Lets references lead to the components of the description.
fn move_references(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            for (name, value) in entries {
                match value.as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
                    Some(target) if name == "$ref" => {
                        *value = format!("#/components/schemas/{target}").into();
                    }
                    _ => move_references(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(move_references),
        _ => {}
    }
}

/// A field that may be missing may also be null, which means the same.
fn accept_null(schema: &mut Value) {
    let required: Vec<Value> = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let Some(properties) = properties else { return };
    for (name, property) in properties {
        let takes_null =
            property["type"].as_array().is_some_and(|types| types.contains(&json!("null")))
                || property["anyOf"]
                    .as_array()
                    .is_some_and(|any| any.contains(&json!({"type": "null"})));
        if takes_null || required.contains(&json!(name)) {
            continue;
        }
        let about = property["description"].clone();
        let default = property.get("default").cloned();
        let mut either =
            json!({"anyOf": [property.take(), {"type": "null"}], "description": about});
        if let Some(default) = default {
            either["default"] = default;
        }
        *property = either;
    }
}
