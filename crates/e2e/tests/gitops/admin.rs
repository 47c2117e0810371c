//! The admin API from the command line: `bans`, `lists`, `clients`, `users`, `audit`, `stats` and `decisions`.

use serde_json::{Value, json};

use crate::command::{Ran, TestServer, run};
use tollgate_e2e::until;

const POLICY: &str = "\
rules:
  - {rule_id: search, limit: 2, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: acme.own, tenant: acme, limit: 9, window: 1m, identifier_type: user_id}
  - {rule_id: login, limit: 0, window: 1h, identifier_type: ip,
     penalty: {after: 1, within_seconds: 600, ban_seconds: 600}}
tiers: [{tier: free, default: true}, {tier: pro}]
";

/// The ids of a command's words that hold spaces are given apart.
fn with(server: &TestServer, words: &str, more: &[&str]) -> Ran {
    run(server.command(words).args(more))
}

fn items(ran: &Ran, list: &str) -> Vec<Value> {
    ran.json()[list].as_array().unwrap_or_else(|| panic!("no {list} in {ran:?}")).clone()
}

/// Checks for a user or an address, so many times.
fn check(server: &TestServer, identifier: &str, value: &str, times: usize) -> Vec<Value> {
    let body = json!({"identifiers": {identifier: value}, "endpoint": "/orders", "method": "GET"});
    (0..times).map(|_| server.server.check(&body.to_string())).collect()
}

#[test]
fn clients_are_put_on_lists_and_taken_off() {
    let server = TestServer::with(POLICY);
    server.tollgate("lists list").expect(0, &["no client is on a list\n"]);
    server.tollgate("lists list deny").expect(0, &["no client is on the blacklist\n"]);
    let add =
        "lists add blacklist user_id=mallory --expires-at 2090-01-01T00:00:00Z --reason scraping";
    server
        .tollgate(&format!("{add} --dry-run"))
        .expect(0, &["+ blacklist user_id mallory\n", "1 to create"]);
    let trial = server.tollgate(&format!("{add} --dry-run --json")).expect(0, &[]).json();
    assert_eq!(
        (&trial["dry_run"], &trial["changes"][0]["action"]),
        (&json!(true), &json!("create"))
    );
    server
        .tollgate("lists show blacklist user_id=mallory")
        .expect(1, &["user_id mallory is not on the blacklist"]);
    server
        .tollgate(add)
        .expect(0, &["user_id mallory is on the blacklist until 2090-01-01T00:00:00Z\n"]);
    assert_eq!(check(&server, "user_id", "mallory", 1)[0]["allowed"], false);
    // The dashboard calls the lists so.
    server.tollgate("lists show deny user_id=mallory").expect(0, &["mallory"]);
    server
        .tollgate("lists add allow-list user_id=root --dry-run")
        .expect(0, &["+ whitelist user_id root\n"]);
    let added =
        server.tollgate("lists add whitelist ip=10.0.0.0/8 --expires-in 7d --json").expect(0, &[]);
    assert_eq!(added.json()["identifier"], "10.0.0.0/8");
    server
        .tollgate("lists add whitelist tenant=acme user_id=bob")
        .expect(0, &["tenant acme, user_id bob is on the whitelist\n"]);

    let listed = server.tollgate("lists list").expect(0, &["3 clients\n", " scraping "]);
    let lines: Vec<Vec<&str>> =
        listed.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["list", "client", "reason", "ends"]);
    assert!(
        lines.contains(&vec!["whitelist", "tenant", "acme,", "user_id", "bob", "never"]),
        "{listed:?}"
    );
    let both = server.tollgate("lists list --json").expect(0, &[]);
    assert_eq!((items(&both, "whitelist").len(), items(&both, "blacklist").len()), (2, 1));
    let one = server.tollgate("lists list whitelist --json").expect(0, &[]);
    assert_eq!((items(&one, "whitelist").len(), one.json().get("blacklist")), (2, None));
    server.tollgate("lists list --identifier-type ip").expect(0, &["1 client\n", "10.0.0.0/8"]);
    server.tollgate("lists list --tenant acme").expect(0, &["1 client\n", "user_id bob"]);
    let shown = server
        .tollgate("lists show blacklist user_id=mallory")
        .expect(0, &["reason", "scraping", "created_by", "admin"]);
    assert!(!shown.stdout.contains("bob"), "{shown:?}");
    let shown = server
        .tollgate("lists show whitelist tenant=acme user_id=bob --json")
        .expect(0, &[])
        .json();
    assert_eq!(shown["identifier"], json!(["acme", "bob"]));

    let remove = "lists remove blacklist user_id=mallory";
    server
        .tollgate(&format!("{remove} --dry-run"))
        .expect(0, &["- blacklist user_id mallory\n", "1 to delete"]);
    assert_eq!(
        server.tollgate(&format!("{remove} --json")).expect(0, &[]).json(),
        json!({"removed": true})
    );
    server.tollgate(remove).expect(1, &["(unknown_entry)"]);
    assert_eq!(check(&server, "user_id", "mallory", 1)[0]["allowed"], true);
    server
        .tollgate("lists remove whitelist tenant=acme user_id=bob")
        .expect(0, &["tenant acme, user_id bob is off the whitelist\n"]);
    // A secret is not repeated.
    let secret =
        server.tollgate("lists add blacklist api_key=sk_live_1").expect(0, &["api_key *** is on"]);
    assert!(!format!("{secret:?}").contains("sk_live_1"), "{secret:?}");
}

