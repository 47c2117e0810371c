//! Bans of clients that keep exceeding a limit, on one node and on several, with and without a catalog.

mod bounds;
mod fleet;
mod one_node;
mod shares;

use serde_json::{Value, json};

use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{JSON, Server, bearer_admin};
use tollgate_e2e::until;

pub(super) const BANS: &str = "/api/v1/bans";
/// Tests exceed the default limits of the admin API.
pub(super) const SETTINGS: &str = "{limits: {admin_reads_per_minute: 1000000, \
                                   admin_writes_per_minute: 1000000}}";

/// A rule that admits one login an hour, and bans after so many refusals for so many seconds.
pub(super) fn login(after: u64, ban_seconds: u64) -> Value {
    json!({
        "rule_id": "login", "limit": 1, "window": "300d", "algorithm": "fixed_window",
        "identifier_type": "user_id",
        "penalty": {"after": after, "within_seconds": 600, "ban_seconds": ban_seconds},
    })
}

/// Writes a rule to the catalog of a server.
pub(super) fn make_rule(server: &Server, rule: &Value) {
    let made = server.post_as_admin("/api/v1/rules", &rule.to_string());
    assert_eq!(made.status, 201, "{made:?}");
}

/// The decision of the rule about a client.
pub(super) fn ask(server: &Server, client: &str) -> Value {
    let check = json!({"rule_id": "login", "key_type": "user", "key_value": client});
    server.check(&check.to_string())
}

/// Why it is refused; empty if it is not.
pub(super) fn reason(server: &Server, client: &str) -> String {
    ask(server, client)["reason"].as_str().unwrap_or_default().to_owned()
}

/// Whether a client is banned, by a peek, which counts as no refusal.
pub(super) fn is_banned(server: &Server, client: &str) -> bool {
    let check = json!({"rule_id": "login", "key_type": "user", "key_value": client});
    let answer = server.post("/api/v1/rate-limit/peek", &check.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["reason"] == "banned"
}

/// A client is refused so often, and then banned.
pub(super) fn get_banned(server: &Server, client: &str, after: u64) {
    assert_eq!(reason(server, client), "", "the first one passes");
    for refusal in 0..after {
        assert!(!is_banned(server, client), "after {refusal} refusals");
        assert_eq!(reason(server, client), "rate_limited", "after {refusal} refusals");
    }
    until("a ban", || is_banned(server, client).then_some(()));
}

/// The clients that are listed as banned.
pub(super) fn listed(server: &Server) -> Vec<String> {
    let answer = server.get_as_admin(BANS);
    assert_eq!(answer.status, 200, "{answer:?}");
    let bans = answer.json()["bans"].as_array().expect("bans").clone();
    let first = |values: &Value| values.as_str().or(values[0].as_str()).map(str::to_owned);
    bans.iter().map(|ban| first(&ban["identifier"]).expect("a value")).collect()
}

/// A figure of `/metrics` that counts something.
pub(super) fn count(server: &Server, name: &str) -> u64 {
    server.figure(name) as u64
}

pub(super) fn lift(server: &Server, client: &str) -> Answer {
    let path = format!("{BANS}?rule_id=login&identifier={client}");
    server.ask("DELETE", &path, &[JSON, bearer_admin()], "")
}
