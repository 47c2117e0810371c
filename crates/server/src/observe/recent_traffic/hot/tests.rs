//! Which counters are hot, from records of requests.

use super::*;
use tollgate::{Limiter, ManualClock, Micros, Request};

use crate::observe::audit_log::RequestContext;
use crate::observe::metrics::RequestOutcome;
use crate::observe::recent_traffic::RecentTraffic;
use crate::settings::ByteSize;

const START: u64 = 1_000_000;

/// Traffic of one node.
struct Scene {
    traffic: RecentTraffic,
    limiter: Limiter<tollgate::MemoryStore, ManualClock>,
    clock: ManualClock,
}

impl Scene {
    fn new(rules: &str) -> Self {
        let clock = ManualClock::at(Timestamp::from_secs(START));
        let policy = Policy::from_text(rules).expect("a policy");
        let limiter = Limiter::builder().policy(policy).clock(clock.clone()).build();
        // Requests are not kept for previews: samples do not depend on it.
        Self { traffic: RecentTraffic::new(ByteSize::mebibytes(0)), limiter, clock }
    }

    fn send(&self, request: &Request<'_>, times: usize) {
        for _ in 0..times {
            let decision = self.limiter.check(request).now();
            self.traffic.record(&decision, RequestOutcome::Allowed, &RequestContext::of(request));
        }
    }

    /// The hot counters, a second later: `rule name share-in-percent`.
    fn hot(&self, is_shared: bool) -> Vec<String> {
        let counters = self.counters(is_shared);
        let line =
            |it: &HotCounter| format!("{} {} {:.0}", it.rule_id, it.name, it.load.share * 100.0);
        counters.iter().map(line).collect()
    }

    fn counters(&self, is_shared: bool) -> Vec<HotCounter> {
        let (now, slices) = self.sampled();
        hottest(&slices, now, &self.limiter.policy(), is_shared)
    }

    fn busiest(&self) -> CounterLoad {
        let (now, slices) = self.sampled();
        busiest(&slices, now, &self.limiter.policy(), true)
    }

    /// The samples, a second later.
    fn sampled(&self) -> (Timestamp, Vec<SampledSlice>) {
        self.clock.advance(Micros::from_secs(1));
        let mut kept = self.traffic.kept.lock();
        kept.take(&self.traffic.tape);
        let now = tollgate::Clock::now(&self.clock);
        (now, kept.hot.of_window(now))
    }
}

const RULES: &str = "
rules:
  - {rule_id: per_user, limit: 1000000, window: 1h, identifier_type: user_id}
  - {rule_id: per_key, limit: 1000000, window: 1h, identifier_type: api_key}
  - {rule_id: beside, limit: 1000000, window: 1h, identifier_type: user_id, consistency: local}
";

#[test]
fn a_counter_with_a_large_share_is_hot_and_those_of_even_traffic_are_not() {
    let scene = Scene::new(RULES);
    let users: Vec<String> = (0..100).map(|number| format!("u{number}")).collect();
    for user in &users {
        scene.send(&Request::new().user_id(user), 20);
    }
    assert_eq!(scene.hot(true), [""; 0], "each has a hundredth");
    scene.send(&Request::new().user_id("mallory"), 2_000);
    let [hot] = scene.counters(true).try_into().expect("one");
    let HotCounter { rule_id, name, identifiers, load: CounterLoad { share, .. } } = hot;
    assert_eq!((rule_id.as_str(), name.as_str()), ("per_user", "mallory"));
    assert_eq!(identifiers, [("user_id".to_owned(), "mallory".to_owned())]);
    assert!((0.4..0.6).contains(&share), "a half: {share}");
    // A counter that each node has for itself is in its memory.
    let rules: Vec<String> = scene.counters(false).into_iter().map(|it| it.rule_id).collect();
    assert_eq!(rules.len(), 2, "{rules:?}");
    scene.clock.advance(Micros::from_secs(80));
    assert_eq!(scene.hot(true), [""; 0], "it is over");
}

#[test]
fn few_requests_make_no_counter_hot() {
    let scene = Scene::new(RULES);
    scene.send(&Request::new().user_id("ann"), 299);
    assert_eq!(scene.hot(true), [""; 0]);
    scene.send(&Request::new().user_id("ann"), 1);
    assert_eq!(scene.hot(true), ["per_user ann 100"]);
}

#[test]
fn the_busiest_counter_has_a_load_also_if_it_is_not_hot() {
    let scene = Scene::new(RULES);
    assert_eq!(scene.busiest(), CounterLoad::default());
    for user in 0..9 {
        scene.send(&Request::new().user_id(&format!("u{user}")), 1);
    }
    scene.send(&Request::new().user_id("ann"), 1);
    let CounterLoad { per_second, share } = scene.busiest();
    assert!((share - 0.1).abs() < 1e-9 && (per_second - 0.5).abs() < 1e-9, "{per_second} {share}");
    scene.send(&Request::new().user_id("ann"), 10);
    let CounterLoad { per_second, share } = scene.busiest();
    // 11 requests in 3 seconds, of 20.
    assert!((share - 0.55).abs() < 1e-9, "{share}");
    assert!((per_second - 11.0 / 3.0).abs() < 1e-9, "{per_second}");
}

#[test]
fn the_load_of_the_busiest_counter_is_not_worked_out_for_every_scrape() {
    let (kept, mut times) = (BusiestCounter::default(), 0);
    let load = CounterLoad { per_second: 7.0, share: 0.5 };
    // As fast as they come: no two of them are a second apart.
    let watch = Stopwatch::start();
    let mut reads = (0..1_000).map(|_| {
        kept.get(|| {
            times += 1;
            load
        })
    });
    assert!(reads.all(|read| read == load));
    assert!(times <= 1 + watch.elapsed().as_secs(), "{times} times");
}

#[test]
fn counters_of_all_requests_and_of_secrets_are_named_without_a_client() {
    let rules = "rules: [{rule_id: all, limit: 1000000, window: 1h, identifier_type: global},
        {rule_id: per_key, limit: 1000000, window: 1h, identifier_type: [api_key, tenant]}]";
    let scene = Scene::new(rules);
    scene.send(&Request::new().api_key("k").tenant("acme"), 400);
    let counters = scene.counters(true);
    let names: Vec<&str> = counters.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["all requests", "sha256:8254c329a928 / acme"]);
    assert_eq!(counters[0].identifiers, []);
    let key = ("api_key".to_owned(), "sha256:8254c329a928".to_owned());
    assert_eq!(counters[1].identifiers, [key, ("tenant".to_owned(), "acme".to_owned())]);
}

#[test]
fn samples_take_fixed_memory() {
    let scene = Scene::new(RULES);
    for _ in 0..200 {
        scene.send(&Request::new().user_id("ann"), 400);
        scene.clock.advance(Micros::from_secs(1));
        scene.traffic.kept.lock().take(&scene.traffic.tape);
    }
    let kept = scene.traffic.kept.lock();
    let samples = kept.hot.slices.iter().map(|slice| slice.samples.len());
    assert_eq!(samples.sum::<usize>(), SLICES * SAMPLES);
    let requests = kept.hot.slices.iter().rev().skip(1).map(|slice| slice.requests);
    assert!(
        requests.clone().all(|requests| requests == 4_000),
        "{:?}",
        requests.collect::<Vec<_>>()
    );
}
