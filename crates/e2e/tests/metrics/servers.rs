//! Metrics of a shared store, with a real Redis and a real PostgreSQL that fail.

use serde_json::json;
use tollgate_testbed::{Postgres, Redis};

use crate::{grows, value};
use tollgate_e2e::clock::SettableClock;
use tollgate_e2e::server::{Server, Setup};
use tollgate_e2e::until;

const RULES: &str = "
rules:
  - {rule_id: local, limit: 1, window: 300d, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: open, limit: 9, window: 300d, identifier_type: tenant, on_store_failure: open}
  - {rule_id: closed, limit: 9, window: 300d, identifier_type: api_key, on_store_failure: closed}
";
const SETTINGS: &str =
    "{store_failure: {deadline: 1s, failures: 3, probe_after: 200ms}, deny_cache: 1s}";

fn start(store: &str, environment: &[(&str, &str)]) -> Server {
    let arguments = ["--store", store];
    let setup =
        Setup { rules: Some(RULES), settings: SETTINGS, arguments: &arguments, environment };
    Server::start(&setup)
}

fn check(server: &Server, identifier: &str, client: &str) {
    server.check(&json!({"identifiers": {identifier: client}}).to_string());
}

/// The metrics of a node while its store responds, and once it does not.
fn see_it_go(server: &Server, name: &str, go: impl FnOnce(), kinds: &[&str]) {
    let of = |metric: &str| format!("{metric}{{server=\"{name}\"}}");
    check(server, "user_id", "ann");
    assert!(value(server, &of("tollgate_store_up")) > 0.5);
    grows(server, &of("tollgate_store_calls_total"), || check(server, "user_id", "bob"));
    grows(server, &of("tollgate_store_request_seconds_count"), || check(server, "user_id", "eve"));
    grows(server, &of("tollgate_store_request_seconds_sum"), || check(server, "user_id", "dan"));
    grows(server, "tollgate_store_duration_seconds_count", || check(server, "user_id", "joe"));
    // Within a second, a refused client is refused again without a call to the store.
    until("a refusal without a call", || {
        check(server, "user_id", "ann");
        (value(server, "tollgate_deny_cache_hits_total") > 0.0).then_some(())
    });

    go();
    let errors = |kind: &str| {
        let labels = format!("server=\"{name}\",kind=\"{kind}\"");
        value(server, &format!("tollgate_store_errors_total{{{labels}}}"))
    };
    grows(server, &of("tollgate_store_breaker_opened_total"), || {
        (0..3).for_each(|number| check(server, "user_id", &format!("away{number}")));
    });
    until("an open circuit breaker", || {
        (value(server, &of("tollgate_store_up")) < 0.5).then_some(())
    });
    grows(server, "tollgate_requests_degraded_total", || check(server, "user_id", "fay"));
    let counted: f64 = kinds.iter().map(|kind| errors(kind)).sum();
    assert!(counted >= 3.0, "{counted} errors of {kinds:?}");
    for (identifier, rule, mode) in
        [("user_id", "local", "local"), ("tenant", "open", "open"), ("api_key", "closed", "closed")]
    {
        let labels = format!("rule_id=\"{rule}\",mode=\"{mode}\"");
        let sample = format!("tollgate_store_fallbacks_total{{{labels}}}");
        grows(server, &sample, || check(server, identifier, "late"));
    }
}

#[test]
fn redis_is_killed() {
    let redis = Redis::start();
    let server = start(&redis.url(), &[]);
    see_it_go(&server, &redis.address().to_string(), || redis.kill(), &["connection", "timeout"]);
}

#[test]
fn redis_hangs() {
    let redis = Redis::start();
    let server = start(&redis.url(), &[]);
    see_it_go(&server, &redis.address().to_string(), || redis.pause(), &["timeout"]);
}

#[test]
fn postgres_is_killed() {
    let postgres = Postgres::start();
    let server = start(&postgres.url(), &[]);
    let name = format!("127.0.0.1:{}/postgres", postgres.port());
    see_it_go(&server, &name, || postgres.kill(), &["connection", "timeout"]);
}

/// What `/health/ready` and `/metrics` say of a store was as old as the last check.
fn see_it_go_without_checks(url: &str, name: &str, go: impl FnOnce(), come_back: impl FnOnce()) {
    let server = start(url, &[]);
    let is_up = || {
        let up = value(&server, &format!("tollgate_store_up{{server=\"{name}\"}}")) > 0.5;
        let ready = server.get("/health/ready").json();
        assert_eq!(ready["store"][0]["server"], name);
        (up, ready["store"][0]["answers"] == true)
    };
    let calls = || value(&server, "tollgate_store_duration_seconds_count");
    until("the store", || (is_up() == (true, true)).then_some(()));
    go();
    until("the store to be missed", || (is_up() == (false, false)).then_some(()));
    come_back();
    until("the store to be found again", || (is_up() == (true, true)).then_some(()));
    assert!(calls() < 0.5, "no check was made");
}

#[test]
fn an_idle_node_notices_that_its_redis_goes_away_and_comes_back() {
    let redis = Redis::start();
    let name = redis.address().to_string();
    see_it_go_without_checks(&redis.url(), &name, || redis.pause(), || redis.resume());
}

#[test]
fn an_idle_node_notices_that_its_postgres_goes_away_and_comes_back() {
    let postgres = Postgres::start();
    let name = format!("127.0.0.1:{}/postgres", postgres.port());
    see_it_go_without_checks(&postgres.url(), &name, || postgres.kill(), || postgres.restart());
}

#[test]
fn clocks_that_differ() {
    let clock = SettableClock::new();
    clock.set_ahead();
    let (redis, postgres) = (Redis::start(), Postgres::start());
    for (url, name) in [
        (redis.url(), redis.address().to_string()),
        (postgres.url(), format!("127.0.0.1:{}/postgres", postgres.port())),
    ] {
        let server = start(&url, &clock.environment());
        check(&server, "user_id", "ann");
        let drift =
            value(&server, &format!("tollgate_store_clock_drift_seconds{{server=\"{name}\"}}"));
        assert!((-95.0..-85.0).contains(&drift), "{name}: {drift}");
        until("a warning in the log", || {
            server.process.errors().contains("the store's clock is far from ours").then_some(())
        });
    }
}
