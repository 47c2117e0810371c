//! A decision is refunded in the store that was charged, and in no other, whatever secret its nodes have.

use serde_json::json;
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{PEEK, Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis, RedisCluster, Sentinels};

use crate::nodes::cluster_url;

const REFUND: &str = "/api/v1/rate-limit/refund";
const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const SETTINGS: &str = "{store_failure: {deadline: 5s}, deny_cache: 0s}";
const RULES: &str = "rules: [{rule_id: per_user, limit: 50, window: 300d, identifier_type: user_id, on_store_failure: closed}]";
const ALICE: &str = r#"{"identifiers":{"user_id":"alice"},"cost":3}"#;

fn node(store: &str) -> Server {
    let arguments = ["--store", store];
    let (rules, environment) = (Some(RULES), &[SECRET][..]);
    Server::start(&Setup { rules, settings: SETTINGS, arguments: &arguments, environment })
}

/// The id of a decision that was charged in the store.
fn charged(node: &Server) -> String {
    let id = node.check(ALICE)["decision_id"].as_str().expect("an id").to_owned();
    assert!(id.contains('.'), "{id}");
    id
}

fn left(node: &Server) -> Option<u64> {
    node.post(PEEK, ALICE).json()["rules"][0]["remaining"].as_u64()
}

fn refund(node: &Server, id: &str) -> Answer {
    node.post_as_admin(REFUND, &json!({ "decision_id": id }).to_string())
}

fn expect_foreign(answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (422, "invalid_decision_id"), "{answer:?}");
    assert!(answer.text().contains("another store"), "{answer:?}");
}

/// One store was charged and the other refunded: a free quota.
#[test]
fn nodes_with_one_secret_and_two_stores_do_not_refund_for_each_other() {
    let (redis, other, postgres) = (Redis::start(), Redis::start(), Postgres::start());
    let cluster = RedisCluster::start(3, 0);
    let stores = [
        redis.url(),
        other.url(),
        format!("redis://{}/1", redis.address()),
        format!("{}?prefix=other:", redis.url()),
        cluster_url(&cluster),
        postgres.url(),
    ];
    let nodes = stores.each_ref().map(|store| node(store));
    let ids = nodes.each_ref().map(charged);
    for (place, node) in nodes.iter().enumerate() {
        for foreign in ids.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, id)| id) {
            expect_foreign(&refund(node, foreign));
            expect_foreign(&node.get_as_admin(&format!("/api/v1/decisions/{foreign}")));
        }
        assert_eq!(left(node), Some(47), "{}", stores[place]);
        assert_eq!(refund(node, &ids[place]).status, 200, "{}", stores[place]);
        assert_eq!(left(node), Some(50), "{}", stores[place]);
    }
}

#[test]
fn an_id_outlasts_a_failover_and_restarts_of_all_nodes() {
    let sentinels = Sentinels::start(3, "counters", 1);
    let first = node(&sentinels.url());
    let ids = [charged(&first), charged(&first)];
    // The replica has what was written so far.
    let wait = sentinels.master().command(&["WAIT", "1", "5000"]).integer();
    assert_eq!(wait, 1);
    sentinels.kill_master();
    until("the new master", || (left(&first) == Some(44)).then_some(()));
    assert_eq!(refund(&first, &ids[0]).status, 200);
    drop(first);
    assert_eq!(refund(&node(&sentinels.url()), &ids[1]).status, 200);
}

#[test]
fn ids_of_a_store_that_lost_its_data_are_refused() {
    let redis = Redis::start();
    let node = node(&redis.url());
    let before = charged(&node);
    redis.command(&["FLUSHALL"]);
    let line = "decisions made before cannot be refunded";
    until("the warning", || node.process.errors().contains(line).then_some(()));
    node.check(ALICE);
    expect_foreign(&refund(&node, &before));
    assert_eq!(left(&node), Some(47));
    assert_eq!(refund(&node, &charged(&node)).status, 200);
}

/// Any program that may write to Redis can write there.
#[test]
fn a_number_that_cannot_be_read_is_replaced() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for (store, spoil) in [
        (redis.url(), &(|| drop(redis.command(&["SET", "tg:store", "nonsense"]))) as &dyn Fn()),
        (postgres.url(), &|| {
            postgres.query(
                "UPDATE tollgate_counters SET state = '0000000000000000' WHERE name = 'store'",
            );
        }),
    ] {
        drop(node(&store));
        spoil();
        let [a, b] = [(); 2].map(|()| node(&store));
        assert_eq!(refund(&b, &charged(&a)).status, 200, "{store}");
    }
}
