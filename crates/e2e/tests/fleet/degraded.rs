//! A store fails under load: no client sees an error or waits, each rule applies its
//! `on_store_failure`, and afterwards the store is used again.

use std::time::Duration;

use tollgate_testbed::{Fault, FaultProxy, Postgres, Redis};

use crate::load::{Load, Question, Sighting, Verdict};
use crate::nodes;
use tollgate_e2e::server::Server;
use tollgate_e2e::until;

const NODES: usize = 2;
const LIMIT: usize = 40;
const FACTOR: usize = 3;
const DEADLINE: Duration = Duration::from_millis(250);
/// What a busy machine may add: less than any of these outages lasts.
const SLACK: Duration = Duration::from_millis(2_500);
const OUTAGE: Duration = Duration::from_secs(3);

const SETTINGS: &str = "store_failure: {deadline: 250ms, failures: 3, probe_after: 200ms}";

const LOCAL: &str = "counted_by_each_node";
const CLOSED: &str = "refused_meanwhile";
const OPEN: &str = "passed_meanwhile";

fn rules() -> String {
    format!(
        "rules:
- {{rule_id: {LOCAL}, limit: {LIMIT}, window: 300d, identifier_type: user_id, \
    on_store_failure: local, fallback_factor: {FACTOR}}}
- {{rule_id: {CLOSED}, limit: 1000000000, window: 300d, identifier_type: user_id, \
    on_store_failure: closed}}
- {{rule_id: {OPEN}, limit: 1000000000, window: 300d, identifier_type: user_id, \
    on_store_failure: open}}
"
    )
}

/// How a store fails and comes back.
struct Outage<'a> {
    what: &'a str,
    url: String,
    /// What nodes call it.
    server: String,
    begin: &'a dyn Fn(),
    end: &'a dyn Fn(),
    /// Whether it may have forgotten counters.
    forgets: bool,
}

/// The decision of a rule during an outage, when its limit is exhausted.
fn is_without_store(question: &Question, verdict: Verdict) -> bool {
    let is_allowed = question.rule == OPEN;
    let is_closed = question.rule == CLOSED;
    verdict == Verdict { is_allowed, is_degraded: true, is_closed }
}

fn check(outage: &Outage<'_>) {
    let nodes = nodes::start(NODES, &outage.url, &rules(), SETTINGS);
    let questions = [LOCAL, CLOSED, OPEN].map(|rule| Question { rule, client: "alice".to_owned() });
    let mut over = Duration::ZERO;
    let seen = Load::run(&nodes, &questions, |load| {
        load.until_each("answers of the store", Duration::ZERO, |question, verdict| {
            // The small limit is exhausted by then.
            !verdict.is_degraded && verdict.is_allowed == (question.rule != LOCAL)
        });
        nodes.iter().for_each(|node| check_figures(node, &outage.server, true));
        let began = load.now();
        (outage.begin)();
        load.until_each("answers without the store", began, is_without_store);
        nodes.iter().for_each(|node| check_figures(node, &outage.server, false));
        load.wait(began, OUTAGE);
        (outage.end)();
        over = load.now();
        load.until_each("answers of the store again", over, |_, verdict| !verdict.is_degraded);
        nodes.iter().for_each(|node| check_figures(node, &outage.server, true));
    });
    check_answers(outage, &questions, &seen);
    nodes.iter().for_each(|node| check_log(node, &outage.server));
    let last = seen.iter().filter(|one| one.is_degraded()).map(|one| one.at).max();
    let recovery = last.map_or(Duration::ZERO, |last| last.saturating_sub(over));
    let longest = seen.iter().map(|sighting| sighting.took).max().unwrap_or_default();
    println!(
        "{}: {} answers, the slowest after {longest:?}, recovered {recovery:?} after its end",
        outage.what,
        seen.len()
    );
}

