//! A refund releases the idempotency key of its decision, on every node: the next call with it is charged.

use serde_json::{Value, json};
use tollgate_e2e::client::Answer;
use tollgate_e2e::grpc::{CHECK_RATE_LIMIT, Client, REFUND as GRPC_REFUND};
use tollgate_e2e::server::{ADMIN_TOKEN, CHECK, JSON, PEEK, Server, Setup};
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::nodes::cluster_url;

const REFUND: &str = "/api/v1/rate-limit/refund";
const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
/// In a cluster, the counters are on different servers. The first one is not charged by the second call: it is a shadow.
const RULES: &str = "rules:
- {rule_id: shadow, limit: 3, window: 300d, identifier_type: tenant, action: log_only, priority: 9}
- {rule_id: per_user, limit: 50, window: 300d, identifier_type: user_id}
- {rule_id: all, limit: 50, window: 300d, identifier_type: global}
";
const ALICE: &str = r#"{"identifiers":{"user_id":"alice","tenant":"acme"},"cost":3}"#;

fn node(store: &str, rules: &str, secret: &[(&str, &str)]) -> Server {
    let arguments = ["--store", store];
    let settings = "{store_failure: {deadline: 5s}, deny_cache: 0s}";
    Server::start(&Setup {
        rules: Some(rules),
        settings,
        arguments: &arguments,
        environment: secret,
    })
}

fn check(node: &Server, body: &str) -> Answer {
    node.ask("POST", CHECK, &[JSON, ("X-Idempotency-Key", "job-17")], body)
}

fn id_of(decision: &Value) -> String {
    decision["decision_id"].as_str().expect("an id").to_owned()
}

fn refund(node: &Server, id: &str) -> u16 {
    node.post_as_admin(REFUND, &json!({ "decision_id": id }).to_string()).status
}

