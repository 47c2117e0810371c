//! From a decision to the top lists, and to a request that can be checked again.

use std::ops::ControlFlow;

use super::*;
use tollgate::{Attribute, Attributes as _, Limiter, ManualClock, Request};

use crate::observe::fleet_figures::merge_top;
use crate::observe::recent_traffic::top::RankedBy;

const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 2, window: 1h, identifier_type: user_id}
  - {rule_id: per_device, limit: 9, window: 1h, identifier_type: 'header:x-device', applies_to: {attributes: {'header:x-region': [eu]}}}
";

fn limiter(clock: &ManualClock) -> Limiter<tollgate::MemoryStore, ManualClock> {
    let policy = tollgate::Policy::from_text(POLICY).expect("a policy");
    Limiter::builder().policy(policy).clock(clock.clone()).build()
}

fn record(
    traffic: &RecentTraffic,
    limiter: &Limiter<tollgate::MemoryStore, ManualClock>,
    request: &Request<'_>,
) {
    let decision = limiter.check(request).now();
    let outcome =
        if decision.is_allowed() { RequestOutcome::Allowed } else { RequestOutcome::Refused };
    let endpoint = request.get(Attribute::Path);
    traffic.record(&decision, outcome, &RequestContext { endpoint, ..RequestContext::of(request) });
}

#[test]
fn a_candidate_is_named_where_it_would_refuse_and_its_rule_where_the_limit_is_near() {
    let text = "rules: [{rule_id: api, limit: 10, window: 1h, identifier_type: user_id, candidate: {limit: 2}}]";
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let policy = tollgate::Policy::from_text(text).expect("a policy");
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build();
    let traffic = RecentTraffic::new(ByteSize::mebibytes(1));
    for _ in 0..10 {
        record(&traffic, &limiter, &Request::new().user_id("mallory"));
    }
    let ask = |by| TopAsk { window_seconds: 60, limit: 10, by, ..TopAsk::default() };
    let rule = |list: &top::RankedList| list.entries[0].rule_id.clone();
    let top = traffic.top(&ask(RankedBy::Client), clock_now(&clock));
    assert_eq!(rule(&top.near_limit).as_deref(), Some("api"));
    assert_eq!(rule(&top.would_refuse).as_deref(), Some("api~candidate"));
    let by_rule = traffic.top(&ask(RankedBy::Rule), clock_now(&clock));
    let names = |list: &top::RankedList| -> Vec<String> {
        list.entries.iter().map(|it| format!("{} {}", it.name, it.count)).collect()
    };
    assert_eq!(names(&by_rule.busiest), ["api 10"]);
    assert_eq!(names(&by_rule.would_refuse), ["api~candidate 8"]);
}

/// Only the first shadow rule that would have refused used to be counted.
#[test]
fn every_rule_that_would_refuse_is_counted_with_its_clients() {
    let text = "
rules:
  - {rule_id: api, limit: 60, window: 1h, identifier_type: user_id, candidate: {limit: 2}}
  - {rule_id: watch, limit: 3, window: 1h, identifier_type: user_id, action: log_only}
";
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let policy = tollgate::Policy::from_text(text).expect("a policy");
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build();
    let traffic = RecentTraffic::new(ByteSize::mebibytes(1));
    for (user, times) in [("bob", 10), ("ann", 3)] {
        for _ in 0..times {
            record(&traffic, &limiter, &Request::new().user_id(user).path("/orders"));
        }
        // Another slice.
        clock.advance(Micros::from_secs(20));
    }
    let figures = |by| {
        let ask = TopAsk { window_seconds: 300, limit: 10, by, ..TopAsk::default() };
        traffic.top(&ask, clock_now(&clock))
    };
    let pairs = |list: &top::RankedList| -> Vec<String> {
        let rule = |it: &top::RankedEntry| it.rule_id.clone().unwrap_or_default();
        list.entries.iter().map(|it| format!("{} {} {}", it.name, rule(it), it.count)).collect()
    };
    let by_client = figures(RankedBy::Client);
    let expected = ["bob api~candidate 8", "bob watch 7", "ann api~candidate 1"];
    assert_eq!(pairs(&by_client.would_refuse), expected);
    assert_eq!(pairs(&by_client.busiest), ["bob  10", "ann  3"], "each client once");
    let by_rule = figures(RankedBy::Rule);
    assert_eq!(pairs(&by_rule.would_refuse), ["api~candidate  9", "watch  7"]);
    let by_endpoint = figures(RankedBy::Endpoint);
    assert_eq!(pairs(&by_endpoint.would_refuse), ["/orders api~candidate 9", "/orders watch 7"]);
    // Added up over nodes, pairs stay apart.
    let merged = merge_top(&by_client, std::slice::from_ref(&by_client), 10);
    let expected = ["bob api~candidate 16", "bob watch 14", "ann api~candidate 2"];
    assert_eq!(pairs(&merged.would_refuse), expected);
}

