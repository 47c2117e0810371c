//! The decision log: refused, denied and delayed requests, found by every filter.

use std::fs;
use std::ops::RangeInclusive;

use serde_json::{Value, json};
use tollgate_catalog::DecisionFilter;

use super::{
    DECISIONS, brief, call, catalog, check, outcomes, read, records, rule, settled, start, wait_for,
};
use tollgate_e2e::server::{CHECK, PEEK};
use tollgate_e2e::until;

const FIELDS: [&str; 3] = ["client", "rule_id", "action"];

#[test]
fn refused_denied_and_delayed_requests_are_logged() {
    let slow = json!({"rule_id": "slow", "algorithm": "gcra", "limit": 1, "window": "300d", "identifier_type": "ip",
        "action": "throttle", "throttle": {"max_delay_ms": 31_622_400_000_u64}});
    let policy = json!({"rules": [rule("r", 1), slow], "blacklist": [{"identifier_type": "user_id", "identifier": "eve"}]});
    let server = start("{sample_allowed: 0}", &policy);
    check(&server, "ann", 3);
    check(&server, "eve", 1);
    let waiting = r#"{"identifiers": {"ip": "192.0.2.1"}}"#;
    for delayed in [false, true] {
        assert_eq!(server.check(waiting)["delay_ms"].is_number(), delayed);
    }
    // Peeks are not logged.
    for body in [r#"{"identifiers": {"user_id": "eve"}}"#, r#"{"identifiers": {"user_id": "ann"}}"#]
    {
        assert_eq!(server.post(PEEK, body).status, 200);
    }
    server.check(r#"{"identifiers": {"user_id": "eve"}, "cost": 0}"#);
    let all = settled(&server, DECISIONS, 4);
    assert_eq!(
        brief(&all, &FIELDS),
        ["192.0.2.1 slow throttled", "eve - denied", "ann r refused", "ann r refused"]
    );
    let refused = &all[3];
    assert_eq!(
        brief(&all[3..], &["reason", "endpoint", "method", "cost", "limit", "remaining"]),
        ["rate_limited /orders GET 1 1 0"]
    );
    assert!(refused["retry_after"].as_u64().is_some_and(|wait| wait > 0), "{refused}");
    assert_eq!(refused["identifiers"], json!({"user_id": "ann"}));
    let explained = server.get_as_admin(&format!(
        "/api/v1/decisions/{}",
        refused["decision_id"].as_str().expect("an id")
    ));
    assert_eq!(explained.status, 200, "{explained:?}");
    // Both name the second of the line in an access log; one of them used to name the next.
    let explained = explained.json();
    let second = |record: &Value| record["at"].as_str().expect("a time")[..19].to_owned();
    assert_eq!(second(&explained), second(refused));
    assert_eq!(brief(&all, &["reason"])[..2], ["-", "denied"]);

    let found = |query: &str, expected: &[&str]| {
        let found = records(&server, &format!("{DECISIONS}?{query}"));
        assert_eq!(brief(&found, &FIELDS), expected, "{query}");
    };
    found("client=ann", &["ann r refused", "ann r refused"]);
    found("client=bob", &[]);
    found("rule_id=slow", &["192.0.2.1 slow throttled"]);
    found("action=denied", &["eve - denied"]);
    found("client=ann&action=denied", &[]);
    let at = |place: usize| all[place]["at"].as_str().expect("a time").to_owned();
    found(&format!("since={}", at(1)), &["192.0.2.1 slow throttled", "eve - denied"]);
    found(&format!("until={}", at(2)), &["ann r refused"]);
    let first = server.get_as_admin(&format!("{DECISIONS}?limit=3"));
    let link = first.header("link").expect("a link");
    let next = link[1..].split('>').next().expect("a path");
    assert_eq!(brief(&records(&server, next), &FIELDS), ["ann r refused"]);
    for (query, words) in
        [("action=no", "`action` is one of refused"), ("before=1", "`before` is no place")]
    {
        let answer = server.get_as_admin(&format!("{DECISIONS}?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"));
        assert!(answer.text().contains(words), "{answer:?}");
    }
    assert_eq!(outcomes(&server), [4, 0, 0]);
}

#[test]
fn allowed_requests_are_sampled() {
    let taken = |share: &str, requests: usize, expected: RangeInclusive<usize>| {
        let server = start(
            &format!("{{sample_allowed: {share}}}"),
            &json!({"rules": [rule("r", 1_000_000)]}),
        );
        check(&server, "ann", requests);
        // Written after all the others.
        call(&server, "PATCH", "/api/v1/rules/r", r#"{"limit": 0}"#);
        check(&server, "bob", 1);
        until("the last record", || {
            (!records(&server, &format!("{DECISIONS}?client=bob")).is_empty()).then_some(())
        });
        let allowed = records(&server, &format!("{DECISIONS}?client=ann&limit=1000"));
        assert!(expected.contains(&allowed.len()), "{share}: {}", allowed.len());
        assert!(allowed.iter().all(|record| record["action"] == "allowed"));
    };
    taken("0", 50, 0..=0);
    taken("1", 50, 50..=50);
    taken("0.25", 200, 48..=52);
}

#[test]
fn decisions_off_logs_nothing() {
    let server = start("{decisions: off}", &json!({"rules": [rule("r", 0)]}));
    check(&server, "ann", 3);
    let top = until("a ranking", || {
        let top = read(&server, "/api/v1/top");
        (top["refused"]["top"][0]["count"] == 3).then_some(top)
    });
    assert_eq!(top["refused"]["exact"], true);
    assert_eq!(records(&server, DECISIONS), Vec::<Value>::new());
    assert_eq!(outcomes(&server), [0, 0, 0]);
}

#[test]
fn secrets_are_logged_as_digests() {
    let by_header =
        json!({"rule_id": "h", "limit": 0, "window": "1h", "identifier_type": "header:x-device"});
    let server = start("{}", &json!({"rules": [rule("r", 0), by_header]}));
    let bodies = [
        r#"{"identifiers": {"user_id": "ann", "api_key": "ossifrage"}, "endpoint": "/x?token=ossifrage#ossifrage"}"#,
        r#"{"rule_id": "h", "key_type": "custom", "key_value": "ossifrage"}"#,
        r#"{"attributes": {"header:x-device": "ossifrage"}}"#,
    ];
    for body in bodies {
        assert_eq!(server.post(CHECK, body).json()["allowed"], false);
    }
    let all = settled(&server, DECISIONS, 3);
    let told = serde_json::to_string(&all).expect("a text");
    assert!(!told.contains("ossifrage"), "{told}");
    // The beginning of `printf ossifrage | sha256sum`.
    let one = "sha256:fc497d9ad15f";
    let clients = brief(&all, &["client", "rule_id", "endpoint"]);
    assert_eq!(clients, [format!("{one} h -"), format!("{one} h -"), "ann r /x".to_owned()]);
    assert_eq!(all[2]["identifiers"], json!({"user_id": "ann", "api_key": one}));
    for file in ["tollgate.db", "tollgate.db-wal"] {
        let file = fs::read(server.folder().join(file)).expect("the catalog");
        assert!(!String::from_utf8_lossy(&file).contains("ossifrage"));
    }
}

#[test]
fn the_last_decisions_are_written_at_shutdown() {
    let mut server = start("{}", &json!({"rules": [rule("r", 0)]}));
    check(&server, "ann", 5);
    server.process.signal("TERM");
    assert!(server.process.end().success());
    let (catalog, filter) = (catalog(server.folder()), DecisionFilter::default());
    let kept = wait_for(catalog.decisions(&filter, None, 100)).expect("a page");
    assert_eq!(kept.len(), 5, "{}", server.process.errors());
}
