//! What all commands of the admin API have in common: help, JSON, exit codes, and what a tenant's token sees.

use serde_json::{Value, json};

use crate::command::{TestServer, line, run};
use tollgate_e2e::until;

const POLICY: &str = "\
rules:
  - {rule_id: search, limit: 2, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: acme.own, tenant: acme, limit: 1, window: 300d, identifier_type: user_id,
     penalty: {after: 1, within_seconds: 600, ban_seconds: 600}}
  - {rule_id: globex.own, tenant: globex, limit: 1, window: 300d, identifier_type: user_id,
     penalty: {after: 1, within_seconds: 600, ban_seconds: 600}}
tiers: [{tier: free, default: true}, {tier: pro}]
";

/// Every command that reads or writes, in an order in which all of them succeed.
const COMMANDS: &[&str] = &[
    "lists add blacklist user_id=zoe",
    "lists list",
    "lists list blacklist",
    "lists show blacklist user_id=zoe",
    "lists remove blacklist user_id=zoe",
    "clients add user_id=zoe --tier pro",
    "clients list",
    "clients show user_id=zoe",
    "clients remove user_id=zoe",
    "users show zoe",
    "users set-tier zoe --tier pro",
    "users clear-tier zoe",
    "users set-override zoe --rule search --limit 5",
    "users clear-override zoe --rule search",
    "overrides set user_id=zoe --rule search --limit 5",
    "overrides list",
    "overrides show user_id=zoe --rule search",
    "overrides remove user_id=zoe --rule search",
    "tiers list",
    "tiers set free pro --default free",
    "tiers add gold",
    "tiers remove gold",
    "keys list",
    "keys create --owner zoe",
    "bans list",
    "bans lift --rule acme.own --yes",
    "refund --user-id zoe",
    "reset --user-id zoe",
    "audit",
    "stats",
    "stats history",
    "nodes",
    "decisions list",
    "decisions top",
    "top --once",
];

fn check(server: &TestServer, user: &str, tenant: Option<&str>) -> Value {
    let identifiers = match tenant {
        Some(tenant) => json!({"user_id": user, "tenant": tenant}),
        None => json!({ "user_id": user }),
    };
    let body = json!({"identifiers": identifiers, "endpoint": "/orders", "method": "GET"});
    server.server.check(&body.to_string())
}

/// Refusals and bans of two tenants, and refusals of a client of none; with the ids of decisions that allowed and refused.
fn busy() -> (TestServer, [String; 2]) {
    let server = TestServer::with(POLICY);
    for _ in 0..3 {
        check(&server, "mallory", None);
        check(&server, "hank", Some("globex"));
    }
    let decisions = [(); 3].map(|()| check(&server, "wile", Some("acme")));
    let id = |at: usize| decisions[at]["decision_id"].as_str().expect("an id").to_owned();
    until("decisions and bans", || {
        let bans = server.tollgate("bans list").stdout;
        let log = server.tollgate("decisions list --result refused,denied").stdout;
        (bans.contains("2 bans\n") && log.contains("5 decisions\n")).then_some(())
    });
    (server, [id(0), id(1)])
}

#[test]
fn every_command_has_json_exit_codes_and_help() {
    let (server, [allowed, refused]) = busy();
    let caller = server.token("caller");
    let made = server.tollgate("keys create --json").expect(0, &[]).json();
    let key = made["key_id"].as_str().expect("an id");
    let with_ids = [
        format!("decisions show {refused}"),
        format!("decisions refund {allowed}"),
        format!("keys delete {key} --yes"),
    ];
    // Decisions are not kept for ever while the policy changes.
    for words in with_ids.iter().map(String::as_str).chain(COMMANDS.iter().copied()) {
        let printed = server.tollgate(&format!("{words} --json")).expect(0, &[]);
        assert!(printed.json().is_object() && printed.stderr.is_empty(), "{words}: {printed:?}");
        let refused = server.tollgate_as(&caller, &format!("{words} --json"));
        let refused = refused.expect(1, &["tollgate: ", "(right_missing)"]);
        assert!(refused.stdout.is_empty(), "{words}: {refused:?}");
        let mut nowhere = server.command(words);
        run(nowhere.env("TOLLGATE_SERVER", "http://127.0.0.1:1")).expect(2, &["cannot reach"]);
        server.tollgate(&format!("{words} --colour")).expect(2, &["--colour"]);
        let command = words.split(' ').take_while(|word| !word.starts_with("--"));
        const ALONE: &[&str] = &["audit", "nodes", "refund", "reset", "stats", "top"];
        let is_alone = ALONE.contains(&words.split(' ').next().unwrap_or_default());
        let depth = if is_alone && words != "stats history" { 1 } else { 2 };
        let command: Vec<&str> = command.take(depth).collect();
        let help =
            run(line(&command.join(" ")).arg("--help")).expect(0, &["--json", "--token-file"]);
        let help = help.stdout.replace('\n', " ");
        assert!(help.contains("The exit code is 0, 1 if the server refuses"), "{words}: {help}");
    }
}

/// A tenant-admin sees refusals, rankings, figures, bans and changes of its own tenant, and nothing of others.
#[test]
fn a_tenant_admin_sees_its_own_tenant() {
    let (server, _) = busy();
    server.tollgate("lists add blacklist tenant=acme user_id=x").expect(0, &[]);
    server.tollgate("lists add blacklist tenant=globex user_id=y").expect(0, &[]);
    let acme = server.token("tenant-admin --tenant acme");
    for (words, parts) in [
        (
            "decisions list --wide",
            &["2 decisions\n", " refused, rate_limited  acme.own  wile    acme    GET /orders "][..],
        ),
        ("decisions top", &["refused\n", " 2  wile  acme    acme.own\n", " 3  wile  acme\n"]),
        ("top --once", &["most refused", "wile  acme    acme.own\n"]),
        ("stats", &[" acme.own         1 "]),
        ("bans list", &["1 ban\n", " acme.own  wile    acme "]),
        ("lists list", &["1 client\n", "tenant acme, user_id x"]),
        ("audit", &["3 changes\n", " rule       acme.own\n", " ban        acme.own wile\n"]),
    ] {
        let text = server.tollgate_as(&acme, words).expect(0, parts);
        let printed = server.tollgate_as(&acme, &format!("{words} --json")).expect(0, &["acme"]);
        for (other, shown) in
            ["globex", "hank", "mallory"].iter().flat_map(|it| [(it, &text), (it, &printed)])
        {
            assert!(!shown.stdout.contains(other), "{words} shows {other}: {shown:?}");
        }
    }
    // The tenant of a query is its own, whatever it asks for.
    let other = server.tollgate_as(&acme, "decisions list --tenant globex --json").expect(0, &[]);
    assert!(!other.stdout.contains("hank"), "{other:?}");
    for words in
        ["clients list", "users show wile", "tokens list", "keys list", "tiers list", "nodes"]
    {
        server.tollgate_as(&acme, words).expect(1, &["the token is one of role `tenant-admin`"]);
    }
}

/// An option that was misspelt made the one that was meant look required.
#[test]
fn a_usage_line_has_no_option_that_is_only_guessed() {
    let server = TestServer::new();
    let ran = server.tollgate("decisions list --limt 5");
    let ran = ran.expect(2, &["'--limit'", "Usage: tollgate decisions list [OPTIONS]\n"]);
    assert!(!ran.stderr.contains("<N>"), "{ran:?}");
}