#[test]
fn clients_are_put_into_tiers_and_taken_out() {
    let server = TestServer::with(POLICY);
    server
        .tollgate("clients add tenant=acme --tier pro --dry-run")
        .expect(0, &["+ client tenant acme\n"]);
    server
        .tollgate("clients add tenant=acme --tier pro")
        .expect(0, &["tenant acme is in the tier pro\n"]);
    server
        .tollgate("clients add tenant=acme --tier gold")
        .expect(1, &["tier: there is no tier `gold`"]);
    server.tollgate("clients add user_id=ann --tier free --json").expect(0, &["\"tier\":\"free\""]);
    server.tollgate("clients list").expect(0, &["2 clients\n", " tenant acme  pro\n"]);
    let list = server.tollgate("clients list --tier pro --json").expect(0, &[]);
    assert_eq!(
        items(&list, "clients"),
        [json!({"identifier_type": "tenant", "identifier": "acme", "tier": "pro"})]
    );
    server
        .tollgate("clients list --identifier-type user_id")
        .expect(0, &["1 client\n", "user_id ann"]);
    server.tollgate("clients show tenant=acme").expect(0, &["tier", "pro", "created_at"]);
    server.tollgate("clients show tenant=other").expect(1, &["tenant other was put into no tier"]);
    server.tollgate("clients remove tenant=acme").expect(0, &["tenant acme is out of its tier\n"]);
    server.tollgate("clients remove tenant=acme").expect(1, &["(unknown_entry)"]);
}

