//! A decision is refunded by every node of the fleet, once, also when the node that made it is gone.

use std::thread;

use serde_json::{Value, json};
use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{CHECK, JSON, PEEK, Server, Setup};
use tollgate_e2e::until;
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::nodes::cluster_url;

const REFUND: &str = "/api/v1/rate-limit/refund";
const SECRET: (&str, &str) = ("TOLLGATE_FLEET_SECRET", "ours-0123456789abcdef0123456789abcdef");
const SETTINGS: &str = "{store_failure: {deadline: 5s}, deny_cache: 0s}";
/// Three counters; in a cluster they are on different servers.
const RULES: &str = "rules:
- {rule_id: per_user, limit: 50, window: 300d, identifier_type: user_id, algorithm: fixed_window}
- {rule_id: per_tenant, limit: 50, window: 300d, identifier_type: tenant, algorithm: sliding_window_log}
- {rule_id: all, limit: 50, window: 300d, identifier_type: global, algorithm: token_bucket}
";
const ALICE: &str = r#"{"identifiers":{"user_id":"alice","tenant":"acme"},"cost":3}"#;

fn node(store: &str, rules: &str, secret: &[(&str, &str)]) -> Server {
    let arguments = ["--store", store];
    let setup = Setup {
        rules: Some(rules),
        settings: SETTINGS,
        arguments: &arguments,
        environment: secret,
    };
    Server::start(&setup)
}

/// What is left of every rule.
fn left(node: &Server, body: &str) -> Vec<u64> {
    let peeked = node.post(PEEK, body).json();
    let rules = peeked["rules"].as_array().cloned().unwrap_or_default();
    rules.iter().map(|rule| rule["remaining"].as_u64().expect("a number")).collect()
}

fn id_of(decision: &Value) -> String {
    decision["decision_id"].as_str().expect("an id").to_owned()
}

fn refund(node: &Server, id: &str) -> Answer {
    node.post_as_admin(REFUND, &json!({ "decision_id": id }).to_string())
}

fn expect(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
}

#[test]
fn a_decision_of_a_node_that_was_killed_is_refunded_by_every_other_once() {
    let (redis, cluster, postgres) = (Redis::start(), RedisCluster::start(3, 0), Postgres::start());
    let oldest = Redis::builder().oldest().start();
    for store in [redis.url(), oldest.url(), cluster_url(&cluster), postgres.url()] {
        let [a, b, c] = [(); 3].map(|()| node(&store, RULES, &[SECRET]));
        let (first, second) = (id_of(&a.check(ALICE)), id_of(&a.check(ALICE)));
        assert!(first.len() > 100 && first.len() < 1_000 && first != second, "{first}");
        assert_eq!(left(&b, ALICE), [44, 44, 44], "{store}");
        let explained = a.get_as_admin(&format!("/api/v1/decisions/{first}"));
        assert_eq!(explained.json()["rules"].as_array().map(Vec::len), Some(3), "{explained:?}");
        a.process.signal("KILL");
        let elsewhere = b.get_as_admin(&format!("/api/v1/decisions/{first}"));
        assert_eq!(elsewhere.json(), explained.json(), "{store}");
        let refunded = refund(&b, &first);
        assert_eq!((refunded.status, refunded.json()), (200, json!({"counters": 3})), "{store}");
        assert_eq!(left(&c, ALICE), [47, 47, 47], "{store}");
        expect(&refund(&c, &first), 409, "already_given_back");
        expect(&refund(&b, &first), 409, "already_given_back");
        assert_eq!(refund(&c, &second).status, 200, "another decision: {store}");
        assert_eq!(left(&b, ALICE), [50, 50, 50], "{store}");
    }
}

