//! Refunds, resets, nodes and the history of a node from the command line.

use serde_json::{Value, json};

use crate::command::{TestServer, run};
use tollgate_e2e::server::{Server, Setup};

const POLICY: &str = "\
rules:
  - {rule_id: search, limit: 2, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: acme.own, tenant: acme, limit: 1, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: login, limit: 0, window: 1h, identifier_type: ip,
     penalty: {after: 1, within_seconds: 600, ban_seconds: 600}}
";

/// The limits of files of envoyproxy/ratelimit.
const ENVOY: &str = "\
domain: shop
descriptors:
  - key: tenant
    value: acme
    rate_limit: {unit: day, requests_per_unit: 1}
";

fn check(server: &TestServer, identifiers: &Value) -> Value {
    let body = json!({"identifiers": identifiers, "endpoint": "/orders", "method": "GET"});
    server.server.check(&body.to_string())
}

/// How many units of a rule a user has left.
fn left(server: &TestServer, user: &str) -> Value {
    let shown = server.tollgate(&format!("users show {user} --json")).expect(0, &[]).json();
    let limits = shown["limits"].as_array().expect("limits");
    let search = limits.iter().find(|limit| limit["rule_id"] == "search");
    search.unwrap_or_else(|| panic!("no rule search in {shown}"))["remaining"].clone()
}

#[test]
fn a_decision_is_refunded_once() {
    let server = TestServer::with(POLICY);
    let decision = check(&server, &json!({"user_id": "alice"}));
    let id = decision["decision_id"].as_str().expect("an id");
    assert_eq!(left(&server, "alice"), 1);
    let viewer = server.token("viewer");
    let refund = format!("decisions refund {id}");
    server.tollgate_as(&viewer, &refund).expect(1, &["needs the role `operator`"]);
    assert_eq!(left(&server, "alice"), 1);
    server.tollgate(&refund).expect(0, &["refunded to 1 counter\n"]);
    assert_eq!(left(&server, "alice"), 2);
    server.tollgate(&refund).expect(1, &["tollgate: "]);
    assert_eq!(left(&server, "alice"), 2);
    server.tollgate("decisions refund d00000001-a1").expect(1, &["(unknown_decision)"]);
    let decision = check(&server, &json!({"user_id": "alice"}));
    let id = decision["decision_id"].as_str().expect("an id");
    let printed = server.tollgate(&format!("decisions refund {id} --json")).expect(0, &[]).json();
    assert_eq!(printed, json!({"counters": 1}));
}

#[test]
fn counters_of_a_request_or_of_a_rule_are_refunded_and_reset() {
    let server = TestServer::with(POLICY);
    for _ in 0..2 {
        check(&server, &json!({"user_id": "alice"}));
    }
    assert_eq!(left(&server, "alice"), 0);
    let request = "--user-id alice --endpoint /orders --method GET";
    server.tollgate(&format!("refund {request}")).expect(0, &["refunded to 1 counter\n"]);
    assert_eq!(left(&server, "alice"), 1);
    server.tollgate("refund --rule search alice --json").expect(0, &["{\"counters\":1}"]);
    assert_eq!(left(&server, "alice"), 2);
    for _ in 0..2 {
        check(&server, &json!({"user_id": "alice"}));
    }
    server.tollgate("refund --user-id alice --cost 2").expect(0, &["refunded to 1 counter\n"]);
    assert_eq!(left(&server, "alice"), 2);

    for reset in [format!("reset {request}"), "reset --rule search alice".to_owned()] {
        check(&server, &json!({"user_id": "alice"}));
        check(&server, &json!({"user_id": "bob"}));
        assert_eq!(left(&server, "alice"), 1);
        server.tollgate(&reset).expect(0, &["reset 1 counter\n"]);
        assert_eq!(left(&server, "alice"), 2);
        server.tollgate(&reset).expect(0, &["reset 0 counters\n"]);
    }
    assert_eq!(left(&server, "bob"), 0, "counters of others stay");
    // Bans are lifted, too.
    check(&server, &json!({"ip": "203.0.113.9"}));
    tollgate_e2e::until("the ban", || {
        server.tollgate("bans list").stdout.contains("203.0.113.9").then_some(())
    });
    server.tollgate("reset --ip 203.0.113.9").expect(0, &["reset "]);
    server.tollgate("bans list").expect(0, &["0 bans\n"]);
    // Both are in the audit log.
    let log = server.tollgate("audit --kind counters").expect(0, &[" refund ", " reset "]);
    assert!(log.stdout.contains("search user_id alice"), "{log:?}");

    server.tollgate("reset --rule none alice").expect(1, &["(unknown_rule)"]);
    server.tollgate("refund --rule none alice").expect(1, &["(unknown_rule)"]);
    server.tollgate("reset --user-id alice --cost 2").expect(2, &["a reset has no --cost"]);
    for words in ["reset", "refund", "reset --cost 1", "refund --cost 1", "reset --json"] {
        server.tollgate(words).expect(2, &["--user-id"]);
    }
    let viewer = server.token("viewer");
    let acme = server.token("tenant-admin --tenant acme");
    for words in ["reset --user-id bob", "refund --user-id bob", "reset --rule acme.own wile"] {
        for token in [&viewer, &acme] {
            server.tollgate_as(token, words).expect(1, &["needs the role `operator`"]);
        }
    }
    assert_eq!(left(&server, "bob"), 0);
    // An API key is in no message.
    let secret =
        server.tollgate("reset --api-key sk_live_7 --rule search").expect(1, &["counts by"]);
    assert!(!format!("{secret:?}").contains("sk_live_7"), "{secret:?}");
}

