//! Requests whose counters are in several slots of a cluster: charged slot by slot, and yet all or
//! nothing for the caller.

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Charge, Key, Limit, Mode};
use tollgate_store::redis::RedisStore;
use tollgate_store::{Settlement, Store as _, StoreErrorKind};
use tollgate_testbed::{Redis, RedisCluster};

use crate::redis::stand::{
    LONG, NO_TIME, cluster_url, connect, eventually, key, limit, one, patient, remaining, story,
};

/// A subject on each of the three masters.
struct Spread {
    cluster: RedisCluster,
    subjects: Vec<String>,
}

impl Spread {
    async fn start() -> Self {
        let cluster = RedisCluster::start(3, 0);
        // The remaining nodes have to serve their slots.
        for node in cluster.nodes() {
            node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        }
        let store = connect(&format!("{}?prefix=find:", cluster_url(&cluster)), patient()).await;
        let mut subjects: Vec<Option<String>> = vec![None; cluster.nodes().len()];
        for number in 0.. {
            let subject = format!("subject {number}");
            let before: Vec<i64> = cluster.nodes().iter().map(size).collect();
            let limit = limit(Algorithm::Gcra, 1, LONG);
            store.settle(&[one(key("find", &subject), &limit)], NO_TIME).await.expect("an answer");
            let after: Vec<i64> = cluster.nodes().iter().map(size).collect();
            let place = before.iter().zip(after).position(|(before, after)| *before != after);
            subjects[place.expect("a node that counts")].get_or_insert(subject);
            if subjects.iter().all(Option::is_some) {
                break;
            }
        }
        Self { cluster, subjects: subjects.into_iter().flatten().collect() }
    }

    async fn store(&self, prefix: &str) -> RedisStore {
        connect(&format!("{}?prefix={prefix}:", cluster_url(&self.cluster)), patient()).await
    }
}

fn size(node: &Redis) -> i64 {
    node.command(&["DBSIZE"]).integer()
}

