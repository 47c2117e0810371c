//! Many checks in one call: asked so, or by tasks that know nothing of each other.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_client::{Check, Error, RefusalKind, Source, Verdict};
use tollgate_testbed::{Fault, FaultProxy};

use crate::server::{PROTOCOLS, Server};

const FOREVER: Duration = Duration::from_secs(3_600);

fn gold() -> Check {
    Check::new().attribute("plan", "gold")
}

fn error_of(verdict: &Verdict) -> &Error {
    verdict.error().expect("an error")
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let checks: Vec<Check> =
            (0..4).flat_map(|_| [Check::new().user_id("alice"), gold().cost(2)]).collect();
        let verdicts = client.check_batch(&checks).await;
        let seen: Vec<_> =
            verdicts.iter().map(|verdict| (verdict.allowed, verdict.remaining)).collect();
        let alice = [(true, Some(2)), (true, Some(1)), (true, Some(0)), (false, Some(0))];
        let plan = [998, 996, 994, 992].map(|left| (true, Some(left)));
        let expected: Vec<_> = alice.into_iter().zip(plan).flat_map(<[_; 2]>::from).collect();
        assert_eq!(seen, expected, "{protocol:?}");
        assert_eq!(client.check_batch(&[]).await, []);
        // One that makes no sense fails all, and nothing is charged.
        let results = client.check_batch(&[gold(), gold().rule("nope")]).await;
        assert_eq!(results.len(), 2);
        assert!(results.iter().all(|verdict| error_of(verdict).to_string().contains("nope")));
        assert_eq!(client.remaining(&gold()).await, Ok(Some(992)));
        let many = vec![gold(); 1_001];
        let refused = client.try_check_batch(&many).await.expect_err("too many");
        assert!(refused.to_string().contains("1000"), "{refused}");
    }
}

#[tokio::test]
async fn checks_of_many_tasks_share_calls() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let batched = server.client(protocol).batched(64, FOREVER);
        let before = server.calls(protocol);
        let mut tasks = JoinSet::new();
        for _ in 0..256 {
            let batched = batched.clone();
            tasks.spawn(async move { batched.check(gold()).await });
        }
        let mut left: Vec<u64> = tasks
            .join_all()
            .await
            .into_iter()
            .map(|verdict| {
                assert_eq!(verdict.source, Source::Answered);
                verdict.remaining.expect("a figure")
            })
            .collect();
        left.sort_unstable();
        assert_eq!(left, (744..1_000).collect::<Vec<_>>(), "{protocol:?}");
        let calls = server.calls(protocol) - before;
        // The look at the figures may be one of them.
        assert!((4..=8).contains(&calls), "{protocol:?}: {calls} calls");
        let decided = server.metric("tollgate_decisions_total{rule_id=\"per_plan\"");
        assert_eq!(decided, 256);
    }
}

#[tokio::test]
async fn who_comes_alone_does_not_wait_for_others() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let batched = server.client(protocol).batched(64, FOREVER);
        for left in [999, 998, 997] {
            let verdict = batched.check(gold()).await;
            assert_eq!((verdict.source, verdict.remaining), (Source::Answered, Some(left)));
        }
    }
}

#[tokio::test]
async fn one_senseless_check_does_not_harm_the_others() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let batched = server.client(protocol).batched(64, FOREVER);
        let checks = [gold(), gold().rule("nope"), Check::new().ip("nowhere"), gold()];
        let mut tasks = JoinSet::new();
        for (place, check) in checks.into_iter().enumerate() {
            let batched = batched.clone();
            tasks.spawn(async move { (place, batched.try_check(check).await) });
        }
        let mut results = tasks.join_all().await;
        results.sort_by_key(|(place, _)| *place);
        let kinds: Vec<_> = results
            .into_iter()
            .map(|(_, result)| match result {
                Ok(verdict) => Ok(verdict.allowed),
                Err(Error::Refused { kind, .. }) => Err(kind),
                Err(error) => panic!("{error}"),
            })
            .collect();
        let expected = [Ok(true), Err(RefusalKind::Unknown), Err(RefusalKind::Invalid), Ok(true)];
        assert_eq!(kinds, expected, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_queue_that_nobody_empties_has_an_end() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let proxy = FaultProxy::start(server.address(protocol));
        proxy.set(Fault::Silence);
        let url = format!("http://{}", proxy.address());
        let client = protocol.builder(&url).timeout(Duration::from_millis(200)).build();
        let batched = client.expect("a client").batched(1, Duration::ZERO);
        let mut tasks = JoinSet::new();
        for _ in 0..100 {
            let batched = batched.clone();
            tasks.spawn(async move { batched.try_check(gold()).await });
        }
        let errors: Vec<Error> =
            tasks.join_all().await.into_iter().map(|result| result.expect_err("silence")).collect();
        let full = errors.iter().filter(|error| **error == Error::QueueFull).count();
        assert!((50..100).contains(&full), "{protocol:?}: {full} had no place");
        let late = errors.iter().filter(|error| matches!(error, Error::TimedOut { .. })).count();
        assert_eq!(full + late, 100, "{protocol:?}: {errors:?}");
    }
}
