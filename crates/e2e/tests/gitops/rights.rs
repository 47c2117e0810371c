//! Permissions of `apply`: the server names the missing one, and a tenant changes only its own entries.

use crate::command::TestServer;

const BEGIN: &str = "\
rules:
  - {rule_id: everybody, limit: 5, window: 1m, identifier_type: user_id}
  - {rule_id: acme.old, tenant: acme, limit: 5, window: 1m, identifier_type: user_id}
  - {rule_id: other.own, tenant: other, limit: 5, window: 1m, identifier_type: user_id}
";

#[test]
fn the_missing_permission_is_named() {
    let desk = TestServer::with(BEGIN);
    desk.file("policy.yaml", "rules: []");
    let check = |role: &str, command: &str, code: i32, expected: &str| {
        let token = desk.token(role);
        desk.tollgate_as(&token, command).expect(code, &[expected]);
    };
    let no =
        "this call needs the role `operator`; the token is one of role `viewer` (right_missing)";
    check("viewer", "rules apply -f policy.yaml --prune --yes", 1, no);
    check("viewer", "rules diff -f policy.yaml", 2, no);
    check("viewer", "rules delete everybody --yes", 1, no);
    check(
        "caller",
        "rules export",
        1,
        "needs the role `viewer`; the token is one of role `caller`",
    );
    check(
        "operator",
        "tokens list",
        1,
        "needs the role `admin`; the token is one of role `operator`",
    );
    check("operator", "tokens create --role viewer", 1, "needs the role `admin`");
    check("operator", "tokens revoke x", 1, "needs the role `admin`");
    check("viewer", "rules export", 0, "rule_id: everybody");
    check("operator", "rules apply -f policy.yaml --yes", 0, "nothing to change");
    desk.tollgate_as("hush", "rules export")
        .expect(1, &["(wrong_token) (--token or TOLLGATE_TOKEN)"]);
    desk.tollgate_as("", "rules export")
        .expect(1, &["(token_required) (--token or TOLLGATE_TOKEN)"]);
    assert_eq!(desk.rules(), ["acme.old", "everybody", "other.own"]);
}

#[test]
fn the_token_may_be_in_a_file_or_with_the_server() {
    let desk = TestServer::with(BEGIN);
    let viewer = desk.token("viewer");
    desk.file("viewer.token", &format!("{viewer}\n"));
    desk.file("empty.token", "\n");
    // A token file overrides the environment.
    desk.tollgate_as("hush", "rules export --token-file viewer.token").expect(0, &["everybody"]);
    desk.tollgate("rules export --token-file empty.token").expect(2, &["empty.token: it is empty"]);
    desk.tollgate("rules export --token-file none").expect(2, &["cannot use --token-file none: "]);
    let mut command = desk.command_as("", "rules export");
    crate::command::run(command.env("TOLLGATE_ADMIN_TOKEN", &viewer)).expect(0, &["everybody"]);
}

#[test]
fn a_tenant_applies_only_its_own_entries() {
    let desk = TestServer::with(BEGIN);
    let token = desk.token("tenant-admin --tenant acme");
    let check = |policy: &str, flags: &str, code: i32, expected: &[&str], left: &[&str]| {
        desk.file("policy.yaml", policy);
        desk.tollgate_as(&token, &format!("rules apply -f policy.yaml --yes {flags}"))
            .expect(code, expected);
        assert_eq!(desk.rules(), left);
    };
    let own = |id: &str| {
        format!("{{rule_id: {id}, tenant: acme, limit: 1, window: 1m, identifier_type: user_id}}")
    };
    let both = format!("rules: [{}, {}]", own("acme.new"), own("acme.gone"));
    check(
        &both,
        "",
        0,
        &["+ rule acme.new", "2 created"],
        &["acme.gone", "acme.new", "acme.old", "everybody", "other.own"],
    );
    // A tenant prunes its own entries, and not those that operators wrote about it.
    let left = ["acme.new", "acme.old", "everybody", "other.own"];
    let new = format!("rules: [{}]", own("acme.new"));
    check(&new, "--prune", 0, &["- rule acme.gone", "1 deleted"], &left);
    check(
        &new.replace("acme.new", "acme.old"),
        "",
        1,
        &["belongs to operators", "(read_only)"],
        &left,
    );
    let everybody =
        "rules: [{rule_id: everybody, limit: 500, window: 1m, identifier_type: user_id}]";
    check(
        everybody,
        "",
        1,
        &["the rule everybody is not one of the tenant acme", "(other_tenant)"],
        &left,
    );
    let other = "rules: [{rule_id: other.own, tenant: acme, limit: 500, window: 1m, identifier_type: user_id}]";
    check(other, "", 1, &["(other_tenant)"], &left);
    let white = "whitelist: [{identifier_type: tenant, identifier: acme}]";
    check(white, "", 1, &["the whitelist lifts all limits"], &left);
    // A tenant can apply what it exports.
    let ran = desk.tollgate_as(&token, "rules export -o own.yaml").expect(0, &[]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    desk.tollgate_as(&token, "rules diff -f own.yaml --prune").expect(0, &["nothing to change"]);
    let own = std::fs::read_to_string(desk.folder().join("own.yaml")).expect("a file");
    assert!(own.contains("acme.new") && own.contains("acme.old"), "{own}");
    assert!(!own.contains("everybody"), "{own}");
}
