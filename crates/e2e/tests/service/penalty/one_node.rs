//! One node: a ban is reported by every entry point, listed, lifted, and ends; with a catalog it
//! outlives the process.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    BANS, SETTINGS, ask, count, get_banned, is_banned, lift, listed, login, make_rule, reason,
};
use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, request};
use tollgate_e2e::server::{AUTHORIZE, JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

fn start() -> Server {
    Server::start(&Setup { settings: SETTINGS, ..Setup::default() })
}

/// A rule in a file, not in a catalog.
fn start_with_file(rule: &Value) -> Server {
    let rules = json!({ "rules": [rule] }).to_string();
    Server::start(&Setup { rules: Some(&rules), settings: SETTINGS, ..Setup::default() })
}

#[test]
fn a_ban_is_reported_listed_and_lifted() {
    let by_file = start_with_file(&login(3, 600));
    let by_catalog = start();
    make_rule(&by_catalog, &login(3, 600));
    for server in [&by_catalog, &by_file] {
        get_banned(server, "ann", 3);
        let answer = ask(server, "ann");
        assert_eq!((&answer["allowed"], &answer["rule_id"]), (&json!(false), &json!("login")));
        let wait = answer["retry_after"].as_u64().expect("a wait");
        assert!((590..=600).contains(&wait), "{answer}");
        assert_eq!(reason(server, "bob"), "", "others are not concerned");

        until("a list", || (listed(server) == ["ann"]).then_some(()));
        let bans = server.get_as_admin("/admin/api/v1/rate-limits/bans?rule_id=login").json();
        let ban = &bans["bans"][0];
        assert_eq!((&ban["rule_id"], &ban["identifier"]), (&json!("login"), &json!("ann")));
        assert!(ban["expires_at"].as_str().is_some_and(|end| end.ends_with('Z')), "{bans}");
        let others = server.get_as_admin(&format!("{BANS}?rule_id=other")).json();
        assert_eq!(others["bans"], json!([]));
        assert_eq!(count(server, "tollgate_bans"), 1);
        assert_eq!(count(server, "tollgate_bans_made_total"), 1);
        assert_eq!(count(server, "tollgate_bans_not_made_total"), 0);

        let decision = ask(server, "ann")["decision_id"].as_str().expect("an id").to_owned();
        let told = server.get_as_admin(&format!("/api/v1/decisions/{decision}")).json();
        let because = told["because"].as_str().expect("a reason");
        assert!(because.starts_with("rule login has banned the client until "), "{because}");
        assert!(because.contains(" by penalty, which follows 3 refusals within "), "{because}");

        assert_eq!(lift(server, "ann").status, 204);
        assert_eq!(reason(server, "ann"), "rate_limited", "at once");
        let again = lift(server, "ann");
        assert_eq!((again.status, again.code().as_str()), (404, "unknown_ban"));
        assert_eq!(listed(server), [""; 0]);
        // It takes as many refusals as before: those that led to the ban are forgotten.
        assert_eq!(reason(server, "ann"), "rate_limited");
        assert!(!is_banned(server, "ann"));
        assert_eq!(reason(server, "ann"), "rate_limited");
        until("another ban", || is_banned(server, "ann").then_some(()));
    }
}

/// Statistics counted them as denied, and the log as refused: `--result denied` found none.
#[test]
fn requests_of_banned_clients_are_denied_in_figures_and_in_the_log() {
    let server = start();
    make_rule(&server, &login(2, 600));
    get_banned(&server, "ann", 2);
    for _ in 0..2 {
        assert_eq!(reason(&server, "ann"), "banned");
    }
    let logged = |action: &str| {
        let path = format!("/api/v1/audit/decisions?action={action}");
        let records = server.get_as_admin(&path).json()["records"].clone();
        let reasons = records.as_array().expect("records").iter();
        reasons.map(|it| it["reason"].as_str().expect("a reason").to_owned()).collect::<Vec<_>>()
    };
    let totals = server.get_as_admin("/api/v1/stats").json()["totals"].clone();
    let figure = |name: &str| {
        usize::try_from(totals[name].as_u64().expect("a figure")).expect("a small one")
    };
    assert_eq!((figure("denied"), figure("refused")), (2, 2), "{totals}");
    until("the log", || {
        let all = figure("denied") + figure("refused");
        (logged("refused,denied").len() == all).then_some(())
    });
    assert_eq!(logged("denied"), vec!["banned"; figure("denied")]);
    assert_eq!(logged("refused"), vec!["rate_limited"; figure("refused")]);
}

#[test]
fn a_reset_lifts_the_ban_of_that_client() {
    let server = start();
    make_rule(&server, &login(2, 600));
    for client in ["ann", "bob"] {
        get_banned(&server, client, 2);
    }
    until("a list", || (listed(&server) == ["ann", "bob"]).then_some(()));
    let check = json!({"rule_id": "login", "key_type": "user", "key_value": "ann"}).to_string();
    let reset = server.post_as_admin("/api/v1/rate-limit/reset", &check);
    assert_eq!((reset.status, reset.json()), (200, json!({"counters": 1})), "{reset:?}");
    assert_eq!((reason(&server, "ann").as_str(), is_banned(&server, "bob")), ("", true));
    assert_eq!(listed(&server), ["bob"]);
    let log = server.get_as_admin("/api/v1/audit?kind=ban&limit=10").text();
    for actor in ["\"penalty\"", "\"admin\""] {
        assert!(log.contains(actor), "no {actor} in {log}");
    }
}

#[test]
fn a_ban_is_reported_by_every_entry_point() {
    let rule = json!({
        "rule_id": "door", "limit": 0, "window": "1h", "identifier_type": "ip",
        "penalty": {"after": 1, "within_seconds": 600, "ban_seconds": 600},
    });
    let server = start_with_file(&rule);
    let check = r#"{"identifiers":{"ip":"127.0.0.1"}}"#;
    assert_eq!(server.check(check)["reason"], "rate_limited");
    until("a ban", || (server.check(check)["reason"] == "banned").then_some(()));

    let proxied = server.ask("GET", AUTHORIZE, &[("X-Original-URI", "/")], "");
    assert_eq!(proxied.status, 429, "{proxied:?}");
    let wait: u64 = proxied.header("retry-after").and_then(|it| it.parse().ok()).expect("a wait");
    assert!((590..=600).contains(&wait), "{proxied:?}");
    assert_eq!(proxied.header("x-tollgate-rule"), Some("door"));
    let body = proxied.json();
    assert_eq!(body["error"]["code"], "CLIENT_BANNED");
    assert_eq!(body["error"]["rule_id"], "door");
    assert_eq!(body["error"]["retry_after"].as_u64(), Some(wait));

    let mut client = Client::of(&server);
    let called = client.call(CHECK_RATE_LIMIT, &json!({"identifiers": {"ip": "127.0.0.1"}}));
    assert_eq!((&called["allowed"], &called["reason"]), (&json!(false), &json!("banned")));
    assert_eq!(called["rule_id"], "door");
    let envoy = client.should_rate_limit(&request("any", &[&["remote_address=127.0.0.1"]]));
    assert_eq!(envoy["overall_code"], "OVER_LIMIT", "{envoy}");
    let by_json = json!({
        "domain": "any",
        "descriptors": [{"entries": [{"key": "remote_address", "value": "127.0.0.1"}]}],
    });
    assert_eq!(server.post("/json", &by_json.to_string()).status, 429);
    let batch = server.post("/api/v1/rate-limit/check/batch", &format!("{{\"checks\":[{check}]}}"));
    assert_eq!(batch.json()["results"][0]["reason"], "banned");

    let explained = server.post("/api/v1/rate-limit/explain", check).json();
    assert_eq!(explained["would_pass"], false, "{explained}");
    assert_eq!(explained["binding"], "door");
    let because = explained["rules"][0]["because"].as_str().expect("a reason");
    assert!(because.contains("banned until ") && because.ends_with(" by penalty"), "{because}");
}

#[test]
fn a_ban_ends_by_itself_and_leaves_the_catalog() {
    let server = start();
    make_rule(&server, &login(2, 1));
    get_banned(&server, "ann", 2);
    until("its end", || (!is_banned(&server, "ann")).then_some(()));
    until("an empty catalog", || {
        let log = server.get_as_admin("/api/v1/audit?kind=ban&limit=10").text();
        log.contains("delete").then_some(())
    });
    assert_eq!(listed(&server), [""; 0]);
    until("figures", || (count(&server, "tollgate_bans") == 0).then_some(()));
}

#[test]
fn a_restart_keeps_bans_of_a_catalog() {
    let folder = TempDir::new().expect("a folder");
    let catalog = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let arguments = ["--catalog", catalog.as_str()];
    let setup = Setup { settings: SETTINGS, arguments: &arguments, ..Setup::default() };
    let mut server = Server::start(&setup);
    make_rule(&server, &login(2, 600));
    get_banned(&server, "ann", 2);
    until("a list", || (listed(&server) == ["ann"]).then_some(()));
    server.process.signal("KILL");
    server.process.end();
    let server = Server::start(&setup);
    assert!(is_banned(&server, "ann"));
    assert_eq!(lift(&server, "ann").status, 204);
    assert!(!is_banned(&server, "ann"));
}

#[test]
fn secrets_are_listed_as_digests_and_lifted_either_way() {
    let server = start();
    let mut rule = login(1, 600);
    rule["identifier_type"] = json!("api_key");
    make_rule(&server, &rule);
    let check = r#"{"rule_id":"login","key_type":"api_key","key_value":"hunter2"}"#;
    let digest = "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    for named in ["hunter2", digest] {
        until("a ban", || (server.check(check)["reason"] == "banned").then_some(()));
        until("a list", || (listed(&server) == [digest]).then_some(()));
        let log = server.get_as_admin("/api/v1/audit?kind=ban&limit=10").text();
        assert!(!log.contains("hunter2"), "{log}");
        assert_eq!(lift(&server, named).status, 204, "{named}");
        assert_eq!(server.check(check)["reason"], "rate_limited");
    }
}