fn check_answers(outage: &Outage<'_>, questions: &[Question], seen: &[Sighting]) {
    let what = outage.what;
    for sighting in seen {
        let rule = questions[sighting.question].rule;
        let verdict = sighting.verdict.as_ref();
        let verdict = verdict.unwrap_or_else(|error| panic!("{what}, {rule}: {error}"));
        assert!(sighting.took <= DEADLINE + SLACK, "{what}, {rule}: waited {:?}", sighting.took);
        if verdict.is_degraded && rule != LOCAL {
            let question = &questions[sighting.question];
            assert!(is_without_store(question, *verdict), "{what}, {rule}: {verdict:?}");
        }
    }
    let admitted = |is_degraded: bool| {
        let local = seen.iter().filter(|one| questions[one.question].rule == LOCAL);
        local.filter(|one| one.is_allowed() && one.is_degraded() == is_degraded).count()
    };
    // Requests were sent until one was refused, so all that may pass has passed.
    assert_eq!(admitted(true), NODES * FACTOR * LIMIT, "{what}: without the store");
    let most = if outage.forgets { 2 * LIMIT } else { LIMIT };
    let found = admitted(false);
    assert!(found <= most, "{what}: the store let {found} pass, {most} are allowed");
}

/// What a node reports about its store.
fn check_figures(node: &Server, server: &str, is_up: bool) {
    let figure = |name: &str| node.figure(&format!("tollgate_store_{name}{{server=\"{server}\"}}"));
    assert_eq!(figure("up") > 0.5, is_up);
    assert!(is_up || figure("breaker_opened_total") > 0.5, "it is known how often that happened");
    assert!(figure("clock_drift_seconds").abs() < 1.0, "one machine has one clock");
    // A single late call, as on a busy machine, is a failure until the next one.
    until("what /health/ready says of the store", || {
        let ready = node.get("/health/ready");
        assert_eq!(ready.status, 200, "a node decides without its store too: {ready:?}");
        let store = &ready.json()["store"][0];
        assert_eq!(store["server"], server);
        (store["answers"] == is_up).then_some(())
    });
}

/// There is one log line when the circuit breaker opens, one when it closes, and none but that of the start besides,
/// whatever the traffic.
fn check_log(node: &Server, server: &str) {
    let log = node.process.errors();
    let openings =
        node.figure(&format!("tollgate_store_breaker_opened_total{{server=\"{server}\"}}"));
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    let (opened, back) = (lines("circuit breaker opened"), lines("circuit breaker closed"));
    assert!((1..=3).contains(&opened), "{log}");
    assert!((opened as f64 - openings).abs() < 0.5 && back == opened, "{openings}: {log}");
    let at_start = lines(" started ") + lines("the fleet has no secret");
    // A store that forgets may be noticed; connecting takes long while PostgreSQL recovers.
    let besides = lines("the store lost its data") + lines("time to acquire exceeded");
    assert_eq!(log.lines().count(), opened + back + at_start + besides, "{log}");
}

#[test]
fn redis_is_killed() {
    let redis = Redis::start();
    check(&Outage {
        what: "Redis killed",
        url: redis.url(),
        server: redis.address().to_string(),
        begin: &|| redis.kill(),
        end: &|| redis.restart(),
        forgets: true,
    });
}

#[test]
fn redis_hangs() {
    let redis = Redis::start();
    check(&Outage {
        what: "Redis stopped",
        url: redis.url(),
        server: redis.address().to_string(),
        begin: &|| redis.pause(),
        end: &|| redis.resume(),
        forgets: false,
    });
}

#[test]
fn the_network_to_redis_is_silent() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    check(&Outage {
        what: "connection to Redis half open",
        url: format!("redis://{}", proxy.address()),
        server: proxy.address().to_string(),
        begin: &|| proxy.set(Fault::Silence),
        end: &|| proxy.set(Fault::Pass),
        forgets: false,
    });
}

#[test]
fn postgres_is_killed() {
    let postgres = Postgres::start();
    check(&Outage {
        what: "PostgreSQL killed",
        url: postgres.url(),
        server: format!("127.0.0.1:{}/postgres", postgres.port()),
        begin: &|| postgres.kill(),
        end: &|| postgres.restart(),
        // Its table is one that PostgreSQL empties after a crash.
        forgets: true,
    });
}
