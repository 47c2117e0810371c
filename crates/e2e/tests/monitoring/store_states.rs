//! States of a shared store: slow, killed, unavailable for a moment, with another clock.

use std::time::Duration;

use serde_json::json;
use tollgate_testbed::{Fault, FaultProxy, Redis};

use crate::timeline::Timeline;
use crate::{USUAL_CHECKS, check, clients};
use tollgate_e2e::client::request;
use tollgate_e2e::clock::SettableClock;
use tollgate_e2e::server::{JSON, Server, Setup};
use tollgate_e2e::until;

const RULES: &str = "
rules:
  - {rule_id: local, limit: 1000, window: 300d, identifier_type: user_id}
  - {rule_id: open, limit: 1000, window: 300d, identifier_type: tenant, on_store_failure: open}
  - {rule_id: closed, limit: 1000, window: 300d, identifier_type: api_key, on_store_failure: closed}
";
const BATCH: &str = "/api/v1/rate-limit/check/batch";
/// A longer deadline than the default, for a busy machine.
const SETTINGS: &str = "store_failure: {deadline: 2s, failures: 3, probe_after: 200ms}";

/// All requests charge one counter.
const GLOBAL: &str = "
rules:
  - {rule_id: all, limit: 100000000, window: 300d, identifier_type: global}
";

fn start(url: &str, environment: &[(&str, &str)]) -> Server {
    start_with(RULES, url, environment)
}

fn start_with(rules: &str, url: &str, environment: &[(&str, &str)]) -> Server {
    let arguments = ["--store", url];
    Server::start(&Setup {
        rules: Some(rules),
        settings: SETTINGS,
        arguments: &arguments,
        environment,
    })
}

fn figure(server: &Server, metric: &str, labels: &str) -> f64 {
    let text = server.get("/metrics").text();
    let sample = format!("{metric}{{{labels}}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(sample.as_str()));
    value.map_or(0.0, |value| value.parse().expect("a number"))
}

fn is_up(server: &Server, name: &str) -> bool {
    figure(server, "tollgate_store_up", &format!("server=\"{name}\"")) > 0.5
}

/// The server gets the usual checks for so many minutes, and all calls to the store are fast: a busy machine may
/// delay some, and then they are made again.
fn lasts_with_a_fast_store(
    timeline: &mut Timeline<'_>,
    server: &Server,
    name: &str,
    minutes: usize,
) {
    lasts_with_a_fast_store_if(timeline, server, name, minutes, || true);
}

/// The server gets the usual checks for so many minutes in a state that is made anew if calls to the store were slow.
fn lasts_with_a_fast_store_if(
    timeline: &mut Timeline<'_>,
    server: &Server,
    name: &str,
    minutes: usize,
    is_in_state: impl Fn() -> bool,
) {
    let slow_calls = || {
        let own = format!("server=\"{name}\"");
        let fast = format!("le=\"0.01\",{own}");
        figure(server, "tollgate_store_request_seconds_count", &own)
            - figure(server, "tollgate_store_request_seconds_bucket", &fast)
    };
    until("calls to the store that are fast", || {
        if !is_in_state() {
            return None;
        }
        let before = slow_calls();
        timeline.lasts(minutes, || check(server, "user_id", clients("user", USUAL_CHECKS)));
        let is_fast = slow_calls() <= before && is_up(server, name);
        if !is_fast {
            timeline.forget_last();
        }
        is_fast.then_some(())
    });
}

/// A server whose store has responded fast for 20 minutes.
fn healthy<'a>(server: &'a Server, name: &str) -> Timeline<'a> {
    check(server, "user_id", clients("user", 1));
    let mut timeline = Timeline::of(server);
    lasts_with_a_fast_store(&mut timeline, server, name, 20);
    timeline
}

