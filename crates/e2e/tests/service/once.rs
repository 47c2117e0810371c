//! Two nodes that share a store treat a repeated call as one: the same response, charged once.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};
use tollgate_testbed::{Postgres, Redis};

use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::grpc::{CHECK_BATCH, CHECK_RATE_LIMIT, Client, GET_REMAINING_QUOTA};
use tollgate_e2e::server::{CHECK, JSON, PEEK, Server, Setup};

const BATCH: &str = "/api/v1/rate-limit/check/batch";

/// Windows are so long that nothing refills during a test, and rules fail closed.
const RULES: &str = "
rules:
- {rule_id: bucket, limit: 100, window: 300d, identifier_type: user_id, on_store_failure: closed}
- {rule_id: log, algorithm: sliding_window_log, limit: 50, window: 300d, identifier_type: user_id, on_store_failure: closed}
- {rule_id: by_ip, algorithm: fixed_window, limit: 9, window: 300d, identifier_type: ip, on_store_failure: closed}
- {rule_id: watch, algorithm: gcra, limit: 1, window: 300d, identifier_type: user_id, action: log_only}
";

/// Two nodes, by those rules.
fn nodes(store: &str, rules: &str) -> [Server; 2] {
    let arguments = ["--store", store];
    let settings = "store_failure: {deadline: 20s}";
    [(); 2].map(|()| {
        Server::start(&Setup {
            rules: Some(rules),
            settings,
            arguments: &arguments,
            ..Setup::default()
        })
    })
}

fn check(server: &Server, key: &str, body: &str) -> Answer {
    server.ask("POST", CHECK, &[JSON, ("X-Idempotency-Key", key)], body)
}

/// The header fields about limits.
fn fields(answer: &Answer) -> Vec<Option<&str>> {
    let names = ["limit", "remaining", "reset", "policy"].map(|name| format!("x-ratelimit-{name}"));
    let more = ["ratelimit", "ratelimit-policy", "content-type"].map(str::to_owned);
    let fields: Vec<_> = names.iter().chain(&more).map(|name| answer.header(name)).collect();
    assert!(fields.iter().all(Option::is_some), "{answer:?}");
    fields
}

/// Sends a call to both nodes, one after the other and then many times at once.
fn repeated_calls_are_one(store: &str) {
    let [a, b] = nodes(store, RULES);
    let body = r#"{"identifiers":{"user_id":"ann","ip":"192.0.2.1"},"cost":3}"#;
    let first = check(&a, "order 17", body);
    assert_eq!(first.status, 200, "{first:?}");
    let said = first.json();
    assert_eq!((&said["allowed"], &said["degraded"]), (&json!(true), &Value::Null), "{said}");
    assert_eq!(said["rules"].as_array().map(Vec::len), Some(4), "{said}");
    assert_eq!(first.header("x-idempotency-replayed"), None);
    // Other calls in between change nothing.
    assert_eq!(b.check(body)["allowed"], true);
    let same = r#"{"cost":3,"identifiers":{"ip":"192.0.2.1","user_id":"ann"}}"#;
    for (node, body) in [(&b, same), (&a, body), (&b, body)] {
        let again = check(node, "order 17", body);
        assert_eq!(again.text(), first.text());
        assert_eq!(fields(&again), fields(&first));
        assert_eq!(again.header("x-idempotency-replayed"), Some("true"), "{again:?}");
    }
    for node in [&b, &a] {
        let other = check(node, "order 17", &body.replace("ann", "bob"));
        assert_eq!((other.status, &*other.code()), (422, "idempotency_key_reused"), "{other:?}");
    }
    // Charged twice: by the first call, and by the one in between.
    assert_eq!(b.post(PEEK, body).json()["remaining"], 3);
    let decided = |node: &Server| {
        node.figure("tollgate_decisions_total{rule_id=\"bucket\",outcome=\"allowed\"}")
    };
    assert!((decided(&a) - 1.0).abs() < 0.5 && (decided(&b) - 1.0).abs() < 0.5);
    copies_at_once_are_one(&a, &b);
}