#[test]
fn the_limits_of_a_user_are_shown_and_changed() {
    let server = TestServer::with(POLICY);
    check(&server, "user_id", "alice", 1);
    let shown = server
        .tollgate("users show alice")
        .expect(0, &["user alice\ntier free, by default\n", "2 / 300 d"]);
    assert!(
        shown.stdout.lines().any(|line| line.starts_with(" search     1  2 / 300 d ")),
        "{shown:?}"
    );
    server.tollgate("users set-tier alice --tier pro").expect(0, &["alice is in the tier pro\n"]);
    server
        .tollgate("users set-override alice --rule search --multiplier 2.5 --dry-run")
        .expect(0, &["+ override search user_id alice\n"]);
    server
        .tollgate("users set-override alice --rule search --limit 50 --window 1h --expires-in 7d")
        .expect(0, &["alice has an exception from search until 2"]);
    server.tollgate("users show alice").expect(0, &["tier pro\n", "50 / 1 h", "override"]);
    let shown = server
        .tollgate("users show alice --tenant acme --endpoint /x --method GET --json")
        .expect(0, &[])
        .json();
    assert_eq!(
        (&shown["limits"][0]["rule_id"], &shown["tier"]["from"]),
        (&json!("acme.own"), &json!("client"))
    );
    server
        .tollgate("users clear-override alice --rule search")
        .expect(0, &["the exception of alice from search was removed\n"]);
    server.tollgate("users clear-override alice --rule search").expect(1, &["(unknown_entry)"]);
    server.tollgate("users clear-tier alice --json").expect(0, &["{\"removed\":true}"]);
    server.tollgate("users clear-tier alice").expect(1, &["(unknown_entry)"]);
    server
        .tollgate("users set-override alice --rule none --limit 1")
        .expect(1, &["there is no rule `none`"]);
    // Names with slashes and spaces are one segment of the path.
    with(&server, "users set-tier --tier pro", &["a/b c"])
        .expect(0, &["a/b c is in the tier pro\n"]);
    with(&server, "users show", &["a/b c"]).expect(0, &["user a/b c\ntier pro\n"]);
}

#[test]
fn bans_are_listed_and_lifted() {
    let server = TestServer::with(POLICY);
    for address in ["203.0.113.8", "203.0.113.9", "203.0.113.10"] {
        check(&server, "ip", address, 1);
    }
    until("the bans", || {
        let list = server.tollgate("bans list --json").expect(0, &[]);
        (items(&list, "bans").len() == 3).then_some(())
    });
    server.tollgate("bans list --rule login").expect(0, &["3 bans\n", " login  203.0.113.9"]);
    server.tollgate("bans list --tenant acme").expect(0, &["0 bans\n"]);
    server.tollgate("bans lift --rule login 203.0.113.9").expect(0, &["1 ban lifted\n"]);
    server.tollgate("bans lift --rule login 203.0.113.9").expect(1, &["(unknown_ban)"]);
    server
        .tollgate("bans lift --rule login ip=203.0.113.8")
        .expect(1, &["give the value alone: 203.0.113.8"]);
    server
        .tollgate("decisions list --client ip=203.0.113.77")
        .expect(0, &["0 decisions\na decision is in the log about a second"]);
    // All of them are a question, which needs a terminal.
    server.tollgate("bans lift --rule login").expect(2, &["say --yes to go ahead"]);
    server.tollgate("bans lift --rule login --json").expect(2, &["say --yes with it"]);
    server.tollgate("bans lift").expect(2, &["--rule"]);
    server.tollgate("bans lift --tenant acme 203.0.113.8").expect(2, &["cannot be used with"]);
    assert_eq!(
        server.tollgate("bans lift --identifier-type ip --yes --json").expect(0, &[]).json(),
        json!({"lifted": 2})
    );
    server.tollgate("bans list").expect(0, &["0 bans\n"]);
    server.tollgate("bans lift --rule none --yes").expect(1, &["(unknown_rule)"]);
}