#[test]
fn nodes_that_refund_at_once_refund_once() {
    let (redis, cluster, postgres) = (Redis::start(), RedisCluster::start(3, 0), Postgres::start());
    for store in [redis.url(), cluster_url(&cluster), postgres.url()] {
        let nodes = [(); 2].map(|()| node(&store, RULES, &[SECRET]));
        for round in 0..8 {
            nodes[0].check(ALICE);
            let id = id_of(&nodes[0].check(ALICE));
            let before = left(&nodes[0], ALICE);
            let answers: Vec<Answer> = thread::scope(|scope| {
                let ask = |at: usize| {
                    let (nodes, id) = (&nodes, &id);
                    scope.spawn(move || refund(&nodes[at % 2], id))
                };
                let asked: Vec<_> = (0..6).map(ask).collect();
                asked.into_iter().map(|one| one.join().expect("no panic")).collect()
            });
            let made = answers.iter().filter(|answer| answer.status == 200);
            // In a cluster, two calls may each refund some of the slots.
            let counters: u64 =
                made.map(|answer| answer.json()["counters"].as_u64().expect("a number")).sum();
            assert_eq!(counters, 3, "{store}, {round}: {answers:?}");
            assert!(answers.iter().all(|it| [200, 409].contains(&it.status)), "{answers:?}");
            let expected: Vec<u64> = before.iter().map(|left| left + 3).collect();
            assert_eq!(left(&nodes[1], ALICE), expected, "{store}, {round}");
        }
    }
}

#[test]
fn an_id_that_was_forged_cut_or_made_elsewhere_is_refused() {
    let (ours, theirs) = (Redis::start(), Redis::start());
    let a = node(&ours.url(), RULES, &[SECRET]);
    let foreign = [("TOLLGATE_FLEET_SECRET", "theirs-0123456789abcdef0123456789abcd")];
    let b = node(&theirs.url(), RULES, &foreign);
    let alone = Server::with_rules(RULES);
    let (ours, theirs) = (id_of(&a.check(ALICE)), id_of(&b.check(ALICE)));
    let (head, seal) = ours.split_once('.').expect("a seal");
    let flipped = if seal.starts_with('A') { "B" } else { "A" };
    for changed in [
        head.to_owned(),
        format!("{head}."),
        ours[..ours.len() - 1].to_owned(),
        format!("{head}.{flipped}{}", &seal[1..]),
        format!("{}1.{seal}", &head[..head.len() - 1]),
        format!("{head}.{}", "A".repeat(60_000)),
        theirs,
    ] {
        expect(&refund(&a, &changed), 422, "invalid_decision_id");
    }
    let unsealed = head.replacen("-s", "-a", 1);
    expect(&refund(&a, &unsealed), 404, "unknown_decision");
    expect(&refund(&alone, &ours), 422, "invalid_decision_id");
    for nonsense in ["", "nonsense", "d00000000-a1.AAAA"] {
        expect(&refund(&a, nonsense), 404, "unknown_decision");
    }
    assert_eq!(left(&a, ALICE), [47, 47, 47]);
    assert_eq!(refund(&a, &ours).status, 200);
}

/// The counter that was charged is refunded, by the limit that it was charged under.
#[test]
fn a_decision_is_refunded_also_if_its_rule_was_changed_or_removed() {
    let redis = Redis::start();
    let a = node(&redis.url(), RULES, &[SECRET]);
    let none = "rules: [{rule_id: other, limit: 50, window: 300d, identifier_type: user_id}]";
    let without = node(&redis.url(), none, &[SECRET]);
    let changed = RULES
        .replace("limit: 50", "limit: 80")
        .replace("algorithm: token_bucket", "algorithm: fixed_window");
    let changed = node(&redis.url(), &changed, &[SECRET]);
    let id = id_of(&a.check(ALICE));
    assert_eq!(refund(&without, &id).json(), json!({"counters": 3}));
    assert_eq!(left(&a, ALICE), [50, 50, 50]);
    a.check(ALICE);
    let id = id_of(&a.check(ALICE));
    // Its own counter replaces the token bucket.
    changed.check(ALICE);
    assert_eq!(left(&changed, ALICE), [71, 71, 77]);
    assert_eq!(refund(&changed, &id).json(), json!({"counters": 3}));
    assert_eq!(left(&changed, ALICE), [74, 74, 77]);
}