fn copies_at_once_are_one(a: &Server, b: &Server) {
    const COPIES: usize = 16;
    let body = r#"{"identifiers":{"user_id":"carl"},"cost":7}"#;
    let headers = [JSON, ("X-Idempotency-Key", "all at once")];
    let check = request("POST", CHECK, &headers, body.as_bytes());
    let start = Barrier::new(2 * COPIES);
    let ask = |node: &Server| {
        let mut connection = Connection::open(node.address);
        start.wait();
        connection.ask(&check)
    };
    let answers: Vec<Answer> = thread::scope(|scope| {
        let ask = &ask;
        let nodes = [a, b].into_iter().flat_map(|node| [node; COPIES]);
        let threads: Vec<_> = nodes.map(|node| scope.spawn(move || ask(node))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{answers:?}");
    assert_eq!(answers[0].json()["allowed"], true);
    let replayed = answers.iter().filter_map(|answer| answer.header("x-idempotency-replayed"));
    assert_eq!(replayed.count(), 2 * COPIES - 1);
    assert_eq!(a.post(PEEK, body).json()["remaining"], 50 - 7);
}

#[test]
fn redis_knows_the_calls_of_all_nodes() {
    repeated_calls_are_one(&Redis::start().url());
}

#[test]
fn postgres_knows_the_calls_of_all_nodes() {
    repeated_calls_are_one(&Postgres::start().url());
}

#[test]
fn a_refused_call_is_checked_again_on_every_node() {
    let redis = Redis::start();
    let [a, b] = nodes(&redis.url(), RULES);
    let body = r#"{"identifiers":{"user_id":"dora"},"cost":51}"#;
    for node in [&a, &b, &a] {
        let refused = check(node, "too much", body);
        assert_eq!(refused.json()["allowed"], false, "{refused:?}");
        assert_eq!(refused.header("x-idempotency-replayed"), None, "{refused:?}");
    }
    // A refusal records nothing, not even the body.
    let less = check(&b, "too much", &body.replace("51", "50"));
    assert_eq!(less.json()["allowed"], true, "{less:?}");
    // The last units: a copy of that call passes, a new call does not.
    assert_eq!(a.check(&body.replace("51", "50"))["allowed"], false);
    let again = check(&a, "too much", &body.replace("51", "50"));
    assert_eq!(again.text(), less.text());
}

#[test]
fn checks_of_a_batch_are_repeated_one_by_one() {
    let redis = Redis::start();
    let [a, b] = nodes(&redis.url(), RULES);
    let keyed = |user: &str, key: &str| json!({"identifiers": {"user_id": user}, "cost": 2, "idempotency_key": key});
    let plain = json!({"identifiers": {"user_id": "eve"}});
    let batch = |node: &Server, checks: &[Value]| {
        node.post(BATCH, &json!({ "checks": checks }).to_string()).json()["results"].take()
    };
    let first = batch(&a, &[keyed("eve", "1"), plain.clone(), keyed("eve", "2")]);
    let again = batch(&b, &[keyed("eve", "2"), plain, keyed("eve", "1"), keyed("fay", "1")]);
    assert_eq!((&again[2], &again[0]), (&first[0], &first[2]));
    assert_eq!(again[3]["error"]["code"], "idempotency_key_reused", "{again}");
    let left = a.post(PEEK, r#"{"identifiers":{"user_id":"eve"}}"#).json();
    assert_eq!(left["remaining"], 50 - 2 - 1 - 2 - 1);
}

#[test]
fn calls_over_grpc_are_known_on_all_nodes_too() {
    let redis = Redis::start();
    let nodes = nodes(&redis.url(), RULES);
    let [mut a, mut b] = [Client::of(&nodes[0]), Client::of(&nodes[1])];
    let keyed =
        json!({"identifier": "gus", "cost": "2", "idempotency_key": "once", "detail": true});
    let first = a.call(CHECK_RATE_LIMIT, &keyed);
    assert_eq!((&first["allowed"], &first["remaining"]), (&json!(true), &json!("48")), "{first}");
    b.call(CHECK_RATE_LIMIT, &json!({"identifier": "gus"}));
    for client in [&mut b, &mut a] {
        assert_eq!(client.call(CHECK_RATE_LIMIT, &keyed), first);
        let batch = client.call(CHECK_BATCH, &json!({"checks": [keyed]}));
        assert_eq!(batch["results"][0]["response"], first);
        let other = json!({"identifier": "gus", "cost": "1", "idempotency_key": "once"});
        let failure = client.fail(CHECK_RATE_LIMIT, &other);
        assert_eq!(failure.code, "INVALID_ARGUMENT", "{failure:?}");
        let left = client.call(GET_REMAINING_QUOTA, &json!({"identifier": "gus"}));
        assert_eq!(left["remaining"], "47");
    }
    // Over HTTP the same key names another call.
    let body = r#"{"identifiers":{"user_id":"gus"}}"#;
    assert_eq!(check(&nodes[0], "once", body).json()["remaining"], 46);
}

#[test]
fn a_copy_takes_nothing_from_the_counters_of_its_node() {
    let rules = "
rules:
- {rule_id: together, limit: 100, window: 300d, identifier_type: user_id, on_store_failure: closed}
- {rule_id: local, limit: 9, window: 300d, identifier_type: user_id, consistency: local}
";
    let redis = Redis::start();
    let [a, b] = nodes(&redis.url(), rules);
    let body = r#"{"identifiers":{"user_id":"hal"},"cost":5}"#;
    let first = check(&a, "once", body).json();
    assert_eq!(first["allowed"], true, "{first}");
    let left = |node: &Server| {
        let said = node.post(PEEK, body).json();
        let left = |rule: &str| {
            let rules = said["rules"].as_array().cloned().unwrap_or_default();
            let rule = rules.into_iter().find(|found| found["rule_id"] == rule);
            rule.and_then(|rule| rule["remaining"].as_u64())
        };
        [left("together"), left("local")]
    };
    assert_eq!((left(&a), left(&b)), ([Some(95), Some(4)], [Some(95), Some(9)]));
    // This exhausts the local limit of the node, which did not admit the first call.
    assert_eq!(b.check(body)["allowed"], true);
    for _ in 0..2 {
        let again = check(&b, "once", body).json();
        assert_eq!(again["allowed"], true, "{again}");
        assert_eq!(again["decision_id"], first["decision_id"], "{again}");
    }
    assert_eq!(left(&b), [Some(90), Some(4)]);
    let conflict = check(&b, "once", &body.replace('5', "4"));
    assert_eq!(conflict.code(), "idempotency_key_reused");
    assert_eq!(left(&b), [Some(90), Some(4)]);
}

#[test]
fn without_the_store_each_node_knows_its_own_calls() {
    let rules = "rules: [{rule_id: r, limit: 9, window: 300d, identifier_type: user_id}]";
    let redis = Redis::start();
    let [a, b] = nodes(&redis.url(), rules);
    let body = r#"{"identifiers":{"user_id":"ida"}}"#;
    assert_eq!(check(&a, "before", body).json()["remaining"], 8);
    redis.kill();
    let first = check(&a, "meanwhile", body);
    assert_eq!(first.json()["degraded"], "unavailable", "{first:?}");
    let again = check(&a, "meanwhile", body);
    assert_eq!(again.text(), first.text());
    assert_eq!(again.header("x-idempotency-replayed"), Some("true"));
    let elsewhere = check(&b, "meanwhile", body);
    assert_eq!(elsewhere.json()["allowed"], true, "{elsewhere:?}");
    assert_eq!(elsewhere.header("x-idempotency-replayed"), None, "{elsewhere:?}");
}

/// Changes the note of the only record in Redis.
fn forge_note(redis: &Redis, note: &str) {
    let keys = redis.command(&["KEYS", "*once*"]);
    let script = "local r = cmsgpack.unpack(redis.call('GET', KEYS[1])); r.note = ARGV[1]
                  redis.call('SET', KEYS[1], cmsgpack.pack(r))";
    redis.command(&["EVAL", script, "1", keys.list()[0].text(), note]);
}

#[test]
fn a_forged_decision_id_in_redis_is_not_repeated() {
    let rules = "rules: [{rule_id: r, limit: 90, window: 300d, identifier_type: user_id}]";
    let redis = Redis::start();
    let body = r#"{"identifiers":{"user_id":"eve"}}"#;
    let notes = ["x\",\"allowed\":false,\"z\":\"", "d00000001-a1\"", "", "{}", "D00000001-A1"];
    for (number, note) in notes.into_iter().enumerate() {
        redis.command(&["FLUSHALL"]);
        let [a, b] = nodes(&redis.url(), rules);
        let key = format!("forged {number}");
        let first = check(&a, &key, body);
        assert!(first.json()["decision_id"].is_string(), "{first:?}");
        forge_note(&redis, note);
        let again = check(&b, &key, body);
        let told = again.json();
        assert_eq!((&told["allowed"], told.get("decision_id")), (&json!(true), None), "{again:?}");
        let verdicts = |answer: &Answer| answer.text().matches("\"allowed\":").count();
        assert_eq!(verdicts(&again), verdicts(&first), "{again:?}");
        assert_eq!(again.header("x-idempotency-replayed"), Some("true"), "{again:?}");
    }
}