/// However requests interleave, no limit is exceeded, and charges of refused ones are refunded.
async fn check_crossing(spread: &Spread, algorithm: Algorithm) {
    const LIMIT: u64 = 60;
    let name: &'static str = algorithm.name();
    let store = spread.store("crossing").await;
    let limit = limit(algorithm, LIMIT, LONG);
    let ask = |place: usize| {
        let (store, mut subjects) = (store.clone(), spread.subjects.clone());
        subjects.rotate_left(place % 3);
        if place % 2 == 1 {
            subjects.reverse();
        }
        async move {
            let charges: Vec<Charge<'_>> =
                subjects.iter().map(|subject| one(key(name, subject), &limit)).collect();
            store.settle(&charges, NO_TIME).await.expect("an answer").passed
        }
    };
    let mut crowd = JoinSet::new();
    for place in 0..120 {
        crowd.spawn(ask(place % 6));
    }
    let mut admitted = crowd.join_all().await.into_iter().filter(|passed| *passed).count() as u64;
    // Units charged for a moment may have refused other requests, but nothing is lost.
    while ask(0).await {
        admitted += 1;
    }
    assert_eq!(admitted, LIMIT, "{name}");
    for subject in &spread.subjects {
        assert_eq!(remaining(&store, key(name, subject), &limit).await, 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cross_each_other_never_get_more_than_the_limit() {
    let spread = Spread::start().await;
    for algorithm in Algorithm::ALL {
        check_crossing(&spread, algorithm).await;
    }
}

/// A charge: the number of its subject, its rule, the limit, the cost, and how.
type Part = (usize, &'static str, u64, u64, Mode);

fn figures(settled: &Settlement) -> (bool, Vec<(bool, u64)>) {
    let line = |line: &tollgate_core::ChargeResult| (line.admitted, line.report.remaining);
    (settled.passed, settled.results.iter().map(line).collect())
}

/// Requests, one after the other, and then a peek at all counters: a cluster has the results of a
/// single server.
async fn check_same(spread: &Spread, single: &Redis, algorithm: Algorithm, requests: &[&[Part]]) {
    let prefix = format!("{}-{requests:?}", algorithm.name())
        .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let spread_store = spread.store(&prefix).await;
    let single_store = connect(&format!("{}?prefix={prefix}:", single.url()), patient()).await;
    let all: Vec<Part> = requests.iter().copied().flatten().copied().collect();
    let looks =
        all.iter().map(|(subject, rule, limit, _, mode)| [(*subject, *rule, *limit, 0, *mode)]);
    let looks: Vec<[Part; 1]> = looks.collect();
    let steps = requests.iter().copied().chain(looks.iter().map(<[_; 1]>::as_slice));
    for (number, parts) in steps.enumerate() {
        let limits: Vec<Limit> =
            parts.iter().map(|(_, _, units, ..)| limit(algorithm, *units, LONG)).collect();
        let charge = |(part, limit)| {
            let (subject, rule, _, cost, mode): &Part = part;
            Charge { key: key(rule, &spread.subjects[*subject]), limit, cost: *cost, mode: *mode }
        };
        let charges: Vec<Charge<'_>> = parts.iter().zip(&limits).map(charge).collect();
        let mut answers = Vec::new();
        for store in [&single_store, &spread_store] {
            let settled = store.settle(&charges, NO_TIME).await.expect("an answer");
            answers.push(figures(&settled));
        }
        assert_eq!(answers[1], answers[0], "{algorithm:?}, step {number} of {requests:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_one_slot_leaves_the_others_as_they_were() {
    use Mode::{Debit, Enforce, Shadow};
    let (spread, single) = (Spread::start().await, Redis::start());
    let cases: &[&[&[Part]]] = &[
        // All fit, then one does not, in each place.
        &[
            &[(0, "a", 5, 2, Enforce), (1, "a", 5, 2, Enforce), (2, "a", 5, 2, Enforce)],
            &[(0, "a", 5, 4, Enforce), (1, "a", 5, 1, Enforce), (2, "a", 5, 1, Enforce)],
            &[(0, "a", 5, 1, Enforce), (1, "a", 5, 4, Enforce), (2, "a", 5, 1, Enforce)],
            &[(0, "a", 5, 1, Enforce), (1, "a", 5, 1, Enforce), (2, "a", 5, 4, Enforce)],
        ],
        // Several rules of a subject, of which one refuses.
        &[&[(0, "a", 5, 1, Enforce), (0, "b", 1, 2, Enforce), (1, "a", 5, 1, Enforce)]],
        &[&[(0, "a", 5, 1, Enforce), (0, "b", 5, 1, Enforce), (1, "a", 1, 2, Enforce)]],
        // A shadow charge refuses no request, and is not counted for a refused one.
        &[&[(0, "a", 5, 1, Enforce), (1, "a", 1, 2, Shadow)]],
        &[&[(0, "a", 1, 2, Enforce), (1, "a", 5, 2, Shadow)]],
        // A debit is taken in any case.
        &[&[(0, "a", 5, 1, Enforce), (1, "a", 5, 9, Debit)]],
        &[&[(0, "a", 1, 2, Enforce), (1, "a", 5, 3, Debit), (2, "a", 5, 3, Shadow)]],
        &[&[(0, "a", 1, 2, Enforce), (1, "a", 5, 3, Debit), (1, "b", 5, 3, Enforce)]],
        // Peeks charge nothing, and do not refuse.
        &[&[(0, "a", 5, 0, Enforce), (1, "a", 5, 1, Enforce), (2, "a", 1, 2, Enforce)]],
        // A limit of zero.
        &[&[(0, "a", 5, 1, Enforce), (1, "a", 0, 1, Enforce)]],
    ];
    for algorithm in Algorithm::ALL {
        for requests in cases {
            check_same(&spread, &single, algorithm, requests).await;
        }
    }
}

/// With one server down, a request gets an error, and the charges on the others are refunded.
async fn check_away(spread: &Spread, store: &RedisStore, rule: &str, expected: StoreErrorKind) {
    let limit = limit(Algorithm::SlidingWindowLog, 10, LONG);
    let keys: Vec<Key<'_>> = spread.subjects.iter().map(|subject| key(rule, subject)).collect();
    let charges: Vec<Charge<'_>> = keys.iter().map(|key| one(*key, &limit)).collect();
    let error = store.settle(&charges, NO_TIME).await.expect_err("a server that is away");
    assert_eq!(error.kind(), expected, "{}", story(&error));
    for key in &keys[1..] {
        assert_eq!(remaining(store, *key, &limit).await, 10, "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_are_refunded_when_another_server_is_unavailable() {
    let spread = Spread::start().await;
    let url = cluster_url(&spread.cluster);
    let deadline = std::time::Duration::from_millis(500);
    let store = connect(&url, tollgate_store::RemoteSettings { deadline, ..patient() }).await;
    let away = &spread.cluster.nodes()[0];
    away.pause();
    check_away(&spread, &store, "paused", StoreErrorKind::Timeout).await;
    away.resume();
    let limit = limit(Algorithm::Gcra, 10, LONG);
    eventually("a server that answers again", || async {
        store.settle(&[one(key("back", &spread.subjects[0]), &limit)], NO_TIME).await.ok()
    })
    .await;
    away.kill();
    check_away(&spread, &store, "killed", StoreErrorKind::Unavailable).await;
}