#[test]
fn a_copy_has_the_id_of_the_first_on_every_node() {
    let (redis, cluster, postgres) = (Redis::start(), RedisCluster::start(3, 0), Postgres::start());
    for store in [redis.url(), cluster_url(&cluster), postgres.url()] {
        let [a, b] = [(); 2].map(|()| node(&store, RULES, &[SECRET]));
        let check = |node: &Server| {
            let answer = node.ask("POST", CHECK, &[JSON, ("X-Idempotency-Key", "once")], ALICE);
            id_of(&answer.json())
        };
        let first = check(&a);
        assert!(first.contains('.'), "{first}");
        assert_eq!(check(&b), first, "{store}");
        assert_eq!(refund(&b, &first).status, 200, "{store}");
        expect(&refund(&a, &first), 409, "already_given_back");
        assert_eq!(left(&a, ALICE), [50, 50, 50], "{store}");
    }
}

/// The copy was sealed by the rules of its own time, and refunded what was never charged.
#[test]
fn a_copy_after_a_change_of_rules_refunds_nothing_of_its_own() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let first_rules =
        "rules: [{rule_id: per_user, limit: 50, window: 300d, identifier_type: user_id}]";
    for store in [redis.url(), postgres.url()] {
        let [a, b] = [first_rules, RULES].map(|rules| node(&store, rules, &[SECRET]));
        let check = |node: &Server| {
            let answer = node.ask("POST", CHECK, &[JSON, ("X-Idempotency-Key", "once")], ALICE);
            id_of(&answer.json())
        };
        let (first, copy) = (check(&a), check(&b));
        assert!(first.contains('.') && !copy.contains('.'), "{first} {copy}");
        let before = left(&b, ALICE);
        assert_eq!(refund(&b, &copy).status, 404, "{store}");
        assert_eq!(left(&b, ALICE), before, "{store}");
        assert_eq!(refund(&b, &first).json(), json!({"counters": 1}), "{store}");
        expect(&refund(&b, &first), 409, "already_given_back");
    }
}

#[test]
fn a_decision_whose_window_has_ended_is_not_refunded() {
    let redis = Redis::start();
    let rules = "rules: [{rule_id: short, limit: 9, window: 1s, identifier_type: user_id, algorithm: token_bucket}]";
    let a = node(&redis.url(), rules, &[SECRET]);
    let id = id_of(&a.check(ALICE));
    until("the end of the window", || (left(&a, ALICE) == [9]).then_some(()));
    // The counter is in use again.
    a.check(ALICE);
    expect(&refund(&a, &id), 409, "window_ended");
}

#[test]
fn some_decisions_are_refunded_only_by_their_node() {
    let redis = Redis::start();
    let local = "- {rule_id: local, limit: 50, window: 300d, identifier_type: user_id, consistency: local}\n";
    let long = json!({"identifiers": {"user_id": "u".repeat(900), "tenant": "acme"}}).to_string();
    for (what, rules, secret, body) in [
        ("no secret", RULES.to_owned(), &[][..], ALICE),
        ("a local rule", format!("{RULES}{local}"), &[SECRET][..], ALICE),
        ("long identifiers", RULES.to_owned(), &[SECRET][..], &*long),
    ] {
        redis.command(&["FLUSHALL"]);
        let [a, b] = [(); 2].map(|()| node(&redis.url(), &rules, secret));
        let before = left(&a, body);
        let id = id_of(&a.check(body));
        assert!(!id.contains('.'), "{what}: {id}");
        expect(&refund(&b, &id), 404, "unknown_decision");
        assert_eq!(refund(&a, &id).status, 200, "{what}");
        expect(&refund(&a, &id), 409, "already_given_back");
        assert_eq!(left(&a, body), before, "{what}");
    }
}
