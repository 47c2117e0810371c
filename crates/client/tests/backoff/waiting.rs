//! The wait before a retry: as long as asked, plus jitter.

use std::time::Duration;

use http::{Response, StatusCode};
use proptest::prelude::*;
use tollgate_client::backoff::BackoffLayer;

use crate::scene::{Scene, answer, get, status};

const URI: &str = "http://api.example.com/orders";
const CHANCE: Duration = Duration::from_millis(100);
/// Timers have a resolution of a millisecond, and never end too early.
const TICK: Duration = Duration::from_millis(2);

#[tokio::test(start_paused = true)]
async fn every_form_of_asking_is_honoured() {
    async fn check(code: u16, fields: &[(&str, &str)], asked: u64) {
        let scene = Scene::new([answer(code, fields)]);
        let client = scene.with(&BackoffLayer::new().total(Duration::from_secs(600)));
        assert_eq!(status(&get(&client, URI).await), StatusCode::OK, "{fields:?}");
        let [first, second] = &*scene.times() else { panic!("{fields:?}: not sent twice") };
        let waited = *second - *first;
        let asked = Duration::from_secs(asked);
        assert!(waited >= asked, "{fields:?}: {waited:?} is too early");
        assert!(waited <= asked + CHANCE + TICK, "{fields:?}: {waited:?} is too late");
    }
    let date = ("date", "Sun, 15 Nov 2026 06:21:53 GMT");
    for code in [429, 503] {
        check(code, &[("retry-after", "60")], 60).await;
        check(code, &[date, ("retry-after", "Sun, 15 Nov 2026 06:22:53 GMT")], 60).await;
        check(code, &[date, ("retry-after", "Sun, 15 Nov 2026 06:00:00 GMT")], 0).await;
        check(code, &[("ratelimit", "\"a\";r=0;t=7, \"b\";r=3;t=9")], 7).await;
        check(code, &[("ratelimit", "limit=5, remaining=0, reset=7")], 7).await;
        check(code, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")], 7).await;
        check(code, &[("retry-after", "3"), ("ratelimit", "\"a\";r=0;t=7")], 3).await;
        // A 429 that says nothing asks for a rest nevertheless.
        let unstated = if code == 429 { 5 } else { 0 };
        check(code, &[], unstated).await;
        check(code, &[("retry-after", "soon")], unstated).await;
    }
    check(429, &[date, ("x-ratelimit-reset", "1794723773")], 60).await;
    check(429, &[("x-ratelimit-reset", "7")], 7).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_attempt_is_early_and_chance_has_bounds(
        asked in proptest::collection::vec(proptest::option::of(0_u64..5_000), 1..6),
        chance in 0_u64..2_000,
        longest in 0_u64..8_000,
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (chance, longest) = (Duration::from_millis(chance), Duration::from_millis(longest));
            let refusal = |seconds: &Option<u64>| -> Response<String> {
                let text = seconds.unwrap_or_default().to_string();
                let field = [("retry-after", &*text)];
                answer(429, if seconds.is_some() { &field } else { &[] })
            };
            let scene = Scene::new(asked.iter().map(refusal));
            let layer = BackoffLayer::new().attempts(10).total(Duration::from_secs(1 << 20));
            let client = scene.with(&layer.jitter(chance, longest));
            prop_assert_eq!(status(&get(&client, URI).await), StatusCode::OK);
            let times = scene.times();
            prop_assert_eq!(times.len(), asked.len() + 1);
            for (attempt, (pair, asked)) in times.windows(2).zip(&asked).enumerate() {
                // A 429 that says nothing is retried after five seconds.
                let (waited, asked) = (pair[1] - pair[0], Duration::from_secs(asked.unwrap_or(5)));
                let chance = (chance * 2_u32.pow(attempt as u32)).min(longest);
                prop_assert!(waited >= asked, "{:?} < {:?}", waited, asked);
                prop_assert!(waited <= asked + chance + TICK, "{:?} > {:?}", waited, asked + chance);
            }
            Ok(())
        })?;
    }
}

#[tokio::test(start_paused = true)]
async fn callers_who_were_refused_together_come_back_apart() {
    let refusals = (0..20).map(|_| answer(503, &[]));
    let scene = Scene::new(refusals);
    let client = scene.with(&BackoffLayer::new().budget(100, 100));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { status(&get(&client, URI).await) });
    }
    assert!(calls.join_all().await.iter().all(|status| *status == StatusCode::OK));
    let mut times = scene.times();
    assert_eq!(times.len(), 40);
    times.dedup();
    assert!(times.len() > 10, "{times:?}");
}
