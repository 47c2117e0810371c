//! The lists of the admin API, one row each: where a list is, and how its entries look in a table. A new list is a row
//! here.

use serde_json::Value;

use crate::table::{Column, rows_of};
use crate::terminal::{count, named_actor};

/// A column of a table, and what is in it of an entry.
type EntryColumn = (Column, fn(&Value) -> String);

/// A list of the admin API.
pub(super) struct Resource {
    pub(super) path: &'static str,
    /// The name of the list in responses.
    pub(super) list: &'static str,
    /// What one entry is.
    pub(super) noun: &'static str,
    columns: &'static [EntryColumn],
}

/// The field that says which list an entry is on, where both are shown.
pub(super) const LIST: &str = "list";

const LISTED: &[EntryColumn] = &[
    (Column::Text("list"), |entry| text(entry, LIST)),
    (Column::Text("client"), client),
    (Column::Text("reason"), |entry| text(entry, "reason")),
    (Column::Text("ends"), ends),
];

pub(super) static WHITELIST: Resource =
    Resource { path: "/api/v1/whitelist", list: "whitelist", noun: "client", columns: LISTED };

pub(super) static BLACKLIST: Resource =
    Resource { path: "/api/v1/blacklist", list: "blacklist", noun: "client", columns: LISTED };

pub(super) static BANS: Resource = Resource {
    path: "/api/v1/bans",
    list: "bans",
    noun: "ban",
    columns: &[
        (Column::Text("rule"), |entry| text(entry, "rule_id")),
        (Column::Text("client"), |entry| text(entry, "identifier")),
        (Column::Text("tenant"), |entry| text(entry, "tenant")),
        (Column::Text("ends"), ends),
    ],
};

pub(super) static CLIENTS: Resource = Resource {
    path: "/api/v1/clients",
    list: "clients",
    noun: "client",
    columns: &[
        (Column::Text("client"), client),
        (Column::Text("tier"), |entry| text(entry, "tier")),
    ],
};

pub(super) static AUDIT: Resource = Resource {
    path: "/api/v1/audit",
    list: "records",
    noun: "change",
    columns: &[
        (Column::Figure("revision"), |entry| text(entry, "revision")),
        (Column::Text("when"), when),
        (Column::Text("who"), |entry| {
            let name = entry.get("actor_name").and_then(Value::as_str);
            named_actor(&text(entry, "actor"), name)
        }),
        (Column::Text("role"), |entry| text(entry, "role")),
        (Column::Text("from"), |entry| text(entry, "address")),
        (Column::Text("what"), |entry| text(entry, "action")),
        (Column::Text("kind"), |entry| text(entry, "kind")),
        (Column::Text("entry"), entry_name),
    ],
};

pub(super) static DECISIONS: Resource = Resource {
    path: "/api/v1/audit/decisions",
    list: "records",
    noun: "decision",
    columns: &[
        (Column::Text("when"), when),
        (Column::Text("result"), |entry| text(entry, "action")),
        (Column::Text("rule"), |entry| text(entry, "rule_id")),
        (Column::Text("client"), |entry| text(entry, "client")),
        (Column::Text("tenant"), |entry| text(entry, "tenant")),
        (Column::Text("request"), |entry| {
            let parts = ["method", "endpoint", "domain"].map(|name| text(entry, name));
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        }),
        (Column::Text("decision"), |entry| text(entry, "decision_id")),
    ],
};

impl Resource {
    /// Entries, one a line, and how many there are.
    pub(super) fn render(&self, entries: &[Value]) -> String {
        let columns: Vec<Column> = self.columns.iter().map(|(column, _)| *column).collect();
        let cells = |entry: &Value| self.columns.iter().map(|(_, cell)| cell(entry)).collect();
        let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
        let summary = format!("{}\n", count(rows.len() as u64, self.noun));
        if rows.is_empty() { summary } else { format!("{}\n{summary}", rows_of(&columns, &rows)) }
    }
}

/// A field as text: a list by its items, and nothing if it is absent.
pub(super) fn text(entry: &Value, name: &str) -> String {
    let one = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match entry.get(name) {
        Some(Value::Array(items)) => items.iter().map(one).collect::<Vec<_>>().join(", "),
        Some(value) => one(value),
        None => String::new(),
    }
}

/// The client of an entry: `tenant acme, user_id bob`.
fn client(entry: &Value) -> String {
    let parts = |name: &str| match entry.get(name) {
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
        }
        _ => vec![text(entry, name)],
    };
    let (types, values) = (parts("identifier_type"), parts("identifier"));
    let pairs = types.iter().zip(&values).map(|(kind, value)| format!("{kind} {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// When it was, to the second.
fn when(entry: &Value) -> String {
    let at = text(entry, "at");
    match at.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => at,
    }
}

fn ends(entry: &Value) -> String {
    let end = text(entry, "expires_at");
    if end.is_empty() { "never".to_owned() } else { end }
}

/// The name of an entry of the audit log. Those of clients are lists of identifiers.
fn entry_name(entry: &Value) -> String {
    let name = text(entry, "entry");
    let parts: Result<Vec<String>, _> = serde_json::from_str(&name);
    parts.map_or(name, |parts| parts.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(resource: &Resource, entries: &Value, expected: &str) {
        let entries = entries.as_array().expect("entries");
        assert_eq!(resource.render(entries), expected);
    }

    #[test]
    fn an_entry_is_a_line() {
        check(
            &BANS,
            &json!([{"rule_id": "login", "identifier": ["acme", "bob"], "expires_at": "2030-01-01T00:00:00Z"},
                    {"rule_id": "api", "identifier": "eve", "tenant": "acme", "expires_at": "2030-01-01T00:00:00Z"}]),
            " rule   client     tenant  ends
 login  acme, bob          2030-01-01T00:00:00Z
 api    eve        acme    2030-01-01T00:00:00Z

2 bans
",
        );
        check(
            &WHITELIST,
            &json!([{"list": "whitelist", "identifier_type": ["tenant", "user_id"], "identifier": ["acme", "bob"]}]),
            " list       client                    reason  ends
 whitelist  tenant acme, user_id bob          never

1 client
",
        );
        check(
            &AUDIT,
            &json!([{"revision": 7, "at": "t", "actor": "c629", "actor_name": "deploy", "role": "admin",
                     "address": null, "kind": "override", "entry": "[\"a\",\"user_id\",\"u\"]", "action": "create"}]),
            " revision  when  who            role   from  what    kind      entry
        7  t     deploy (c629)  admin        create  override  a user_id u

1 change
",
        );
        check(
            &DECISIONS,
            &json!([{"at": "t.123456Z", "action": "refused", "rule_id": "r", "client": "a\u{1b}[31mb\u{202e}c", "tenant": null,
                     "method": "GET", "endpoint": "/x", "decision_id": "d1"}]),
            " when  result   rule  client     tenant  request  decision
 tZ    refused  r     a\u{fffd}[31mb\u{fffd}c          GET /x   d1

1 decision
",
        );
        check(&CLIENTS, &json!([]), "0 clients\n");
    }
}
