//! Tables of entries: every cell, and nothing that a terminal would act on.

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
        &DECISIONS_WIDE,
        &json!([{"at": "t.123456Z", "action": "refused", "rule_id": "r", "client": "a\u{1b}[31mb\u{202e}c", "tenant": null,
                 "method": "GET", "endpoint": "/x", "decision_id": "d1"}]),
        " when  result   rule  client     tenant  request  node  decision
 tZ    refused  r     a\u{fffd}[31mb\u{fffd}c          GET /x         d1

1 decision
",
    );
    check(&CLIENTS, &json!([]), "0 clients\n");
    check(
        &OVERRIDES,
        &json!([{"rule_id": "r", "identifier_type": "ip", "identifier": "192.0.2.7", "limit": 5000, "window_seconds": 60.0,
                 "burst": 9, "starts_at": "2029-01-01T00:00:00Z", "expires_at": "2030-01-01T00:00:00Z"},
                {"rule_id": "r", "identifier_type": "user_id", "identifier": "a", "limit": 5},
                {"rule_id": "r", "identifier_type": "user_id", "identifier": "b", "window": "1h"},
                {"rule_id": "r", "identifier_type": "user_id", "identifier": "c", "multiplier": 0.5}]),
        " rule  client        limit                   begins                ends
 r     ip 192.0.2.7  5,000 / 1 min, burst 9  2029-01-01T00:00:00Z  2030-01-01T00:00:00Z
 r     user_id a     limit 5                                       never
 r     user_id b     window 1h                                     never
 r     user_id c     times 0.5                                     never

4 exceptions
",
    );
}

/// Refusals for all reasons used to look alike, and ids of a hundred characters broke every line.
#[test]
fn a_decision_fits_into_a_line_with_its_reason() {
    let of = |action: &str, reason: Option<&str>, id: &str| {
        json!({"at": "2030-12-01T10:20:30.123456Z", "action": action, "reason": reason, "rule_id": "per_ip",
               "client": "u1", "decision_id": id})
    };
    let sealed = format!("d8000000000000001-s7.{}", "x".repeat(120));
    check(
        &DECISIONS,
        &json!([
            of("refused", Some("rate_limited"), "d1f00dbee-r7"),
            of("refused", Some("store_unavailable"), "d1f00dbee-r8"),
            of("denied", Some("denied"), "d1f00dbee-r9"),
            of("allowed", None, &sealed),
        ]),
        " when, UTC       result                      rule    client  decision
 12-01 10:20:30  refused, rate_limited       per_ip  u1      d1f00dbee-r7
 12-01 10:20:30  refused, store_unavailable  per_ip  u1      d1f00dbee-r8
 12-01 10:20:30  denied                      per_ip  u1      d1f00dbee-r9
 12-01 10:20:30  allowed                     per_ip  u1      d8000000000000001-s7…

4 decisions
",
    );
}

/// Nodes that are silent or have lost servers of the store, with columns for files only if a node has some.
#[test]
fn a_node_is_a_line_that_says_how_it_is() {
    let node = |host: &str, more: Value| {
        let mut node = json!({"host": host, "name": "n1", "version": "0.1.0", "revision": 7, "requests_per_second": 1234.0,
                              "refused_per_second": 0.0, "store": {"state": "up", "servers": 3, "servers_up": 3},
                              "status": "ready", "age_seconds": 0.4, "this": false});
        for (name, value) in more.as_object().expect("fields") {
            node[name] = value.clone();
        }
        node
    };
    let silent = json!({"requests_per_second": null, "refused_per_second": null, "store": null, "status": "silent",
                        "age_seconds": 61.7});
    let partly = json!({"this": true, "store": {"state": "partly_up", "servers": 3, "servers_up": 2, "reason": "refused"}});
    let mut nodes = vec![node("a\u{1b}", partly), node("b", silent)];
    assert_eq!(
        NODES.render_filled(&nodes),
        " host       node  version  revision  requests/s  refused/s  store                       status
 a\u{fffd} (this)  n1    0.1.0           7       1,234          0  partly_up, 2 of 3: refused  ready
 b          n1    0.1.0           7                                                     silent for 1 min 1 s

2 nodes
"
    );
    nodes.push(node("c", json!({"rules_file_sha256": "0123456789abcdef"})));
    let shown = NODES.render_filled(&nodes);
    assert!(shown.contains("  rules file  ") && !shown.contains("Envoy files"), "{shown}");
}
