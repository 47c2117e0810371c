//! Many checks in one call: of one caller, or of independent tasks.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_client::{Check, Client, Decision, Error, RefusalKind, Source};
use tollgate_testbed::{Fault, FaultProxy, until};

use crate::server::{PROTOCOLS, Protocol, Server};

const FOREVER: Duration = Duration::from_secs(3_600);

fn gold() -> Check {
    Check::new().attribute("plan", "gold")
}

fn error_of(decision: &Decision) -> &Error {
    decision.error().expect("an error")
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let checks: Vec<Check> =
            (0..4).flat_map(|_| [Check::new().user_id("alice"), gold().cost(2)]).collect();
        let decisions = client.check_batch(&checks).await;
        let seen: Vec<_> =
            decisions.iter().map(|decision| (decision.allowed, decision.remaining)).collect();
        let alice = [(true, Some(2)), (true, Some(1)), (true, Some(0)), (false, Some(0))];
        let plan = [998, 996, 994, 992].map(|left| (true, Some(left)));
        let expected: Vec<_> = alice.into_iter().zip(plan).flat_map(<[_; 2]>::from).collect();
        assert_eq!(seen, expected, "{protocol:?}");
        assert_eq!(client.check_batch(&[]).await, []);
        // One that makes no sense fails all, and nothing is charged.
        let results = client.check_batch(&[gold(), gold().rule("nope")]).await;
        assert_eq!(results.len(), 2);
        assert!(results.iter().all(|decision| error_of(decision).to_string().contains("nope")));
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
            .map(|decision| {
                assert_eq!(decision.source, Source::Server);
                decision.remaining.expect("a figure")
            })
            .collect();
        left.sort_unstable();
        assert_eq!(left, (744..1_000).collect::<Vec<_>>(), "{protocol:?}");
        let calls = server.calls(protocol) - before;
        // Reading the metrics may be one of the calls.
        assert!((4..=8).contains(&calls), "{protocol:?}: {calls} calls");
        let decided = server.metric("tollgate_decisions_total{rule_id=\"per_plan\"");
        assert_eq!(decided, 256);
    }
}

#[tokio::test]
async fn a_single_check_is_sent_at_once() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let batched = server.client(protocol).batched(64, FOREVER);
        for left in [999, 998, 997] {
            let decision = batched.check(gold()).await;
            assert_eq!((decision.source, decision.remaining), (Source::Server, Some(left)));
        }
    }
}

/// A client of a server whose responses take that long, and the proxy between them.
fn slow(server: &Server, protocol: Protocol, to_client: Duration) -> (Client, FaultProxy) {
    let proxy = FaultProxy::start(server.address(protocol));
    proxy.set(Fault::Latency { to_server: Duration::ZERO, to_client });
    let url = format!("http://{}", proxy.address());
    (protocol.builder(&url).build().expect("a client"), proxy)
}

/// Waits until the server has judged that many checks.
fn until_judged(server: &Server, expected: u64) {
    until("checks that are judged", || {
        (server.metric("tollgate_decisions_total{rule_id=\"per_plan\"") == expected).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_wait_for_a_slow_call_no_longer_than_linger() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let (client, _proxy) = slow(&server, protocol, Duration::from_secs(3));
        let batched = client.batched(64, Duration::from_millis(1));
        let ask = || {
            let batched = batched.clone();
            tokio::spawn(async move { batched.check(gold()).await })
        };
        let first = ask();
        until_judged(&server, 1);
        let second = ask();
        until_judged(&server, 2);
        assert!(!first.is_finished(), "{protocol:?}: the answer to the first was not slow");
        for call in [first, second] {
            assert!(call.await.expect("no panic").is_from_server());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_is_dropped_before_the_call_is_not_charged() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let (client, _proxy) = slow(&server, protocol, Duration::from_secs(1));
        let batched = client.batched(64, FOREVER);
        let first = tokio::spawn({
            let batched = batched.clone();
            async move { batched.check(gold()).await }
        });
        until_judged(&server, 1);
        // It gets into the queue, and leaves.
        let given_up = timeout(Duration::ZERO, batched.check(gold())).await;
        assert!(given_up.is_err());
        assert!(first.await.expect("no panic").is_from_server());
        assert_eq!(batched.check(gold()).await.remaining, Some(998), "{protocol:?}");
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
                Ok(decision) => Ok(decision.allowed),
                Err(Error::Refused { kind, .. }) => Err(kind),
                Err(error) => panic!("{error}"),
            })
            .collect();
        let expected = [Ok(true), Err(RefusalKind::Unknown), Err(RefusalKind::Invalid), Ok(true)];
        assert_eq!(kinds, expected, "{protocol:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn senseless_checks_do_not_become_a_call_for_each_check() {
    /// Calls are made 16 at a time; a few connections more may come when they are not needed any more.
    const MAX_CONNECTIONS: usize = 48;
    let server = Server::start();
    let check = async |is_senseless: fn(usize) -> bool, most_calls: u64| {
        // While the first call is under way, all others gather.
        let (client, proxy) = slow(&server, Protocol::Http, Duration::from_millis(50));
        let batched = client.batched(1_000, FOREVER);
        let before = server.metric("tollgate_http_responses_total");
        let mut tasks = JoinSet::new();
        for place in 0..256 {
            let batched = batched.clone();
            tasks.spawn(async move {
                let is_senseless = is_senseless(place);
                let check = if is_senseless { gold().rule("nope") } else { gold().cost(0) };
                let result = batched.try_check(check).await;
                assert_eq!(result.is_err(), is_senseless, "{place}: {result:?}");
                let Err(error) = result else { return };
                // The error is about the check itself, not about its place in the batch.
                assert_eq!(error.to_string().split(" (").next(), Some("there is no rule `nope`"));
            });
        }
        tasks.join_all().await;
        let calls = server.metric("tollgate_http_responses_total") - before;
        assert!(calls <= most_calls, "{calls} calls");
        let connections = proxy.connections();
        assert!(connections <= MAX_CONNECTIONS, "{connections} connections");
    };
    // Two for each time that 256 can be halved, and a few for those who came first.
    check(|place| place == 200, 32).await;
    check(|place| place % 2 == 0, 600).await;
}

#[tokio::test]
async fn a_queue_that_is_not_emptied_is_bounded() {
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