#[test]
fn the_store_is_slow() {
    let redis = Redis::start();
    let proxy = FaultProxy::start(redis.address());
    let name = proxy.address().to_string();
    let server = start(&format!("redis://{name}/"), &[]);
    let mut timeline = healthy(&server, &name);
    let (to_server, to_client) = (Duration::ZERO, Duration::from_millis(60));
    proxy.set(Fault::Latency { to_server, to_client });
    timeline.lasts(9, || check(&server, "user_id", clients("user", USUAL_CHECKS)));
    timeline.fires(&["TollgateStoreSlow"]);
}

/// What else fires depends on `on_store_failure` of the rules that are used.
fn the_store_is_killed(identifier: &str, more: &[&str]) {
    let redis = Redis::start();
    let name = redis.address().to_string();
    let server = start(&redis.url(), &[]);
    let mut timeline = healthy(&server, &name);
    redis.kill();
    until("an open circuit breaker", || (!is_up(&server, &name)).then_some(()));
    timeline.lasts(9, || check(&server, identifier, clients("client", USUAL_CHECKS)));
    let expected = [&["TollgateStoreBreakerOpened", "TollgateStoreUnavailable"][..], more].concat();
    timeline.fires(&expected);
}

#[test]
fn the_store_is_killed_and_a_rule_counts_on_this_node() {
    the_store_is_killed("user_id", &["TollgateStoreFallback"]);
}

#[test]
fn the_store_is_killed_and_a_rule_fails_open() {
    the_store_is_killed("tenant", &["TollgateFailOpen"]);
}

#[test]
fn the_store_is_killed_and_a_rule_fails_closed() {
    the_store_is_killed("api_key", &["TollgateRequestsNotChecked", "TollgateStoreFallback"]);
}

#[test]
fn the_store_does_not_respond_for_a_moment() {
    let redis = Redis::start();
    let name = redis.address().to_string();
    let server = start(&redis.url(), &[]);
    let mut timeline = healthy(&server, &name);
    redis.pause();
    // Without checks, the server probes its store.
    until("an open circuit breaker", || (!is_up(&server, &name)).then_some(()));
    redis.resume();
    until("a closed circuit breaker", || is_up(&server, &name).then_some(()));
    lasts_with_a_fast_store(&mut timeline, &server, &name, 9);
    timeline.fires(&["TollgateStoreBreakerOpened"]);
}

#[test]
fn the_clocks_differ() {
    let (clock, redis) = (SettableClock::new(), Redis::start());
    let name = redis.address().to_string();
    let server = start(&redis.url(), &clock.environment());
    let mut timeline = healthy(&server, &name);
    clock.set_ahead();
    lasts_with_a_fast_store(&mut timeline, &server, &name, 9);
    timeline.fires(&["TollgateClockDrift"]);
}

/// So many requests that are allowed fired no alert: only refusals were looked at. A rule that counts all requests together
/// does not fire it as long as they are few.
#[test]
fn one_counter_gets_most_requests_and_all_of_them_pass() {
    let redis = Redis::start();
    let name = redis.address().to_string();
    let server = start_with(GLOBAL, &redis.url(), &[]);
    let mut timeline = healthy(&server, &name);
    until("the share of the rule", || {
        (server.figure("tollgate_hot_key_ratio") > 0.99).then_some(())
    });
    lasts_with_a_fast_store(&mut timeline, &server, &name, 9);
    timeline.fires(&[]);
    let checks = json!({"checks": vec![json!({"detail": false}); 1_000]}).to_string();
    let is_hot = || {
        let mut connection = server.connect();
        for _ in 0..5 {
            let answer = connection.ask(&request("POST", BATCH, &[JSON], checks.as_bytes()));
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        // The rate of the next minute falls with every second.
        server.figure("tollgate_hot_key_requests_per_second") > 1_500.0
    };
    lasts_with_a_fast_store_if(&mut timeline, &server, &name, 9, is_hot);
    timeline.fires(&["TollgateHotKey"]);
    let refused = "tollgate_decisions_total{rule_id=\"all\",outcome=\"refused\"}";
    assert!(server.figure(refused) < 0.5, "all of them pass");
}