#[test]
fn errors_of_bad_calls_say_what_would_be_right() {
    let server = start();
    make_rule(&server, &login(1, 600));
    for (query, status, words) in [
        ("", 400, "name what to lift"),
        ("?identifier=a", 400, "`rule_id` is missing"),
        ("?rule_id=gone", 404, "there is no such rule"),
        (
            "?rule_id=login&identifier=a&identifier=b",
            400,
            "2 values, but the rule counts by user_id",
        ),
        ("?rule_id=login&rule_id=x&identifier=a", 400, "twice"),
        ("?rule_id=login&identifier=a&x=1", 400, "there is no parameter `x`"),
        ("?rule_id=login&identifier=unknown", 404, "there is no such ban"),
        ("?rule_id=gone&identifier=unknown", 404, "there is no such ban"),
    ] {
        let answer = server.ask("DELETE", &format!("{BANS}{query}"), &[bearer_admin()], "");
        assert_eq!(answer.status, status, "{query}: {answer:?}");
        assert!(answer.text().contains(words), "{query}: {answer:?}");
        assert!(!answer.code().is_empty());
    }
}

#[test]
fn tenant_admins_lift_bans_of_their_own_rules_only() {
    let server = start();
    let body = json!({"role": "tenant-admin", "tenant": "acme"}).to_string();
    let token = server.post_as_admin("/api/v1/tokens", &body).json()["token"].clone();
    let bearer = format!("Bearer {}", token.as_str().expect("a token"));
    let headers = [JSON, ("Authorization", bearer.as_str())];
    let rules = [("login", None), ("shop", Some("acme")), ("acme.shop", Some("acme"))];
    for (rule_id, tenant) in rules {
        let mut rule = login(1, 600);
        rule["rule_id"] = json!(rule_id);
        rule["tenant"] = json!(tenant);
        if rule_id == "acme.shop" {
            let made = server.ask("POST", "/api/v1/rules", &headers, &rule.to_string());
            assert_eq!(made.status, 201, "{made:?}");
        } else {
            make_rule(&server, &rule);
        }
        let body = json!({"rule_id": rule_id, "key_type": "user", "key_value": "ann"}).to_string();
        until("a ban", || (server.check(&body)["reason"] == "banned").then_some(()));
    }
    until("a list", || (listed(&server).len() == 3).then_some(()));
    let call =
        |method: &str, query: &str| server.ask(method, &format!("{BANS}{query}"), &headers, "");
    let seen = call("GET", "").json();
    assert_eq!(seen["bans"].as_array().map(Vec::len), Some(2), "{seen}");
    assert_eq!(
        (&seen["bans"][0]["rule_id"], &seen["bans"][1]["rule_id"]),
        (&json!("acme.shop"), &json!("shop"))
    );
    assert_eq!(call("DELETE", "?rule_id=login&identifier=ann").status, 404);
    assert_eq!(call("DELETE", "?rule_id=gone&identifier=ann").status, 404);
    // Bans by rules of operators stay.
    let kept = call("DELETE", "?rule_id=shop&identifier=ann");
    assert_eq!((kept.status, kept.code().as_str()), (403, "read_only"), "{kept:?}");
    assert_eq!(call("DELETE", "?rule_id=acme.shop&identifier=ann").status, 204);
    assert_eq!(listed(&server), ["ann", "ann"]);
    for (query, status) in [("?rule_id=login", 404), ("?rule_id=gone", 404), ("?rule_id=shop", 403)]
    {
        assert_eq!(call("DELETE", query).status, status, "{query}");
    }
    assert_eq!(call("DELETE", "?tenant=other").json(), json!({"lifted": 0}));
    let body = json!({"rule_id": "acme.shop", "key_type": "user", "key_value": "ann"}).to_string();
    until("a ban", || (server.check(&body)["reason"] == "banned").then_some(()));
    until("a list", || (listed(&server).len() == 3).then_some(()));
    assert_eq!(call("DELETE", "?identifier_type=user_id").json(), json!({"lifted": 1}));
    assert_eq!(listed(&server), ["ann", "ann"], "bans by rules of operators stay");
}