#[test]
fn a_record_names_a_bounded_number_of_shadow_rules() {
    let rule = |at: usize| {
        format!(
            "  - {{rule_id: r{at}, limit: 1, window: 1h, identifier_type: user_id, action: log_only}}\n"
        )
    };
    let text = format!("rules:\n{}", (0..20).map(rule).collect::<String>());
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let policy = tollgate::Policy::from_text(&text).expect("a policy");
    let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build();
    let traffic = RecentTraffic::new(ByteSize::mebibytes(1));
    for _ in 0..2 {
        record(&traffic, &limiter, &Request::new().user_id("bob"));
    }
    let ask = TopAsk { window_seconds: 60, limit: 100, by: RankedBy::Rule, ..TopAsk::default() };
    assert_eq!(traffic.top(&ask, clock_now(&clock)).would_refuse.entries.len(), 8);
}

#[test]
fn requests_that_fail_closed_are_ranked_as_refused() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let (limiter, traffic) = (limiter(&clock), RecentTraffic::new(ByteSize::mebibytes(1)));
    let request = Request::new().user_id("ann");
    let decision = limiter.check(&request).now();
    traffic.record(&decision, RequestOutcome::Error, &RequestContext::of(&request));
    let ask = TopAsk { window_seconds: 60, limit: 10, ..TopAsk::default() };
    assert_eq!(traffic.top(&ask, clock_now(&clock)).refused.entries.len(), 1);
}

