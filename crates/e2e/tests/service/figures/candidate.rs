//! A candidate on live traffic: its figures in the API, in metrics and in lists, and what clients see of it.

use serde_json::{Value, json};
use tollgate_e2e::server::{JSON, Server, bearer_admin};
use tollgate_e2e::until;

use super::{as_token, check, read, rule, start, tenant_admin};

/// 10 of a client pass; 3 would.
fn tried(rule_id: &str) -> Value {
    let mut rule = rule(rule_id, 10);
    rule["candidate"] = json!({"limit": 3});
    rule
}

fn figures_of(server: &Server, rule_id: &str) -> Value {
    let stats = read(server, "/api/v1/stats");
    let rules = stats["rules"].as_array().expect("rules");
    assert!(rules.iter().all(|it| !it["rule_id"].to_string().contains('~')), "{stats}");
    rules.iter().find(|it| it["rule_id"] == rule_id).expect("the rule").clone()
}

/// Two clients, of which one is over the candidate.
#[test]
fn what_a_candidate_would_refuse_is_counted_and_listed_by_client() {
    let server = start("", &json!([tried("api"), rule("other", 100)]));
    check(&server, None, &[("alice", 5), ("bob", 2)]);
    let api = figures_of(&server, "api");
    assert_eq!(api["candidate"], json!({"admitted": 5, "would_refuse": 2, "would_delay": 0}));
    assert_eq!((&api["admitted"], &api["would_refuse"]), (&7.into(), &0.into()), "{api}");
    assert_eq!(figures_of(&server, "other").get("candidate"), None);
    // The candidate is no rule of its own in metrics of rules.
    let metrics = server.get("/metrics").text();
    let about = |part: &str| {
        metrics.lines().filter(|line| line.contains(part)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(about("~candidate"), [""; 0]);
    assert_eq!(
        about("tollgate_candidate_decisions_total{"),
        [
            "tollgate_candidate_decisions_total{rule_id=\"api\",outcome=\"allowed\"} 5",
            "tollgate_candidate_decisions_total{rule_id=\"api\",outcome=\"would_refuse\"} 2",
        ]
    );
    assert!(metrics.lines().any(|line| line.starts_with("tollgate_policy_rules 2")), "{metrics}");
    // Lists are filled in the background.
    let top = until("the lists have all requests", || {
        let top = read(&server, "/api/v1/top?by=client");
        (top["busiest"]["top"]
            .as_array()?
            .iter()
            .map(|it| it["count"].as_u64())
            .sum::<Option<u64>>()?
            == 7)
            .then_some(top)
    });
    let listed = &top["would_refuse"]["top"];
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{top}");
    let first = &listed[0];
    assert_eq!((&first["count"], &first["rule_id"]), (&2.into(), &"api~candidate".into()), "{top}");
    assert!(first["name"].as_str().is_some_and(|it| it.contains("alice")), "{top}");
    let by_rule = read(&server, "/api/v1/top?by=rule");
    assert_eq!(by_rule["would_refuse"]["top"][0]["name"], "api~candidate", "{by_rule}");
    let log = until("the log has both", || {
        let path = "/api/v1/audit/decisions?action=would_refuse&rule_id=api~candidate";
        let log = read(&server, path);
        (log["records"].as_array()?.len() == 2).then_some(log)
    });
    assert_eq!(log["records"][0]["limit"], 3, "{log}");
}

/// Beside another shadow rule that a request exceeds, the candidate used to be counted, but not to be found.
#[test]
fn a_candidate_finds_its_clients_and_requests_beside_another_shadow_rule() {
    let mut candidate = rule("api", 60);
    candidate["candidate"] = json!({"limit": 2});
    let mut watch = rule("watch", 3);
    watch["action"] = "log_only".into();
    watch["algorithm"] = "sliding_window_log".into();
    watch["applies_to"] = json!({"endpoints": ["/orders"]});
    let server = start("", &json!([candidate, watch]));
    check(&server, None, &[("bob", 10)]);
    assert_eq!(figures_of(&server, "api")["candidate"]["would_refuse"], 8);
    assert_eq!(figures_of(&server, "watch")["would_refuse"], 7);
    let entries = |by: &str| -> Vec<String> {
        let top = read(&server, &format!("/api/v1/top?by={by}&window=300"));
        let list = top["would_refuse"]["top"].as_array().expect("a list").iter();
        list.map(|it| format!("{} {} {}", it["name"], it["rule_id"], it["count"])).collect()
    };
    until("the lists have all requests", || (entries("rule").len() == 2).then_some(()));
    assert_eq!(entries("rule"), ["\"api~candidate\" null 8", "\"watch\" null 7"]);
    assert_eq!(entries("client"), ["\"bob\" \"api~candidate\" 8", "\"bob\" \"watch\" 7"]);
    let records = |rule_id: &str| {
        let log = read(&server, &format!("/api/v1/audit/decisions?rule_id={rule_id}"));
        log["records"].as_array().expect("records").clone()
    };
    until("the log has all", || (records("api~candidate").len() == 8).then_some(()));
    let watched = records("watch");
    assert_eq!(watched.len(), 7, "{watched:?}");
    for record in &watched {
        let both = [&record["rule_id"], &record["also_would_refuse"][0]].map(Value::as_str);
        assert!(both.contains(&Some("watch")) && both.contains(&Some("api~candidate")), "{record}");
    }
}

#[test]
fn clients_see_nothing_of_a_candidate() {
    let mut by_address = tried("address");
    by_address["identifier_type"] = "ip".into();
    let server = start("", &json!([tried("api"), by_address]));
    let body = r#"{"identifiers": {"user_id": "alice"}, "endpoint": "/", "detail": true}"#;
    let answers: Vec<Value> = (0..11).map(|_| server.check(body)).collect();
    let seen = |answer: &Value| {
        let names = ["allowed", "limit", "remaining", "rule_id"];
        Value::from(names.map(|name| answer[name].clone()).to_vec())
    };
    assert_eq!(seen(&answers[3]), json!([true, 10, 6, "api"]));
    let detail = answers[3]["rules"].as_array().expect("rules");
    let shown: Vec<_> = detail
        .iter()
        .map(|it| [&it["rule_id"], &it["allowed"], &it["shadow"], &it["limit"]])
        .collect();
    assert_eq!(json!(shown), json!([["api", true, null, 10], ["api~candidate", false, true, 3]]));
    assert_eq!(seen(&answers[10]), json!([false, 10, 0, "api"]));
    let refused = figures_of(&server, "api");
    assert_eq!(refused["refused"], 1);
    assert_eq!(refused["candidate"]["would_refuse"], 7, "the refused request is not counted");
    let authorized = server.ask("GET", "/api/v1/rate-limit/authorize/home", &[], "");
    assert_eq!(authorized.status, 200, "{authorized:?}");
    assert!(!format!("{authorized:?}").contains("candidate"), "{authorized:?}");
    let limits = server.ask("GET", "/api/v1/rate-limits/status", &[], "").text();
    assert!(limits.contains("address") && !limits.contains("candidate"), "{limits}");
    let user = read(&server, "/api/v1/users/alice/limits");
    assert!(!user.to_string().contains("candidate"), "{user}");
    // An operator sees it, as the candidate of its rule.
    let explained = server.post_as_admin(
        "/api/v1/rate-limit/explain",
        body.replace(", \"detail\": true", "").as_str(),
    );
    let explained = explained.json();
    let mut rules = explained["rules"].as_array().expect("rules").iter();
    let candidate = rules.find(|it| it["rule_id"] == "api~candidate").expect("the candidate");
    assert_eq!(
        (&candidate["rule_id"], &candidate["candidate_of"], &candidate["quota"]["limit"]),
        (&"api~candidate".into(), &"api".into(), &3.into()),
        "{explained}"
    );
}

#[test]
fn wrong_candidates_are_refused_with_field_and_advice() {
    let server = start("", &json!([rule("api", 10)]));
    for (candidate, field, advice) in [
        (json!({}), "candidate", "give a limit"),
        (json!({"limit": "3"}), "candidate.limit", "write a number"),
        (json!({"limits": 3}), "candidate.limits", "did you mean limit"),
        (json!({"burst": 3}), "candidate.burst", "remove the burst"),
        (json!({"window": "1 month"}), "candidate.window", "a window of one length"),
        (json!([3]), "candidate", "the fields are"),
    ] {
        let mut wrong = rule("api", 10);
        wrong["candidate"] = candidate;
        let answer =
            server.ask("PUT", "/api/v1/rules/api", &[JSON, bearer_admin()], &wrong.to_string());
        assert!(matches!(answer.status, 400 | 422), "{wrong}: {answer:?}");
        let problem = &answer.json()["problems"][0];
        let path = problem["path"].as_str().or(problem["field"].as_str()).unwrap_or_default();
        assert!(path.ends_with(field), "{wrong}: {answer:?}");
        assert!(problem["advice"].as_str().is_some_and(|it| it.contains(advice)), "{answer:?}");
    }
    let named = r#"{"rule_id":"api~candidate","limit":1,"window":"1m","identifier_type":"ip"}"#;
    let answer = server.ask("PUT", "/api/v1/rules/api~candidate", &[JSON, bearer_admin()], named);
    assert!(matches!(answer.status, 400 | 404 | 422), "{answer:?}");
}

#[test]
fn an_administrator_of_a_tenant_sees_the_candidates_of_its_rules() {
    let mut own = tried("own");
    own["tenant"] = "acme".into();
    let server = start("", &json!([own, tried("api")]));
    check(&server, Some("acme"), &[("alice", 4)]);
    let token = tenant_admin(&server, "acme");
    let stats = as_token(&server, &token, "GET", "/api/v1/stats", "").json();
    let rules = stats["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), 1, "{stats}");
    assert_eq!(rules[0]["candidate"]["would_refuse"], 1, "{stats}");
}