#[test]
fn changes_and_decisions_are_found() {
    let server = TestServer::with(POLICY);
    let decisions = check(&server, "user_id", "eve", 3);
    assert_eq!(decisions[2]["allowed"], false);
    let id = decisions[2]["decision_id"].as_str().expect("an id");
    let listed = until("the refusal", || {
        let list = server.tollgate("decisions list --client eve --result refused --since 1h");
        list.stdout.contains("1 decision\n").then_some(list)
    });
    listed.expect(0, &["refused, rate_limited  search  eve", id]);
    let wide = server.tollgate("decisions list --client user_id=eve --result refused --wide");
    wide.expect(0, &["refused, rate_limited  search  eve", "GET /orders", id]);
    server.tollgate("decisions list --client tenant=eve").expect(0, &["0 decisions\n"]);
    server.tollgate("audit --actor stranger").expect(1, &["no token has the id or the name"]);
    let list = server.tollgate("decisions list --rule search --until 1h --json").expect(0, &[]);
    assert_eq!(items(&list, "records"), [] as [Value; 0]);
    server
        .tollgate("decisions list --result nonsense")
        .expect(2, &["results are refused, denied,"]);
    server.tollgate("decisions list --result banned").expect(2, &["--result denied"]);
    for log in ["decisions list", "audit"] {
        let ran = server.tollgate(&format!("{log} --since 10m --until 20m"));
        ran.expect(2, &["--since", "is after --until"]);
    }
    let backwards = "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z";
    for log in ["/api/v1/audit", "/api/v1/audit/decisions"] {
        let answer = server.server.get_as_admin(&format!("{log}?{backwards}"));
        assert_eq!((answer.status, answer.code()), (400, "invalid_query".to_owned()), "{log}");
    }
    let cut = with(&server, "decisions show", &["d1f00dbee-a2…"]);
    cut.expect(2, &["this id is cut", "--wide"]);
    with(&server, "decisions show", &[""]).expect(2, &["write the id in the response"]);
    server.tollgate("decisions list --since yesterday").expect(2, &["or 2h for two hours ago"]);
    server.tollgate(&format!("decisions show {id}")).expect(0, &["refused ", "search"]);
    let shown = server.tollgate(&format!("decisions show {id} --json")).expect(0, &[]).json();
    assert_eq!(
        shown["answer"]["allowed"].as_bool().or_else(|| shown["allowed"].as_bool()),
        Some(false),
        "{shown}"
    );
    server.tollgate("decisions show d00000001-a1").expect(1, &["(unknown_decision)"]);
    server.tollgate("decisions top").expect(
        0,
        &["by client, the last 1 min", "refused\n", "tenant  rule\n", " 1  eve           search\n"],
    );
    let top = server.tollgate("decisions top --by rule --window 300 --json").expect(0, &[]).json();
    assert_eq!(top["refused"]["top"][0], json!({"name": "search", "count": 1}));
    server.tollgate("stats").expect(0, &["up for ", " refused ", " search "]);
    let stats = server.tollgate("stats --json").expect(0, &[]).json();
    assert_eq!((&stats["totals"]["requests"], &stats["totals"]["refused"]), (&json!(3), &json!(1)));

    server.tollgate("lists add whitelist user_id=eve").expect(0, &[]);
    server
        .tollgate("audit --kind whitelist")
        .expect(0, &["1 change\n", " create  whitelist  user_id eve\n", " admin "]);
    // As the table prints it, and as the log has it.
    for entry in ["user_id eve", r#"["user_id","eve"]"#] {
        let log = with(&server, "audit --kind whitelist --entry", &[entry]);
        log.expect(0, &["1 change\n", "user_id eve"]);
    }
    let log = server
        .tollgate("audit --kind rule --entry search --actor admin --since 1h --json")
        .expect(0, &[]);
    assert_eq!(items(&log, "records").len(), 1);
    let all = items(&server.tollgate("audit --json").expect(0, &[]), "records").len();
    assert!(all > 4, "{all} changes");
    // More than a page would have, and fewer than there are.
    let some = server.tollgate("audit --limit 3 --json").expect(0, &[]);
    assert_eq!(items(&some, "records").len(), 3);
    server.tollgate("audit --limit 0").expect(2, &["1..=1000000"]);
    server.tollgate("audit --kind nonsense").expect(1, &["`kind` is one of tier, rule"]);
}

