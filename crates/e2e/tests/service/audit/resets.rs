//! Resets of counters are in the audit log: by whom, from where, and what was left before.

use serde_json::{Value, json};
use tollgate_catalog::{AuditFilter, AuditKind};
use tollgate_testbed::Postgres;

use super::{OFTEN, brief, call, catalog, check, put_policy, records, rule, start, wait_for};
use tollgate_e2e::client::Answer;
use tollgate_e2e::grpc::{Client, RESET_LIMIT};
use tollgate_e2e::server::{ADMIN_TOKEN, JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;

const RESET: &str = "/api/v1/rate-limit/reset";
const RESETS: &str = "/api/v1/audit?kind=counters";
const SECRET: &str = "sk_live_ossifrage";

/// A server whose catalog is in a database.
fn start_with(database: &Postgres) -> Server {
    let url = database.url();
    let arguments = ["--catalog", url.as_str()];
    Server::start(&Setup { settings: OFTEN, arguments: &arguments, ..Setup::default() })
}

fn reset(server: &Server, body: &Value) -> Answer {
    let answer = server.post_as_admin(RESET, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// The resets in the log, once there are so many. They are written in the background.
fn resets(server: &Server, count: usize) -> Vec<Value> {
    until("records of resets", || {
        let found = records(server, RESETS);
        (found.len() >= count).then_some(found)
    })
}

fn ann() -> Value {
    json!({"identifiers": {"user_id": "ann"}})
}

/// How every catalog logs resets.
fn check_resets(server: &Server) {
    let by_key =
        json!({"rule_id": "keys", "limit": 7, "window": "300d", "identifier_type": "api_key"});
    put_policy(server, &json!({"rules": [rule("r", 5), rule("s", 9), by_key]}));
    let (changes, policy) =
        (records(server, "/api/v1/audit"), server.get_as_admin("/api/v1/policy"));

    check(server, "ann", 3);
    assert_eq!(reset(server, &ann()).json(), json!({"counters": 2}));
    check(server, "ann", 1);
    reset(server, &json!({"rule_id": "s", "key_type": "user", "key_value": "ann"}));
    reset(server, &json!({"identifiers": {"api_key": SECRET}}));
    let mut client = Client::of(server);
    client.try_call_as(ADMIN_TOKEN, RESET_LIMIT, &ann()).expect("forgotten");
    // Without identifiers there is no counter.
    assert_eq!(reset(server, &json!({})).json(), json!({"counters": 0}));

    let log = resets(server, 6);
    let of = |user: &str, rule_id: &str| format!(r#"["{rule_id}","user_id","{user}"]"#);
    let name = |record: &Value| record["entry"].as_str().expect("a name").to_owned();
    // Of one reset, the rules are in any order.
    let mut last = [name(&log[0]), name(&log[1])];
    last.sort_unstable();
    assert_eq!(last, [of("ann", "r"), of("ann", "s")]);
    assert!(name(&log[2]).starts_with(r#"["keys","api_key","sha256:"#), "{log:?}");
    assert_eq!(name(&log[3]), of("ann", "s"));
    let fields = ["kind", "action", "actor", "role", "address"];
    assert_eq!(brief(&log, &fields), ["counters reset admin admin 127.0.0.1"; 6]);
    let left = |record: &Value| {
        let (was, becomes) = (&record["was"], &record["becomes"]);
        assert_eq!(was["identifiers"], becomes["identifiers"]);
        format!("{} {}-{}", was["rule_id"], was["remaining"], becomes["remaining"])
    };
    let mut left: Vec<String> = log.iter().map(left).collect();
    left.sort_unstable();
    // By gRPC, `s` was reset already.
    let expected =
        [r#""keys" 7-7"#, r#""r" 2-5"#, r#""r" 4-5"#, r#""s" 6-9"#, r#""s" 8-9"#, r#""s" 9-9"#];
    assert_eq!(left, expected);
    assert_eq!(log[3]["was"]["identifiers"], json!({"user_id": "ann"}));

    let entry = format!("{RESETS}&entry=%5B%22s%22,%22user_id%22,%22ann%22%5D");
    assert_eq!(records(server, &entry).len(), 3);
    let unknown = server.get_as_admin(&format!("{RESETS}&actor=unknown"));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_actor"), "{unknown:?}");
    // Page by page, and among changes, it is the same log.
    let all = records(server, "/api/v1/audit");
    assert_eq!(all, [log.clone(), changes].concat());
    let headers = [("Accept", "application/x-ndjson"), bearer_admin()];
    let export = server.ask("GET", "/api/v1/audit", &headers, "").text();
    let lines: Vec<Value> =
        export.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!(lines, all);
    assert!(!export.contains(SECRET), "{export}");
    // A reset does not change the revision of the catalog.
    let after = server.get_as_admin("/api/v1/policy");
    assert_eq!(after.header("etag"), policy.header("etag"));
    assert!(log.iter().all(|record| record["revision"] == all[6]["revision"]), "{log:?}");
}

#[test]
fn resets_are_in_the_log_of_a_file() {
    check_resets(&start("{}", &json!({"rules": []})));
}

#[test]
fn resets_are_in_the_log_of_a_database() {
    let database = Postgres::start();
    check_resets(&start_with(&database));
}

#[test]
fn a_tenant_sees_resets_under_its_own_rules() {
    let own = json!({"rule_id": "own", "limit": 1, "window": "300d", "identifier_type": "user_id", "tenant": "acme"});
    let server = start("{}", &json!({"rules": [own, rule("other", 1)]}));
    let made =
        call(&server, "POST", "/api/v1/tokens", r#"{"role": "tenant-admin", "tenant": "acme"}"#);
    let bearer = format!("Bearer {}", made.json()["token"].as_str().expect("a token"));
    let headers = [("Authorization", bearer.as_str()), JSON];
    let body = json!({"identifiers": {"user_id": "ann", "tenant": "acme"}});
    assert_eq!(server.ask("POST", RESET, &headers, &body.to_string()).status, 403);
    reset(&server, &body);
    assert_eq!(resets(&server, 2).len(), 2);
    let seen = server.ask("GET", RESETS, &headers, "").json();
    let seen = brief(seen["records"].as_array().expect("records"), &["entry"]);
    assert_eq!(seen, [r#"["own","user_id","ann"]"#]);
}

#[test]
fn a_reset_does_not_wait_for_an_unavailable_catalog() {
    let database = Postgres::start();
    let mut server = start_with(&database);
    put_policy(&server, &json!({"rules": [rule("r", 5)]}));
    check(&server, "ann", 5);
    database.kill();
    assert_eq!(reset(&server, &ann()).json(), json!({"counters": 1}));
    check(&server, "ann", 5);
    server.process.until("word that it cannot be written", |process| {
        process.errors().contains("resets cannot be written to the log").then_some(())
    });
    database.restart();
    let log = until("the reset", || {
        let answer = server.get_as_admin(RESETS);
        let records = answer.json()["records"].as_array().cloned().unwrap_or_default();
        (!records.is_empty()).then_some(records)
    });
    assert_eq!(log.len(), 1);
    assert_eq!(
        (&log[0]["was"]["remaining"], &log[0]["becomes"]["remaining"]),
        (&json!(0), &json!(5))
    );
    server.process.until("word that it is written", |process| {
        process.errors().contains("resets are written to the log again").then_some(())
    });
}

#[test]
fn a_reset_that_cannot_be_logged_is_reported() {
    let database = Postgres::start();
    let mut server = start_with(&database);
    put_policy(&server, &json!({"rules": [rule("r", 5), rule("s", 5)]}));
    database.kill();
    assert_eq!(reset(&server, &ann()).json(), json!({"counters": 0}));
    server.process.signal("TERM");
    server.process.end();
    let errors = server.process.errors();
    let line = errors.lines().find(|line| line.contains("resets are missing in the log"));
    assert!(line.is_some_and(|line| line.contains("missing=2")), "{errors}");
}

/// Resets that wait for the log at shutdown are written, as decisions are.
#[test]
fn a_reset_just_before_shutdown_is_logged() {
    let mut server = start("{}", &json!({"rules": [rule("r", 5)]}));
    reset(&server, &ann());
    server.process.signal("TERM");
    assert!(server.process.end().success());
    let filter = AuditFilter { kind: Some(AuditKind::Counters), ..AuditFilter::default() };
    let log = wait_for(catalog(server.folder()).audit(&filter, None, 9)).expect("a log");
    assert_eq!(log.len(), 1);
}

#[test]
fn without_a_catalog_resets_are_log_lines() {
    let mut server = Server::with_rules(
        "rules: [{rule_id: r, limit: 5, window: 300d, identifier_type: user_id}]",
    );
    reset(&server, &ann());
    let line = server.process.until("a line about it", |process| {
        let all = process.errors() + &process.output();
        all.lines().find(|line| line.contains("counters were reset")).map(str::to_owned)
    });
    assert!(line.contains("admin") && line.contains("127.0.0.1"), "{line}");
    assert!(line.contains("rules=\"r\""), "the rule used to be missing: {line}");
    assert!(!line.contains("ann"), "{line}");
}

/// What a refund gave back, to which rule, and who made it.
#[test]
fn refunds_are_logged_with_what_was_given_back() {
    const REFUND: &str = "/api/v1/rate-limit/refund";
    let server = start("{}", &json!({"rules": [rule("r", 5), rule("s", 9)]}));
    let decision = server.check(r#"{"identifiers":{"user_id":"ann"},"cost":3}"#);
    let id = decision["decision_id"].as_str().expect("an id");
    let body = json!({ "decision_id": id }).to_string();
    assert_eq!(server.post_as_admin(REFUND, &body).status, 200);
    // A refund that was not made is not logged.
    assert_eq!(server.post_as_admin(REFUND, &body).status, 409);
    let log = resets(&server, 2);
    let fields = ["kind", "action", "actor", "role", "address"];
    assert_eq!(brief(&log, &fields), ["counters refund admin admin 127.0.0.1"; 2]);
    for record in &log {
        let rule_id = &record["becomes"]["rule_id"];
        let expected = json!({"rule_id": rule_id, "decision_id": id, "refunded": 3});
        assert_eq!(record["becomes"], expected);
        assert_eq!(record["was"]["refunded"], 0);
        let entry = format!(r#"[{rule_id},"decision","{id}"]"#);
        assert_eq!(record["entry"], entry.as_str());
    }
    check(&server, "ann", 2);
    let credit = json!({"rule_id": "r", "key_type": "user", "key_value": "ann"});
    assert_eq!(server.post_as_admin(REFUND, &credit.to_string()).status, 200);
    let log = resets(&server, 3);
    assert_eq!(brief(&log[..1], &["action", "entry"]), [r#"refund ["r","user_id","ann"]"#]);
    let (was, becomes) = (&log[0]["was"], &log[0]["becomes"]);
    assert_eq!((&was["remaining"], &becomes["remaining"]), (&json!(3), &json!(4)), "{log:?}");
    assert_eq!((was.get("refunded"), &becomes["refunded"]), (None, &json!(1)));
    reset(&server, &ann());
    assert_eq!(brief(&resets(&server, 5)[..1], &["action"]), ["reset"]);
    let unknown = server.get_as_admin(&format!("{RESETS}&actor=unknown"));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_actor"), "{unknown:?}");
}