/// What is left of the rule that counts by user.
fn left(node: &Server, body: &str) -> Option<u64> {
    let peeked = node.post(PEEK, body).json();
    let rules = peeked["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().find(|rule| rule["rule_id"] == "per_user")?["remaining"].as_u64()
}

/// Both nodes remember the response; `refunding` makes the refund. The client was charged once, refunded it, and repeated
/// the call for free.
fn a_refunded_call_is_charged_again(what: &str, nodes: &[&Server], refunding: &Server, body: &str) {
    let before = left(refunding, body).expect("a figure");
    let first = check(nodes[0], body);
    let id = id_of(&first.json());
    for node in nodes {
        let copy = check(node, body);
        assert_eq!(copy.header("x-idempotency-replayed"), Some("true"), "{what}: {copy:?}");
        assert_eq!(id_of(&copy.json()), id, "{what}");
    }
    assert_eq!(left(refunding, body), Some(before - 3), "{what}");
    assert_eq!(refund(refunding, &id), 200, "{what}");
    assert_eq!(left(refunding, body), Some(before), "{what}");
    // The last to remember the response is the first to forget it.
    let mut again = Vec::new();
    for node in nodes.iter().rev() {
        let answer = check(node, body);
        assert_eq!(answer.json()["allowed"], true, "{what}: {answer:?}");
        again.push(answer);
    }
    let second = id_of(&again[0].json());
    assert_ne!(second, id, "{what}");
    assert_eq!(again[0].header("x-idempotency-replayed"), None, "{what}: {again:?}");
    assert!(again.iter().all(|answer| id_of(&answer.json()) == second), "{what}: {again:?}");
    assert_eq!(left(refunding, body), Some(before - 3), "{what}: charged once");
    // A refund that is repeated leaves the second call as it is.
    assert_eq!(refund(refunding, &id), 409, "{what}");
    for node in nodes {
        assert_eq!(id_of(&check(node, body).json()), second, "{what}");
    }
    assert_eq!(left(refunding, body), Some(before - 3), "{what}");
    assert_eq!(refund(refunding, &second), 200, "{what}");
}

#[test]
fn a_refunded_call_is_charged_again_on_every_node() {
    let (redis, cluster, postgres) = (Redis::start(), RedisCluster::start(3, 0), Postgres::start());
    for store in [redis.url(), cluster_url(&cluster), postgres.url()] {
        let [a, b, c] = [(); 3].map(|()| node(&store, RULES, &[SECRET]));
        a_refunded_call_is_charged_again(&store, &[&a, &b], &c, ALICE);
        a_refunded_call_is_charged_again(&store, &[&b, &a], &b, ALICE);
    }
}

#[test]
fn a_refunded_call_is_charged_again_with_counters_in_memory() {
    let alone = node("memory:", RULES, &[]);
    a_refunded_call_is_charged_again("memory", &[&alone], &alone, ALICE);
}

/// Ids that only their node can refund.
#[test]
fn a_call_that_was_refunded_by_its_node_is_charged_again_on_the_others() {
    let (redis, cluster, postgres) = (Redis::start(), RedisCluster::start(3, 0), Postgres::start());
    let local = "- {rule_id: local, limit: 50, window: 300d, identifier_type: user_id, consistency: local, priority: 10}\n";
    let long = json!({"identifiers": {"user_id": "u".repeat(900), "tenant": "acme"}, "cost": 3});
    for store in [redis.url(), cluster_url(&cluster), postgres.url()] {
        for (what, rules, body) in [
            ("a local rule", format!("{RULES}{local}"), ALICE.to_owned()),
            ("long identifiers", RULES.to_owned(), long.to_string()),
        ] {
            let [a, b] = [(); 2].map(|()| node(&store, &rules, &[SECRET]));
            let what = format!("{what}, {store}");
            let id = id_of(&check(&a, &body).json());
            assert!(!id.contains('.'), "{what}: {id}");
            assert_eq!(id_of(&check(&b, &body).json()), id, "{what}");
            assert_eq!(refund(&a, &id), 200, "{what}");
            let before = left(&b, &body).expect("a figure");
            let again = id_of(&check(&b, &body).json());
            assert_ne!(again, id, "{what}");
            assert_eq!(id_of(&check(&a, &body).json()), again, "{what}");
            assert_eq!(left(&b, &body), Some(before - 3), "{what}");
            assert_eq!(refund(&b, &again), 200, "{what}");
        }
    }
}

#[test]
fn a_refunded_call_over_grpc_is_charged_again() {
    let redis = Redis::start();
    for store in ["memory:".to_owned(), redis.url()] {
        let secret = if store == "memory:" { &[][..] } else { &[SECRET][..] };
        let server = node(&store, RULES, secret);
        let mut client = Client::of(&server);
        let job = json!({
            "identifiers": {"user_id": "alice", "tenant": "acme"}, "cost": "3", "idempotency_key": "job-17",
        });
        let first = id_of(&client.call(CHECK_RATE_LIMIT, &job));
        assert_eq!(id_of(&client.call(CHECK_RATE_LIMIT, &job)), first, "{store}");
        let refunded =
            client.try_call_as(ADMIN_TOKEN, GRPC_REFUND, &json!({ "decision_id": first }));
        refunded.expect("a refund");
        assert_eq!(left(&server, ALICE), Some(50), "{store}");
        let second = id_of(&client.call(CHECK_RATE_LIMIT, &job));
        assert_ne!(second, first, "{store}");
        assert_eq!(id_of(&client.call(CHECK_RATE_LIMIT, &job)), second, "{store}");
        assert_eq!(left(&server, ALICE), Some(47), "{store}");
    }
}

/// What a node remembers is the best that it has then.
#[test]
fn a_copy_is_replayed_while_the_store_does_not_respond() {
    let redis = Redis::start();
    let server = node(&redis.url(), RULES, &[SECRET]);
    let first = check(&server, ALICE);
    redis.kill();
    let copy = check(&server, ALICE);
    assert_eq!(copy.text(), first.text());
    assert_eq!(copy.header("x-idempotency-replayed"), Some("true"), "{copy:?}");
}
