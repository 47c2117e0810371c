//! The lists of the admin API, one row each: where a list is, and how its entries look in a table. A new list is a row
//! here.

use serde_json::Value;

use crate::table::{Column, rows_of};
use crate::terminal::{count, grouped, lasting, named_actor};

/// What is in a column of an entry.
type EntryCell = fn(&Value) -> String;

/// A column of a table.
type EntryColumn = (Column, EntryCell);

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

pub(super) static TIERS: Resource = Resource {
    path: "/api/v1/tiers",
    list: "tiers",
    noun: "tier",
    columns: &[
        (Column::Text("tier"), |entry| text(entry, "tier")),
        (Column::Text(""), |entry| {
            let is_default = entry.get("default").and_then(Value::as_bool);
            if is_default == Some(true) { "the default".to_owned() } else { String::new() }
        }),
    ],
};

pub(super) static OVERRIDES: Resource = Resource {
    path: "/api/v1/overrides",
    list: "overrides",
    noun: "exception",
    columns: &[
        (Column::Text("rule"), |entry| text(entry, "rule_id")),
        (Column::Text("client"), client),
        (Column::Text("limit"), exception),
        (Column::Text("begins"), |entry| text(entry, "starts_at")),
        (Column::Text("ends"), ends),
    ],
};

pub(super) static API_KEYS: Resource = Resource {
    path: "/api/v1/api-keys",
    list: "api_keys",
    noun: "API key",
    columns: &[
        (Column::Text("key"), |entry| text(entry, "key_id")),
        (Column::Text("name"), |entry| text(entry, "name")),
        (Column::Text("owner"), |entry| text(entry, "owner")),
        (Column::Text("tier"), |entry| text(entry, "tier")),
        (Column::Text("tenant"), |entry| text(entry, "tenant")),
        (Column::Text("made"), |entry| text(entry, "created_at")),
    ],
};

