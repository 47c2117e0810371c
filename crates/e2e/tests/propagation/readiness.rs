//! A node gets traffic only once it knows the policy of its fleet.

use serde_json::json;
use tollgate_e2e::client::request;
use tollgate_e2e::grpc::{Client, HEALTH};
use tollgate_e2e::until;
use tollgate_testbed::Postgres;

use crate::fleet::{limit_at, node, pair, put};

/// It was ready, so that load balancers sent it traffic, which was then decided by the built-in rules.
#[test]
fn a_node_with_built_in_rules_is_not_ready_until_it_has_read_its_catalog() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let postgres = Postgres::start();
    let first = node(&postgres.url(), "memory", &folders[0]);
    assert_eq!(put(&first, "/api/v1/policy?prune=rules", &pair(66)).status, 200);
    assert_eq!(first.get("/health/ready").json()["status"], "ready");
    postgres.kill();

    let node = node(&postgres.url(), "memory", &folders[1]);
    let mut grpc = Client::of(&node);
    let asked = node.get("/health/ready");
    assert_eq!((asked.status, &asked.json()["status"]), (503, &json!("waiting_for_catalog")));
    let probed = node.get("/healthcheck");
    assert_eq!((probed.status, probed.text().as_str()), (503, "waiting for the catalog"));
    assert!(node.figure("tollgate_ready") < 1.0);
    assert_eq!(grpc.call(HEALTH, &json!({}))["status"], "NOT_SERVING");
    let listed = node.get_as_admin("/api/v1/nodes").json();
    assert_eq!(listed["nodes"][0]["status"], "waiting_for_catalog", "{listed}");
    let checked = node.check(r#"{"identifiers":{"user_id":"x"}}"#);
    assert_eq!(checked["rule_id"], "default_per_user", "checks are answered: {checked}");
    assert_eq!(first.get("/health/ready").status, 200, "this one knows the policy");
    // It said that the token is wrong, and to make another one in a database that is away.
    let token = [("Authorization", "Bearer tg_known_elsewhere")];
    let asked = node.connect().ask(&request("GET", "/api/v1/rules", &token, b""));
    assert_eq!((asked.status, asked.code().as_str()), (503, "catalog_unavailable"));
    assert!(asked.text().contains("does not know any tokens yet"), "{asked:?}");

    postgres.restart();
    until("a node that is ready", || (node.get("/health/ready").status == 200).then_some(()));
    until("services that are ready", || {
        (grpc.call(HEALTH, &json!({}))["status"] == "SERVING").then_some(())
    });
    assert_eq!(node.get("/healthcheck").status, 200);
    let asked = node.connect().ask(&request("GET", "/api/v1/rules", &token, b""));
    assert_eq!((asked.status, asked.code().as_str()), (401, "wrong_token"));
    assert_eq!(limit_at(&node), 66, "the rules of the fleet");
}