#[test]
fn a_log_is_read_beyond_its_first_page() {
    let server = TestServer::with(POLICY);
    let rules = (0..600).map(|at| {
        json!({"rule_id": format!("r{at}"), "limit": 1, "window": "1m", "identifier_type": "tenant"})
    });
    server.file("many.json", &json!({"rules": rules.collect::<Vec<_>>()}).to_string());
    for words in ["rules apply -f many.json --yes", "rules apply -f begin.yaml --prune --yes"] {
        server.tollgate(words).expect(0, &[]);
    }
    let count = |limit: usize| {
        let log = server.tollgate(&format!("audit --kind rule --json --limit {limit}"));
        items(&log.expect(0, &[]), "records").len()
    };
    assert_eq!((count(1_100), count(1_000)), (1_100, 1_000));
    assert!(count(100_000) > 1_200);
}

#[test]
fn roles_and_tenants_are_those_of_the_api() {
    let server = TestServer::with(POLICY);
    let viewer = server.token("viewer");
    server.tollgate("lists add blacklist tenant=acme user_id=x").expect(0, &[]);
    server.tollgate("lists add blacklist user_id=y").expect(0, &[]);
    for words in [
        "lists list",
        "clients list",
        "bans list",
        "audit",
        "stats",
        "decisions list",
        "users show a",
    ] {
        server.tollgate_as(&viewer, words).expect(0, &[]);
        server.tollgate_as("hush", words).expect(1, &["(wrong_token) (--token or TOLLGATE_TOKEN)"]);
    }
    let no = "needs the role `operator`";
    for words in [
        "lists add blacklist user_id=z",
        "lists remove blacklist user_id=y",
        "clients add user_id=z --tier pro",
        "users set-tier z --tier pro",
        "bans lift --rule login --yes",
    ] {
        server.tollgate_as(&viewer, words).expect(1, &[no]);
    }
    let acme = server.token("tenant-admin --tenant acme");
    let own = server.tollgate_as(&acme, "lists list").expect(0, &["1 client\n", "user_id x"]);
    assert!(!own.stdout.contains("user_id y"), "{own:?}");
    server
        .tollgate_as(&acme, "lists add blacklist user_id=z")
        .expect(1, &["identifier_type `tenant`"]);
    server.tollgate_as(&acme, "lists add blacklist tenant=acme user_id=z").expect(0, &[]);
    let log = server.tollgate_as(&acme, "audit --json").expect(0, &[]);
    assert!(
        items(&log, "records").len() >= 2 && !log.stdout.contains("user_id\\\",\\\"y"),
        "{log:?}"
    );
    server.tollgate_as(&acme, "decisions list").expect(0, &["0 decisions\n"]);
    let stats = server.tollgate_as(&acme, "stats").expect(0, &["up for ", " acme.own "]);
    assert!(!stats.stdout.contains(" search ") && !stats.stdout.contains("allowed"), "{stats:?}");
    let mut nowhere = server.command("stats");
    run(nowhere.env("TOLLGATE_SERVER", "http://127.0.0.1:1")).expect(2, &["cannot reach"]);
}

#[test]
fn names_do_nothing_to_the_terminal() {
    const HOSTILE: &str = "a\u{1b}[2J\u{202e}\u{7}\nb";
    let server = TestServer::with(POLICY);
    let shown = "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}b";
    let client = format!("user_id={HOSTILE}");
    with(&server, "lists add blacklist --reason", &[HOSTILE, &client])
        .expect(0, &[&format!("user_id {shown} is on")]);
    with(&server, "clients add --tier pro", &[&client]).expect(0, &[shown]);
    check(&server, "user_id", HOSTILE, 1);
    until("the refusal", || {
        let list = server.tollgate("decisions list").expect(0, &[]);
        list.stdout.contains("1 decision\n").then_some(())
    });
    for (words, more) in [
        ("lists list", None),
        ("lists show blacklist", Some(&*client)),
        ("clients list", None),
        ("clients show", Some(&*client)),
        ("users show", Some(HOSTILE)),
        ("audit", None),
        ("decisions list", None),
        ("decisions top", None),
    ] {
        let ran = with(&server, words, more.as_slice()).expect(0, &[shown]);
        let is_safe = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(ran.stdout.chars().all(is_safe), "{words}: {ran:?}");
    }
}