pub(super) static NODES: Resource = Resource {
    path: "/api/v1/nodes",
    list: "nodes",
    noun: "node",
    columns: &[
        (Column::Text("host"), |entry| {
            let is_this = entry.get("this").and_then(Value::as_bool) == Some(true);
            text(entry, "host") + if is_this { " (this)" } else { "" }
        }),
        (Column::Text("node"), |entry| text(entry, "name")),
        (Column::Text("version"), |entry| text(entry, "version")),
        (Column::Figure("revision"), |entry| text(entry, "revision")),
        (Column::Text("rules file"), |entry| text(entry, "rules_file_sha256")),
        (Column::Text("Envoy files"), |entry| text(entry, "envoy_config_sha256")),
        (Column::Figure("requests/s"), |entry| rate(entry, "requests_per_second")),
        (Column::Figure("refused/s"), |entry| rate(entry, "refused_per_second")),
        (Column::Text("store"), store),
        (Column::Text("status"), node_status),
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

/// As narrow as can be: the time without the year, and ids cut where their seal begins.
pub(super) static DECISIONS: Resource = Resource {
    path: "/api/v1/audit/decisions",
    list: "records",
    noun: "decision",
    columns: &[
        (Column::Text("when, UTC"), shortly),
        (Column::Text("result"), result),
        (Column::Text("rule"), deciding_rule),
        (Column::Text("client"), |entry| text(entry, "client")),
        (Column::Text("decision"), |entry| shortened_id(&text(entry, "decision_id"))),
    ],
};

pub(super) static DECISIONS_WIDE: Resource = Resource {
    path: "/api/v1/audit/decisions",
    list: "records",
    noun: "decision",
    columns: &[
        (Column::Text("when"), when),
        (Column::Text("result"), result),
        (Column::Text("rule"), deciding_rules),
        (Column::Text("client"), |entry| text(entry, "client")),
        (Column::Text("tenant"), |entry| text(entry, "tenant")),
        (Column::Text("request"), |entry| {
            let parts = ["method", "endpoint", "domain"].map(|name| text(entry, name));
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
        }),
        (Column::Text("node"), |entry| text(entry, "node")),
        (Column::Text("decision"), |entry| text(entry, "decision_id")),
    ],
};

impl Resource {
    /// Entries, one a line, and how many there are.
    pub(super) fn render(&self, entries: &[Value]) -> String {
        self.table(entries, |_| true)
    }

    /// Entries, one a line, without the columns that no entry has anything in.
    pub(super) fn render_filled(&self, entries: &[Value]) -> String {
        self.table(entries, |(_, cell)| entries.iter().any(|entry| !cell(entry).is_empty()))
    }

    fn table(&self, entries: &[Value], is_shown: impl Fn(&&EntryColumn) -> bool) -> String {
        let shown = self.columns.iter().filter(is_shown).copied();
        let (columns, cells): (Vec<Column>, Vec<EntryCell>) = shown.unzip();
        let row = |entry: &Value| cells.iter().map(|cell| cell(entry)).collect();
        let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
        let summary = format!("{}\n", count(rows.len() as u64, self.noun));
        match &*rows {
            [] if self.path == DECISIONS.path => {
                summary + "a decision is in the log about a second after its response\n"
            }
            [] => summary,
            rows => format!("{}\n{summary}", rows_of(&columns, rows)),
        }
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

/// When it was, to the second, without the year.
fn shortly(entry: &Value) -> String {
    let at = when(entry);
    let parts = at.split_once('-').and_then(|(_, rest)| rest.split_once('T'));
    parts.map_or(at.clone(), |(day, time)| format!("{day} {}", time.trim_end_matches('Z')))
}

/// How it ended and why: a limit, a ban or a store that is away refuse all alike.
fn result(entry: &Value) -> String {
    let (action, reason) = (text(entry, "action"), text(entry, "reason"));
    if reason.is_empty() || reason == action { action } else { format!("{action}, {reason}") }
}

/// The rule of a decision, and how many further ones would have refused it.
fn deciding_rule(entry: &Value) -> String {
    let others = further_rules(entry).count();
    let rule_id = text(entry, "rule_id");
    if others == 0 { rule_id } else { format!("{rule_id} and {others} more") }
}

/// The rule of a decision, and the further ones that would have refused it.
fn deciding_rules(entry: &Value) -> String {
    let first = Some(text(entry, "rule_id")).filter(|rule_id| !rule_id.is_empty());
    let others = further_rules(entry).map(str::to_owned);
    first.into_iter().chain(others).collect::<Vec<_>>().join(", ")
}

fn further_rules(entry: &Value) -> impl Iterator<Item = &str> {
    let others = entry.get("also_would_refuse").and_then(Value::as_array);
    others.into_iter().flatten().filter_map(Value::as_str)
}

/// An id that fits into a terminal. Those of a fleet end with a seal of a hundred characters.
fn shortened_id(id: &str) -> String {
    match id.split_once('.') {
        Some((name, _)) => format!("{name}…"),
        None => id.to_owned(),
    }
}

/// What an exception changes of its rule: `50 / 1 h`, `limit 50`, `times 2`.
fn exception(entry: &Value) -> String {
    let figure = |name: &str| entry.get(name).and_then(Value::as_u64).map(grouped);
    let window = entry.get("window_seconds").and_then(Value::as_f64).map(lasting);
    let window = window.or_else(|| Some(text(entry, "window")).filter(|it| !it.is_empty()));
    let mut parts = match (figure("limit"), window) {
        (Some(limit), Some(window)) => vec![format!("{limit} / {window}")],
        (Some(limit), None) => vec![format!("limit {limit}")],
        (None, Some(window)) => vec![format!("window {window}")],
        (None, None) => Vec::new(),
    };
    parts.extend(figure("burst").map(|burst| format!("burst {burst}")));
    parts.extend(entry.get("multiplier").map(|factor| format!("times {factor}")));
    parts.join(", ")
}

/// A rate: none of a node that is silent.
fn rate(entry: &Value, name: &str) -> String {
    let rate = entry.get(name).and_then(Value::as_f64);
    rate.map(|rate| grouped(rate.round() as u64)).unwrap_or_default()
}

/// The store as a node sees it, and if some of its servers are away, how many are not.
fn store(entry: &Value) -> String {
    let Some(store) = entry.get("store").filter(|store| store.is_object()) else {
        return String::new();
    };
    let (state, servers, up) =
        (text(store, "state"), text(store, "servers"), text(store, "servers_up"));
    let reason = text(store, "reason");
    let reason = if reason.is_empty() { reason } else { format!(": {reason}") };
    if servers == up { state } else { format!("{state}, {up} of {servers}{reason}") }
}

/// How a node is, and for how long a silent one was not heard.
fn node_status(entry: &Value) -> String {
    let status = text(entry, "status");
    let age = entry.get("age_seconds").and_then(Value::as_f64).filter(|_| status == "silent");
    age.map_or_else(|| status.clone(), |age| format!("{status} for {}", lasting(age.floor())))
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
mod tests;
