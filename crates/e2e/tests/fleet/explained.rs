//! A decision is explained by every node of a fleet, also when the node that made it is gone.

use serde_json::json;
use tollgate_e2e::server::{JSON, Server, Setup, bearer_admin};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis};

const ALICE: &str = r#"{"identifiers":{"user_id":"alice"}}"#;
const POLICY: &str = r#"{"rules": [
    {"rule_id": "r", "limit": 1, "window": "300d", "identifier_type": "user_id"}]}"#;

#[test]
fn a_refusal_is_explained_by_other_nodes_from_the_log() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let (catalog, url) = (postgres.url(), redis.url());
    let arguments = ["--store", url.as_str(), "--catalog", catalog.as_str()];
    let setup = Setup { arguments: &arguments, ..Setup::default() };
    let [a, b] = [(); 2].map(|()| Server::start(&setup));
    let put = a.ask("PUT", "/api/v1/policy", &[JSON, bearer_admin()], POLICY);
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(a.check(ALICE)["allowed"], true);
    let refused = a.check(ALICE);
    assert_eq!(refused["allowed"], false);
    let id = refused["decision_id"].as_str().expect("an id");
    let path = format!("/api/v1/decisions/{id}");
    let here = a.get_as_admin(&path).json();
    // The log is written in the background.
    let there = until("the decision in the log", || {
        let answer = b.get_as_admin(&path);
        (answer.status == 200).then(|| answer.json())
    });
    a.process.signal("KILL");
    assert_eq!(b.get_as_admin(&path).json(), there);
    for field in ["decision_id", "at", "because", "tier"] {
        assert_eq!(there[field], here[field], "{field}");
    }
    for field in ["allowed", "limit", "remaining", "rule_id", "reason", "decision_id"] {
        assert_eq!(there["answer"][field], here["answer"][field], "{field}");
    }
    assert!(there["answer"]["retry_after"].is_u64() && there["revision"].is_null(), "{there}");
    let other = id.replace("-r", "-r9");
    let unknown = b.get_as_admin(&format!("/api/v1/decisions/{other}"));
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_decision"));
}

#[test]
fn without_a_catalog_a_refusal_of_another_node_is_not_known() {
    let redis = Redis::start();
    let rules = "rules: [{rule_id: r, limit: 0, window: 300d, identifier_type: user_id}]";
    let [a, b] = [(); 2].map(|()| {
        let url = redis.url();
        let arguments = ["--store", url.as_str()];
        Server::start(&Setup { rules: Some(rules), arguments: &arguments, ..Setup::default() })
    });
    let refused = a.check(ALICE);
    let id = refused["decision_id"].as_str().expect("an id");
    let path = format!("/api/v1/decisions/{id}");
    assert_eq!(a.get_as_admin(&path).json()["answer"]["allowed"], json!(false));
    let unknown = b.get_as_admin(&path);
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_decision"));
    let detail = unknown.json()["detail"].to_string();
    assert!(detail.contains("another node made decision"), "{detail}");
}