#[test]
fn every_request_is_ranked_and_kept_without_its_secrets() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let (limiter, traffic) = (limiter(&clock), RecentTraffic::new(ByteSize::mebibytes(1)));
    let ann =
        || Request::new().user_id("ann").tenant("acme").path("/orders?secret=1").method("GET");
    for _ in 0..3 {
        record(&traffic, &limiter, &ann());
        clock.advance(Micros::from_secs(1));
    }
    let device = Request::new()
        .api_key("k")
        .ip("10.0.0.1")
        .host("api.example.com")
        .with(Attribute::Header("x-device"), "phone-1")
        .with(Attribute::Header("x-region"), "eu")
        .with(Attribute::Header("x-other"), "not referred to")
        .cost(3);
    record(&traffic, &limiter, &device);
    let ask = TopAsk { window_seconds: 60, limit: 10, ..TopAsk::default() };
    let top = traffic.top(&ask, clock_now(&clock));
    let names = |list: &top::RankedList| -> Vec<String> {
        list.entries.iter().map(|it| format!("{} {}", it.name, it.count)).collect()
    };
    assert_eq!(names(&top.busiest), ["ann 3", "sha256:8254c329a928 1"]);
    assert_eq!(names(&top.refused), ["ann 1"]);
    assert_eq!(top.refused.entries[0].rule_id.as_deref(), Some("per_user"));
    // The second of two is at the limit.
    assert_eq!(names(&top.near_limit), ["ann 1"]);
    assert_eq!(top.near_limit.entries[0].used_percent, Some(100));
    let endpoints = traffic.top(&TopAsk { by: RankedBy::Endpoint, ..ask }, clock_now(&clock));
    assert_eq!(names(&endpoints.busiest), ["/orders 3"]);

    let digest = "sha256:8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";
    let view = traffic.view().expect("a ring");
    let mut seen = Vec::new();
    let replayed = view.replay(u64::MAX, None, |request| {
        seen.push(request.at.as_micros() / 1_000_000);
        if request.client.number == 1 {
            let get = |attribute| request.get(attribute);
            assert_eq!(get(Attribute::ApiKey), Some(digest));
            assert_eq!(request.api_key_digest(), Some(digest));
            assert_eq!(get(Attribute::Ip), Some("10.0.0.1"));
            assert_eq!(get(Attribute::Host), Some("api.example.com"));
            assert_eq!(get(Attribute::Header("x-region")), Some("eu"));
            let device = get(Attribute::Header("x-device")).expect("a device");
            assert!(device.starts_with("sha256:"), "{device}");
            assert_eq!(get(Attribute::Header("x-other")), None);
            assert_eq!(request.cost(), 3);
        } else {
            assert_eq!(request.get(Attribute::Path), Some("/orders"));
            assert_eq!(request.get(Attribute::Tenant), Some("acme"));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(seen, [1_000, 1_001, 1_002, 1_003]);
    assert_eq!((replayed.one_in, replayed.is_cut), (1, false));
    let clients: Vec<&str> = replayed.clients.iter().map(|it| it.client.as_str()).collect();
    assert_eq!(clients, ["ann", "sha256:8254c329a928"]);
    // The secret is nowhere.
    let bytes: Vec<u8> = view.blocks.iter().flat_map(|block| block.bytes.clone()).collect();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("phone-1") && !text.contains("secret"), "{text}");
    let mut of_acme = 0;
    view.replay(u64::MAX, Some("acme"), |_| {
        of_acme += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(of_acme, 3);
}

fn clock_now(clock: &ManualClock) -> Timestamp {
    tollgate::Clock::now(clock)
}

#[test]
fn without_a_ring_requests_are_only_ranked() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let (limiter, traffic) = (limiter(&clock), RecentTraffic::new(ByteSize::mebibytes(0)));
    record(&traffic, &limiter, &Request::new().user_id("ann"));
    assert!(traffic.view().is_none());
    let ask = TopAsk { window_seconds: 60, limit: 10, ..TopAsk::default() };
    assert_eq!(traffic.top(&ask, clock_now(&clock)).busiest.entries.len(), 1);
    assert_eq!(traffic.size(), TrafficSize::default());
}

/// Records of several threads are taken in the order of time.
#[test]
fn records_of_several_buffers_are_merged_by_time() {
    let traffic = RecentTraffic::new(ByteSize::mebibytes(1));
    let clocks: Vec<u64> = (0..8).collect();
    std::thread::scope(|scope| {
        for thread in &clocks {
            let traffic = &traffic;
            scope.spawn(move || {
                let clock = ManualClock::at(Timestamp::from_micros(1_000_000_000 + thread));
                let limiter = limiter(&clock);
                for _ in 0..500 {
                    record(traffic, &limiter, &Request::new().user_id("ann").path("/"));
                    clock.advance(Micros::new(8));
                }
            });
        }
    });
    let mut times = Vec::new();
    traffic.view().expect("a ring").replay(u64::MAX, None, |request| {
        times.push(request.at.as_micros());
        ControlFlow::Continue(())
    });
    assert_eq!(times.len() as u64 + traffic.lost(), 4_000);
    assert!(times.is_sorted(), "{times:?}");
    assert!(traffic.lost() > 0 || (1_000_000_000..1_000_004_000).eq(times));
}
