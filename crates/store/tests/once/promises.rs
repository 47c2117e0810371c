//! What every shared store promises about copies.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Micros, Mode};
use tollgate_store::postgres::PostgresStore;
use tollgate_store::{DenyCache, IdempotencyKey, OpOutcome, Store};
use tollgate_testbed::{Postgres, Redis, RedisCluster};

use crate::{call, cluster_url, first, key, left, limit, one, patient, redis, settle};
use tollgate_testbed::eventually;

/// Requests about one client, and about several, whose counters may be apart.
const LAYOUTS: [[&str; 3]; 2] = [["x", "x", "x"], ["x", "y", "z"]];

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_charged_once_in_redis() {
    let server = Redis::start();
    all([redis(&server.url(), patient()).await, redis(&server.url(), patient()).await], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_charged_once_in_a_redis_cluster() {
    let cluster = RedisCluster::start(3, 0);
    let url = cluster_url(&cluster);
    all([redis(&url, patient()).await, redis(&url, patient()).await], false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_charged_once_in_postgres() {
    let server = Postgres::start();
    let store = || PostgresStore::connect(&server.url(), patient()).expect("a valid URL");
    all([store(), store()], true).await;
}

/// Two nodes. `knows_all`: an idempotency key is shared by all clients.
pub(crate) async fn all<S: Store + 'static>(stores: [S; 2], knows_all: bool) {
    let nodes = stores.map(|store| Arc::new(DenyCache::new(store)));
    for (layout, clients) in LAYOUTS.iter().enumerate() {
        for algorithm in Algorithm::ALL {
            let clients = clients.map(|client| format!("{client} {layout} {algorithm:?}"));
            let clients = clients.each_ref().map(String::as_str);
            copies_get_the_first_answer(&nodes, algorithm, clients).await;
            the_last_unit_is_given_to_its_copies_too(&nodes, algorithm, clients).await;
            what_is_refused_is_not_known(&nodes, algorithm, clients).await;
            other_rules_are_looked_at(&nodes, algorithm, clients).await;
        }
        let clients = clients.map(|client| format!("{client} {layout}"));
        copies_at_once_are_charged_once(&nodes, &clients).await;
        what_is_known_is_forgotten(&nodes[0], &clients).await;
    }
    keys_of_others_are_other_keys(&nodes, knows_all).await;
}

type Nodes<S> = [Arc<DenyCache<S>>; 2];

async fn copies_get_the_first_answer<S: Store>(
    [a, b]: &Nodes<S>,
    algorithm: Algorithm,
    clients: [&str; 3],
) {
    let (five, two) = (limit(algorithm, 5), limit(algorithm, 2));
    let mut charges = [
        Charge { cost: 3, ..one(key("five", clients[0]), &five) },
        one(key("two", clients[1]), &two),
        // Exceeded, but a shadow charge.
        Charge { cost: 7, mode: Mode::Shadow, ..one(key("watch", clients[2]), &five) },
    ];
    let name = format!("copies {}", clients[0]);
    let settled = first(settle(&**a, &charges, &call(&name, 1, "one")).await);
    assert!(settled.passed && settled.results.len() == 3 && !settled.results[2].admitted);
    // What happens in between changes nothing.
    let other = [one(key("five", clients[0]), &five)];
    assert!(b.settle(&other, crate::NO_TIME).await.expect("an answer").passed);
    let after = left(&**a, &charges).await;
    assert_eq!(after, [1, 1, 5], "{name}");
    for node in [b, a] {
        let again = settle(&**node, &charges, &call(&name, 1, "two")).await;
        let expected = OpOutcome::Replayed { settlement: settled.clone(), note: "one".to_owned() };
        assert_eq!(again, expected, "{name}");
        charges[0].cost = 4;
        let conflict = settle(&**node, &charges, &call(&name, 2, "three")).await;
        assert_eq!(conflict, OpOutcome::KeyReused, "{name}");
        charges[0].cost = 3;
        assert_eq!(left(&**node, &charges).await, after, "{name}");
    }
}

async fn the_last_unit_is_given_to_its_copies_too<S: Store>(
    [a, b]: &Nodes<S>,
    algorithm: Algorithm,
    clients: [&str; 3],
) {
    // Each of the counters is the exhausted one once.
    for used_up in 0..3 {
        let limits = [0, 1, 2].map(|n| limit(algorithm, if n == used_up { 1 } else { 9 }));
        let rules = [0, 1, 2].map(|n| format!("last {used_up} {n}"));
        let charges = [0, 1, 2].map(|n| one(key(&rules[n], clients[n]), &limits[n]));
        let name = format!("last {used_up} {}", clients[0]);
        let settled = first(settle(&**a, &charges, &call(&name, 1, "one")).await);
        assert!(settled.passed, "{name}");
        // Both nodes have cached the refusal.
        for node in [a, b] {
            let refused = node.settle(&charges, crate::NO_TIME).await.expect("an answer");
            assert!(!refused.passed, "{name}");
        }
        let again = settle(&**b, &charges, &call(&name, 1, "two")).await;
        let expected = OpOutcome::Replayed { settlement: settled, note: "one".to_owned() };
        assert_eq!(again, expected, "{name}");
        let expected = [0, 1, 2].map(|n| if n == used_up { 0 } else { 8 });
        assert_eq!(left(&**b, &charges).await, expected, "{name}");
        // Under another key it is another request.
        let other = format!("other {name}");
        assert!(!first(settle(&**b, &charges, &call(&other, 1, "")).await).passed, "{name}");
        assert_eq!(left(&**b, &charges).await, expected, "{name}");
    }
}

async fn what_is_refused_is_not_known<S: Store>(
    [a, b]: &Nodes<S>,
    algorithm: Algorithm,
    clients: [&str; 3],
) {
    for refuses in 0..3 {
        let limits = [0, 1, 2].map(|n| limit(algorithm, if n == refuses { 1 } else { 9 }));
        let rules = [0, 1, 2].map(|n| format!("refused {refuses} {n}"));
        let charges = [0, 1, 2].map(|n| one(key(&rules[n], clients[n]), &limits[n]));
        let spent = [charges[refuses]];
        assert!(a.settle(&spent, crate::NO_TIME).await.expect("an answer").passed);
        let name = format!("refused {refuses} {}", clients[0]);
        for (node, body) in [(a, 1), (b, 1), (b, 2)] {
            let settled = first(settle(&**node, &charges, &call(&name, body, "")).await);
            let fitted: Vec<bool> = settled.results.iter().map(|line| line.admitted).collect();
            assert!(!settled.passed, "{name}");
            assert_eq!(fitted, [0, 1, 2].map(|n| n != refuses), "{name}");
            let expected = [0, 1, 2].map(|n| if n == refuses { 0 } else { 9 });
            assert_eq!(left(&**node, &charges).await, expected, "{name}");
        }
        b.reset(&[spent[0].key]).await.expect("an answer");
        assert!(first(settle(&**b, &charges, &call(&name, 3, "")).await).passed, "{name}");
    }
}

/// Rules may change between two copies.
async fn other_rules_are_looked_at<S: Store>(
    [a, b]: &Nodes<S>,
    algorithm: Algorithm,
    clients: [&str; 3],
) {
    let nine = limit(algorithm, 9);
    let of = |rule: &'static str| one(key(rule, clients[0]), &nine);
    let name = format!("rules {}", clients[0]);
    let settled = first(settle(&**a, &[of("kept"), of("gone")], &call(&name, 1, "one")).await);
    for kind in Algorithm::ALL {
        let changed = limit(kind, 7);
        let rules = [of("kept"), of("new"), one(key("gone", clients[0]), &changed)];
        let again = settle(&**b, &rules, &call(&name, 1, "two")).await;
        let OpOutcome::Replayed { settlement, note } = again else { panic!("{name}: {again:?}") };
        assert_eq!((settlement.results[0], &*note), (settled.results[0], "one"), "{name}");
        assert_eq!(settlement.now, settled.now, "{name}");
        assert!(settlement.results.iter().all(|line| line.admitted), "{name}");
        assert_eq!(settlement.results[1].report.remaining, 9, "{name}");
    }
    assert_eq!(left(&**a, &[of("kept"), of("gone"), of("new")]).await, [8, 8, 9], "{name}");
}

async fn copies_at_once_are_charged_once<S: Store + 'static>(
    nodes: &Nodes<S>,
    clients: &[String; 3],
) {
    const COPIES: usize = 64;
    let hundred = limit(Algorithm::Gcra, 100);
    // Of one client there is only one counter.
    let distinct = if clients[0] == clients[1] { 1 } else { 3 };
    let mut copies = JoinSet::new();
    for (number, node) in (0..COPIES).zip(nodes.iter().cycle()) {
        let (node, clients) = (Arc::clone(node), clients.clone());
        copies.spawn(async move {
            let charges = clients.each_ref().map(|client| one(key("crowd", client), &hundred));
            let (name, note) = (format!("crowd {distinct}"), number.to_string());
            (settle(&*node, &charges[..distinct], &call(&name, 1, &note)).await, note)
        });
    }
    let answers = copies.join_all().await;
    let firsts = answers.iter().filter(|(answer, _)| matches!(answer, OpOutcome::Settled(_)));
    let firsts: Vec<_> = firsts.collect();
    let [(OpOutcome::Settled(settled), of_first)] = &firsts[..] else { panic!("{firsts:?}") };
    let expected = OpOutcome::Replayed { settlement: settled.clone(), note: of_first.clone() };
    assert_eq!(answers.iter().filter(|(answer, _)| *answer == expected).count(), COPIES - 1);
    for client in clients {
        let charges = [one(key("crowd", client), &hundred)];
        assert_eq!(left(&*nodes[0], &charges).await, [99], "{client}");
    }
}

async fn what_is_known_is_forgotten<S: Store>(node: &DenyCache<S>, clients: &[String; 3]) {
    let hundred = limit(Algorithm::FixedWindow, 100);
    let charges = [("short", 0), ("shorter", 2)]
        .map(|(rule, client)| one(key(rule, &clients[client]), &hundred));
    let name = format!("short {}", clients[1]);
    let once = IdempotencyKey { lifetime: Micros::new(300_000), ..call(&name, 1, "") };
    first(settle(node, &charges, &once).await);
    // There is no notification when a record expires.
    eventually("an end", || async {
        let again = matches!(settle(node, &charges, &once).await, OpOutcome::Replayed { .. });
        (!again).then_some(())
    })
    .await;
    assert_eq!(left(node, &charges).await, [98, 98]);
}

async fn keys_of_others_are_other_keys<S: Store>([a, b]: &Nodes<S>, knows_all: bool) {
    let hundred = limit(Algorithm::TokenBucket, 100);
    let about = |client: &'static str| [one(key("others", client), &hundred)];
    first(settle(&**a, &about("ann"), &call("others", 1, "")).await);
    let other = settle(&**b, &about("bob"), &call("others", 2, "")).await;
    assert_eq!(matches!(other, OpOutcome::KeyReused), knows_all, "{other:?}");
    first(settle(&**b, &about("ann"), &call("another key", 1, "")).await);
    assert_eq!(left(&**a, &about("ann")).await, [98]);
}
