//! `apply` takes an export back without a change.

use std::fs;

use tollgate_e2e::server::{Server, Setup};

use crate::command::TestServer;

const POLICY: &str = r#"
rules:
  - rule_id: everything
    name: "yes: #1 \u2028 'quoted' \"twice\""
    description: "null"
    limit: 100
    window_seconds: 0.25
    algorithm: token_bucket
    burst: 150
    identifier_type: [user_id, "header:x-plan"]
    key_pattern: "*"
    applies_to:
      hosts: ["*.example.com"]
      endpoints: ["/api/*", "/users/{id}"]
      methods: [GET, POST]
      user_tiers: [free]
      attributes: {plan: [gold, "si*"], "on": ["true"]}
    costs: {"POST /api/*": 5}
    soft: {warn_at: 0.5, clear_at: 0.25, grace: 3}
    priority: -7
    refund_on: [503, 5xx]
    refusal: {status: 503, body: 'wait {retry_after} s', content_type: text/plain}
    enabled: false
  - {rule_id: "1e3", limit: 0, window: 1h30m, identifier_type: ip, replaces: [everything]}
tiers: [{tier: free, default: true}, {tier: "no"}]
clients: [{identifier_type: [user_id, tenant], identifier: [eve, acme], tier: "no"}]
overrides: [{rule_id: "1e3", identifier_type: ip, identifier: "::1", limit: 7, starts_at: "2029-01-01T00:00:00Z", expires_at: "2030-01-01T00:00:00Z"}]
whitelist: [{identifier_type: ip, identifier: 10.0.0.0/8, reason: "- ours"}]
blacklist: [{identifier_type: api_key, identifier: "007"}]
"#;

#[test]
fn an_export_is_applied_without_changes() {
    for policy in [POLICY, "rules: []", "rules: []\ntiers: [{tier: free}]"] {
        let desk = TestServer::with(policy);
        let before = desk.policy();
        let check = |flags: &str, file: &str| {
            desk.tollgate(&format!("rules export {flags} -o {file}")).expect(0, &[]);
            let printed = desk.tollgate(&format!("rules export {flags}")).expect(0, &[]).stdout;
            assert_eq!(fs::read_to_string(desk.folder().join(file)).expect("a file"), printed);
            desk.tollgate(&format!("rules diff -f {file} --prune"))
                .expect(0, &["nothing to change"]);
            // Applied to another catalog, it makes both equal.
            let other = TestServer::with(&printed);
            assert_eq!(other.policy(), before);
        };
        check("", "policy.yaml");
        check("--format json", "policy.json");
        check("--json", "answer.json");
    }
}

/// B18: from a server with a rules file, fields were written in alphabetical order.
#[test]
fn fields_have_one_order_from_a_file_and_from_a_catalog() {
    let catalog = TestServer::with(POLICY);
    let from_catalog = catalog.tollgate("rules export").expect(0, &[]).stdout;
    // In the order of the catalog, so that nothing but fields can differ.
    let setup = Setup { rules: Some(&from_catalog), ..Setup::default() };
    let file = TestServer { server: Server::start(&setup) };
    assert_eq!(file.tollgate("rules export").expect(0, &[]).stdout, from_catalog);
    assert!(from_catalog.contains("- rule_id: everything\n    name:"), "{from_catalog}");
}

#[test]
fn the_policy_of_a_new_server_has_no_warnings() {
    let desk = TestServer::new();
    desk.tollgate("rules export -o policy.yaml").expect(0, &[]);
    desk.tollgate("rules lint --strict policy.yaml").expect(0, &["1 file: 0 errors, 0 warnings"]);
}

#[test]
fn failed_exports_say_why() {
    let desk = TestServer::new();
    desk.tollgate("rules export -o no/such/folder.yaml")
        .expect(2, &["cannot write no/such/folder.yaml: "]);
    desk.tollgate("rules export --format toml").expect(2, &["yaml, json"]);
    desk.tollgate("rules export --server http://127.0.0.1:1")
        .expect(2, &["cannot reach http://127.0.0.1:1"]);
}