#[test]
fn limits_of_files_for_envoy_are_reset() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("shop.yaml"), ENVOY).expect("written");
    let path = folder.path().to_str().expect("a path");
    let server = Server::start(&Setup { arguments: &["--envoy-config", path], ..Setup::default() });
    let server = TestServer { server };
    let body = r#"{"domain":"shop","descriptors":[{"entries":[{"key":"tenant","value":"acme"}]}]}"#;
    let status = || server.server.post("/json", body).status;
    assert_eq!((status(), status()), (200, 429));
    let reset = "reset --domain shop --descriptor tenant=acme";
    server.tollgate(reset).expect(0, &["reset 1 counter\n"]);
    assert_eq!((status(), status()), (200, 429));
    server.tollgate(&format!("{reset} --json")).expect(0, &["{\"counters\":1}"]);
    assert_eq!(status(), 200);
    server.tollgate("reset --domain other --descriptor tenant=acme").expect(1, &["tollgate: "]);
    server.tollgate("reset --domain shop").expect(2, &["--descriptor"]);
    server.tollgate("reset --domain shop --descriptor tenant").expect(2, &["write it like"]);
    server.tollgate(&format!("{reset} --user-id bob")).expect(2, &["cannot be used with"]);
    server.tollgate(&format!("{reset} --rule search")).expect(2, &["cannot be used with"]);
}

#[test]
fn the_nodes_are_listed() {
    let server = TestServer::with(POLICY);
    let shown =
        server.tollgate("nodes").expect(0, &["1 node\n", " (this) ", " memory ", " ready\n"]);
    let heading: Vec<&str> = shown.stdout.lines().next().expect("a line").split("  ").collect();
    assert!(!heading.iter().any(|it| it.contains("file")), "no node has files: {shown:?}");
    let nodes = server.tollgate("nodes --json").expect(0, &[]).json();
    let node = &nodes["nodes"][0];
    assert_eq!(
        (&node["this"], &node["version"]),
        (&json!(true), &json!(env!("CARGO_PKG_VERSION")))
    );
    for name in ["name", "version"] {
        assert!(shown.stdout.contains(node[name].as_str().expect("a text")), "{shown:?}");
    }
    let acme = server.token("tenant-admin --tenant acme");
    server.tollgate_as(&acme, "nodes").expect(1, &["the token is one of role `tenant-admin`"]);

    // Nodes with files count their revisions separately, so that the digest is shown.
    let server = TestServer { server: Server::with_rules(POLICY) };
    let nodes = server.tollgate("nodes --json").expect(0, &[]).json();
    let digest = nodes["nodes"][0]["rules_file_sha256"].as_str().expect("a digest");
    server.tollgate("nodes").expect(0, &[" rules file ", digest]);
}

#[test]
fn the_history_of_a_node_is_shown() {
    let server = TestServer::with(POLICY);
    for user in ["alice", "alice", "alice", "bob"] {
        check(&server, &json!({"user_id": user}));
    }
    let history = tollgate_e2e::until("the figures", || {
        let history = server.tollgate("stats history").expect(0, &[]);
        let has = |row: &[&str]| {
            let rows = history.stdout.lines().map(|line| line.split_whitespace());
            rows.into_iter().any(|mut words| row.iter().all(|word| words.next() == Some(word)))
        };
        let is_all = has(&["allowed", "3", "75.00"]) && has(&["refused", "1", "25.00"]);
        (is_all && has(&["search", "3", "1", "25.00"])).then_some(history)
    });
    history.expect(0, &["the last 1 h of this node, from 2", "checks ", "revision 2 with 3 rules"]);
    server
        .tollgate("stats history --range 5m")
        .expect(0, &["the last 5 min of", ", in steps of 1 s\n"]);
    let printed = server.tollgate("stats history --range 1d --json").expect(0, &[]).json();
    assert_eq!(printed["range_seconds"], 86_400);
    server.tollgate("stats history --range 2d").expect(1, &["a time from 1m to 24h"]);
    server.tollgate("stats history --range often").expect(2, &["write it like"]);
    server.tollgate("stats history --colour").expect(2, &["--colour"]);
    // The figures since the start have no flags of the history.
    server.tollgate("stats --range 5m").expect(2, &["--range"]);

    check(&server, &json!({"user_id": "wile", "tenant": "acme"}));
    let acme = server.token("tenant-admin --tenant acme");
    let own = tollgate_e2e::until("the rule of the tenant", || {
        let own = server.tollgate_as(&acme, "stats history").expect(0, &[]);
        own.stdout.contains("acme.own").then_some(own)
    });
    let own = own.expect(0, &["the last 1 h of the rules of this tenant"]);
    assert!(!own.stdout.contains("search") && !own.stdout.contains("revision"), "{own:?}");
    let mut nowhere = server.command("stats history");
    run(nowhere.env("TOLLGATE_SERVER", "http://127.0.0.1:1")).expect(2, &["cannot reach"]);
}
