//! Bans of one rule or tenant leave room for others: they have a share, are removed with their rule, and
//! are lifted together.

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_testbed::Postgres;

use super::{BANS, SETTINGS, count, get_banned, is_banned, listed, login, make_rule};
use tollgate_e2e::client::{Answer, request};
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

/// The most bans by rules of one tenant.
const MAX_BANS_PER_TENANT: u64 = 10_000;

fn start(catalog: &str) -> Server {
    let arguments = ["--catalog", catalog];
    Server::start(&Setup { settings: SETTINGS, arguments: &arguments, ..Setup::default() })
}

fn delete(server: &Server, path: &str) -> Answer {
    server.ask("DELETE", path, &[JSON, bearer_admin()], "")
}

/// A rule of a tenant that bans at once.
fn trap() -> Value {
    json!({
        "rule_id": "trap", "limit": 0, "window": "1h", "identifier_type": "attribute:x", "tenant": "acme",
        "penalty": {"after": 1, "within_seconds": 60, "ban_seconds": 31_622_400},
    })
}

#[test]
fn a_tenant_does_not_fill_the_table_of_all() {
    let folder = TempDir::new().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let server = start(&file);
    make_rule(&server, &login(2, 600));
    make_rule(&server, &trap());
    let mut connection = server.connect();
    let mut flood = |first: u64| {
        let check =
            |at| json!({"identifiers": {"tenant": "acme"}, "attributes": {"x": format!("c{at}")}});
        let checks: Vec<Value> = (first..first + 1_000).map(check).collect();
        let body = json!({ "checks": checks }).to_string();
        let path = "/api/v1/rate-limit/check/batch";
        let answer = connection.ask(&request("POST", path, &[JSON], body.as_bytes()));
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let mut first = 0;
    until("a tenant with all of its bans", || {
        flood(first);
        first += 1_000;
        (count(&server, "tollgate_bans_not_made_total") > 0).then_some(())
    });
    assert_eq!(count(&server, "tollgate_bans"), MAX_BANS_PER_TENANT);
    get_banned(&server, "ann", 2);
    // Deleting the rule removes them, also for nodes that start later.
    until("all in the catalog", || {
        let is_last = listed_of(&server, "login") == ["ann"];
        is_last.then_some(())
    });
    let deleted = delete(&server, "/api/v1/rules/trap");
    assert_eq!(deleted.status, 204, "{deleted:?}");
    until("one ban", || (count(&server, "tollgate_bans") == 1).then_some(()));
    drop(server);
    let server = start(&file);
    assert_eq!(count(&server, "tollgate_bans"), 1);
    assert!(is_banned(&server, "ann"));
}

fn listed_of(server: &Server, rule_id: &str) -> Vec<String> {
    let answer = server.get_as_admin(&format!("{BANS}?rule_id={rule_id}")).json();
    let bans = answer["bans"].as_array().expect("bans").clone();
    bans.iter().map(|ban| ban["identifier"].as_str().expect("a value").to_owned()).collect()
}

#[test]
fn bans_are_lifted_in_bulk_on_all_nodes() {
    let database = Postgres::start();
    let nodes = [0, 1].map(|_| start(&database.url()));
    make_rule(&nodes[0], &login(1, 600));
    let mut other = login(1, 600);
    other["rule_id"] = json!("other");
    make_rule(&nodes[0], &other);
    for client in ["ann", "bob"] {
        get_banned(&nodes[0], client, 1);
    }
    until("bans on both", || {
        let knows =
            |node: &Server| listed(node) == ["ann", "bob"] && count(node, "tollgate_bans") == 2;
        nodes.iter().all(knows).then_some(())
    });
    for (path, code) in [
        (BANS.to_owned(), 400),
        (format!("{BANS}?rule_id=nonsense"), 404),
        (format!("{BANS}?identifier_type=nonsense"), 400),
        (format!("{BANS}?rule_id=login&identifier=ann&tenant=acme"), 400),
        (format!("{BANS}?identifier=ann"), 400),
    ] {
        let answer = delete(&nodes[1], &path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (code, Some("application/problem+json")),
            "{path}"
        );
    }
    assert_eq!(
        delete(&nodes[1], &format!("{BANS}?identifier_type=ip")).json(),
        json!({"lifted": 0})
    );
    assert_eq!(delete(&nodes[1], &format!("{BANS}?rule_id=other")).json(), json!({"lifted": 0}));
    let lifted = delete(&nodes[1], &format!("{BANS}?rule_id=login"));
    assert_eq!((lifted.status, lifted.json()), (200, json!({"lifted": 2})));
    assert_eq!(listed(&nodes[1]), [""; 0]);
    until("no ban on both", || {
        nodes.iter().all(|node| count(node, "tollgate_bans") == 0).then_some(())
    });
    get_banned(&nodes[1], "eve", 1);
    until("a list", || (listed(&nodes[1]) == ["eve"]).then_some(()));
    let lifted = delete(&nodes[1], &format!("{BANS}?identifier_type=user_id"));
    assert_eq!((lifted.status, lifted.json()), (200, json!({"lifted": 1})));
    assert!(!is_banned(&nodes[1], "eve"));
}

/// A banned client once looked like one without any limits.
#[test]
fn limits_of_a_banned_user_are_listed_with_the_ban() {
    let folder = TempDir::new().expect("a folder");
    let server = start(&format!("sqlite:{}", folder.path().join("catalog.db").display()));
    make_rule(&server, &login(1, 600));
    let per_address = json!({
        "rule_id": "door", "limit": 0, "window": "1h", "identifier_type": "ip",
        "penalty": {"after": 1, "within_seconds": 60, "ban_seconds": 600},
    });
    make_rule(&server, &per_address);
    let limits = || server.get_as_admin("/api/v1/users/ann/limits").json();
    let before = limits();
    assert_eq!(before["banned"], Value::Null);
    get_banned(&server, "ann", 1);
    let banned = limits();
    let names = |answer: &Value| {
        let limits = answer["limits"].as_array().expect("limits").clone();
        limits.iter().map(|it| it["rule_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&banned), names(&before), "{banned}");
    assert!(names(&banned).contains(&json!("login")), "{banned}");
    let ban = &banned["banned"];
    assert_eq!(ban["rule_id"], "login", "{banned}");
    assert_eq!(ban["reason"], "refused once");
    let until_when = ban["until"].as_str().expect("an end").to_owned();
    let told = super::ask(&server, "ann");
    assert_eq!(told["because"], format!("banned until {until_when}"), "{told}");

    let check = r#"{"identifiers":{"ip":"127.0.0.1"}}"#;
    until("a ban", || (server.check(check)["reason"] == "banned").then_some(()));
    let status = server.get("/api/v1/rate-limits/status").json();
    assert_eq!((&status["denied"], &status["banned"]["rule_id"]), (&json!(true), &json!("door")));
    assert!(names(&status).contains(&json!("door")), "{status}");
}

#[test]
fn a_check_reports_lists_and_missing_identifiers() {
    let policy = json!({
        "rules": [{"rule_id": "keys", "limit": 9, "window": "1h", "identifier_type": "api_key",
                   "on_missing": "deny"}],
        "whitelist": [{"identifier_type": "user_id", "identifier": "root"}],
        "blacklist": [{"identifier_type": "user_id", "identifier": "foe", "reason": "secret"}],
    });
    let policy = policy.to_string();
    let server = Server::start(&Setup { rules: Some(&policy), ..Setup::default() });
    let because = |identifiers: Value| {
        server.check(&json!({ "identifiers": identifiers }).to_string())["because"].clone()
    };
    assert_eq!(because(json!({"user_id": "root"})), "the client is whitelisted");
    assert_eq!(because(json!({"user_id": "foe"})), "the client is blacklisted");
    assert_eq!(because(json!({"user_id": "ann"})), "it has no api_key");
    assert_eq!(because(json!({"api_key": "k"})), Value::Null);
}

/// A name of 1,000 quotes takes 2,000 bytes as JSON, more than the index of a database has room for.
#[test]
fn one_long_name_stopped_all_bans_from_being_kept() {
    let folder = TempDir::new().expect("a folder");
    let file = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let database = Postgres::start();
    for catalog in [file, database.url()] {
        let server = start(&catalog);
        make_rule(&server, &login(1, 600));
        let long = "\"".repeat(1_000);
        for client in [long.as_str(), "ann", "bob"] {
            get_banned(&server, client, 1);
        }
        until("all three in the catalog", || (listed(&server).len() == 3).then_some(()));
        let digest =
            listed(&server).into_iter().find(|it| it.starts_with("sha256:")).expect("a digest");
        drop(server);
        let server = start(&catalog);
        assert!(is_banned(&server, &long), "after a restart too");
        let path = format!("{BANS}?rule_id=login&identifier={digest}");
        assert_eq!(delete(&server, &path).status, 204);
        assert!(!is_banned(&server, &long));
        assert_eq!(count(&server, "tollgate_bans_not_kept_total"), 0);
    }
}
