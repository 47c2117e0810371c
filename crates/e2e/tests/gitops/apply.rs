//! `rules apply` shows the changes in files, applies them at once, and finds none the second time.

use serde_json::json;

use crate::command::TestServer;

const POLICY: &str = "\
# Who may do how much.
rules:
  - rule_id: per_user # by name
    limit: 5
    window: 1m
    identifier_type: user_id
  - {rule_id: login, limit: 3, window: 1m, identifier_type: ip, applies_to: {methods: [POST]}}
tiers:
  - {tier: free, default: true}
clients: [{identifier_type: user_id, identifier: eve, tier: free}]
overrides: [{rule_id: per_user, identifier_type: user_id, identifier: bob, multiplier: 2.5}]
blacklist: [{identifier_type: ip, identifier: 10.0.0.0/8, reason: test}]
";

#[test]
fn changes_are_shown_and_applied_once() {
    let desk = TestServer::new();
    desk.file("policy.yaml", POLICY);
    desk.tollgate("rules diff -f policy.yaml").expect(
        1,
        &[
            "+ rule per_user\n    + identifier_type: user_id\n    + limit: 5\n",
            "6 to create, 0 to update, 0 to delete",
        ],
    );
    // A diff changes nothing.
    desk.tollgate("rules apply -f policy.yaml --dry-run").expect(0, &["6 to create"]);
    assert!(!desk.rules().contains(&"per_user".to_owned()));
    let ran = desk.tollgate("rules apply -f policy.yaml --yes");
    ran.expect(
        0,
        &[
            "+ tier free\n    + default: true\n    + tier: free\n",
            "+ client user_id eve\n",
            "+ override per_user user_id bob\n",
            "    + multiplier: 2.5\n",
            "+ blacklist ip 10.0.0.0/8\n",
            "6 to create, 0 to update, 0 to delete\n",
            "revision 2: 6 created, 0 updated, 0 deleted\n",
        ],
    );
    assert!(desk.rules().contains(&"per_user".to_owned()));
    assert!(desk.rules().contains(&"default_login".to_owned()), "nothing was pruned");
    for command in [
        "rules apply -f policy.yaml --yes",
        "rules apply -f policy.yaml",
        "rules diff -f policy.yaml",
    ] {
        let ran = desk.tollgate(command).expect(0, &[]);
        assert_eq!(ran.stdout, "nothing to change (revision 2)\n", "{command}");
    }
}

#[test]
fn a_change_is_shown_field_by_field() {
    let desk = TestServer::with(POLICY);
    let other = POLICY
        .replace("limit: 5", "limit: 7")
        .replace("methods: [POST]", "methods: [POST, PUT], hosts: [a.example]")
        .replace(", reason: test", "");
    desk.file("policy.yaml", &other);
    let plan = "\
~ rule per_user
    ~ limit: 5 -> 7
~ rule login
    + applies_to.hosts: [\"a.example\"]
    ~ applies_to.methods: [\"POST\"] -> [\"POST\",\"PUT\"]
~ blacklist ip 10.0.0.0/8
    - reason: test

0 to create, 3 to update, 0 to delete
";
    let ran = desk.tollgate("rules diff -f policy.yaml").expect(1, &[]);
    assert_eq!(ran.stdout, plan);
    let ran = desk.tollgate("rules apply -f policy.yaml --yes").expect(0, &[]);
    assert_eq!(ran.stdout, format!("{plan}revision 3: 0 created, 3 updated, 0 deleted\n"));
}

#[test]
fn programs_get_json() {
    let desk = TestServer::with(POLICY);
    let other = POLICY.replace("limit: 5", "limit: 7");
    desk.file("policy.yaml", &other);
    let diff = desk.tollgate("rules diff -f policy.yaml --json").expect(1, &[]).json();
    assert_eq!(diff["dry_run"], true);
    assert_eq!(diff["revision"], 2);
    assert_eq!(diff["changes"][0]["entry"], "per_user");
    assert_eq!(diff["changes"][0]["was"]["limit"], 5);
    assert_eq!(diff["changes"][0]["becomes"]["limit"], 7);
    desk.tollgate("rules apply -f policy.yaml --json")
        .expect(2, &["say --yes or --dry-run with it"]);
    let looked = desk.tollgate("rules apply -f policy.yaml --json --dry-run").expect(0, &[]).json();
    assert_eq!(looked, diff);
    let done = desk.tollgate("rules apply -f policy.yaml --json --yes").expect(0, &[]).json();
    assert_eq!((&done["revision"], &done["dry_run"]), (&json!(3), &json!(null)));
    let again = desk.tollgate("rules apply -f policy.yaml --json --yes").expect(0, &[]).json();
    assert_eq!(again["changes"], json!([]));
}

#[test]
fn all_changes_are_made_or_none() {
    let desk = TestServer::with(POLICY);
    let before = desk.policy();
    // A client is still in the tier, so the list does not change either.
    let listed = "blacklist: [{identifier_type: ip, identifier: 192.0.2.1}]";
    desk.file("other.yaml", &format!("tiers: [{{tier: pro}}]\n{listed}"));
    desk.tollgate("rules apply -f other.yaml --prune --yes")
        .expect(1, &["1 client is in the tier free", "(still_in_use)"]);
    assert_eq!(desk.policy(), before);
    // Nor is the last tier removed while it is used.
    desk.file("none.yaml", "tiers: []\n");
    desk.tollgate("rules apply -f none.yaml --prune --yes")
        .expect(1, &["1 client is in the tier free: ", "(still_in_use)"]);
    assert_eq!(desk.policy(), before);
}

#[test]
fn without_a_terminal_apply_needs_yes() {
    let desk = TestServer::new();
    desk.file("policy.yaml", POLICY);
    let before = desk.policy();
    desk.tollgate("rules apply -f policy.yaml")
        .expect(2, &["6 to create", "not a terminal; say --yes"]);
    assert_eq!(desk.policy(), before);
}

#[test]
fn a_server_with_rules_in_a_file_is_not_changed() {
    let desk = TestServer { server: tollgate_e2e::server::Server::with_rules(POLICY) };
    desk.file("other.yaml", "rules: []");
    desk.tollgate("rules apply -f other.yaml --yes")
        .expect(1, &["change that file", "(rules_from_file)"]);
    desk.tollgate("rules diff -f other.yaml").expect(2, &["(rules_from_file)"]);
    // Like every command that lists something.
    for command in ["rules history", "audit", "decisions list"] {
        desk.tollgate(command).expect(1, &["the rules come from "]);
    }
}

/// The server keeps digests of API keys; a repository may have keys or digests.
#[test]
fn api_keys_in_a_repository_are_compared_by_their_digests() {
    let desk = TestServer::new();
    desk.file(
        "policy.yaml",
        "
clients: [{identifier_type: api_key, identifier: sk_live_1, tier: pro}]
blacklist: [{identifier_type: [tenant, api_key], identifier: [acme, sk_live_2], reason: leaked}]
",
    );
    desk.tollgate("rules apply -f policy.yaml --yes").expect(0, &["2 created"]);
    desk.tollgate("rules diff -f policy.yaml").expect(0, &["nothing to change"]);
    desk.tollgate("rules export -o own.yaml").expect(0, &[]);
    let own = std::fs::read_to_string(desk.folder().join("own.yaml")).expect("a file");
    assert!(own.contains("sha256:") && !own.contains("sk_live"), "{own}");
    desk.tollgate("rules diff -f own.yaml --prune").expect(0, &["nothing to change"]);
    desk.tollgate("rules apply -f own.yaml --prune --yes").expect(0, &["nothing to change"]);
}
