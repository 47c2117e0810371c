//! Responses of servers, which are the same over both protocols.

use std::time::Duration;

use tollgate_client::{
    Check, Client, Decision, Error, KeyType, Reason, RefusalKind, RuleQuota, Source, State,
};

use crate::server::{ADMIN_TOKEN, PROTOCOLS, Protocol, Server};

fn user(name: &str) -> Check {
    Check::new().user_id(name)
}

/// What is charged one after the other, with what is to come of it: allowed, by which rule, how much
/// is left.
fn story() -> Vec<(Check, bool, Option<&'static str>, Option<u64>)> {
    let by_rule = || Check::new().rule("per_user").key(KeyType::User, "alice");
    let posted = || user("bob").endpoint("/a").method("POST").host("h").tier("pro");
    vec![
        (user("alice"), true, Some("per_user"), Some(2)),
        (user("alice").cost(0), true, Some("per_user"), Some(2)),
        (user("alice").cost(5), false, Some("per_user"), Some(2)),
        (by_rule(), true, Some("per_user"), Some(1)),
        (by_rule().cost(1), true, Some("per_user"), Some(0)),
        (user("alice"), false, Some("per_user"), Some(0)),
        (user("alice").api_key("stolen"), false, None, None),
        (Check::new(), true, None, None),
        (posted().ip("192.0.2.7"), true, Some("per_address"), Some(1)),
        (Check::new().attribute("plan", "gold").cost(10), true, Some("per_plan"), Some(990)),
        (
            Check::new().rule("per_plan").key(KeyType::Custom, "gold"),
            true,
            Some("per_plan"),
            Some(989),
        ),
        (Check::new().rule("per_user").user_id("zoe"), true, Some("per_user"), Some(2)),
        (Check::new().tenant("acme"), true, Some("smooth"), Some(3)),
        (Check::new().tenant("acme"), true, Some("smooth"), None),
    ]
}

/// A decision without what depends on the clock and on the server.
fn timeless(decision: Decision) -> Decision {
    let mut decision = decision;
    decision.decision_id = decision.decision_id.map(|_| "d".to_owned());
    decision.reset_at = decision.reset_at.map(|_| 0);
    decision.retry_after = decision.retry_after.map(|_| Duration::from_secs(1));
    decision.delay = decision.delay.map(|_| Duration::from_millis(1));
    decision.remaining =
        decision.remaining.filter(|_| decision.rule_id.as_deref() != Some("smooth"));
    decision
}

#[tokio::test]
async fn both_protocols_tell_the_same_story() {
    let mut told = Vec::new();
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let mut decisions = Vec::new();
        for (check, allowed, rule_id, remaining) in story() {
            let decision = client.check(&check).await;
            assert_eq!(decision.source, Source::Server, "{protocol:?} {check:?}");
            assert_eq!(decision.allowed, allowed, "{protocol:?} {check:?} {decision:?}");
            assert_eq!(decision.rule_id.as_deref(), rule_id, "{protocol:?} {check:?}");
            if remaining.is_some() || rule_id.is_none() {
                assert_eq!(decision.remaining, remaining, "{protocol:?} {check:?}");
            }
            decisions.push(timeless(decision));
        }
        told.push(decisions);
    }
    let [http, grpc] = &*told else { panic!("two protocols") };
    for ((http, grpc), (check, ..)) in http.iter().zip(grpc).zip(story()) {
        assert_eq!(http, grpc, "{check:?}");
    }
}

#[tokio::test]
async fn a_refusal_says_why_and_until_when() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let full = client.check(&user("alice").cost(3)).await;
        assert_eq!((full.limit, full.remaining, full.reason), (Some(3), Some(0), None));
        assert_eq!((full.state, full.retry_after), (State::Warning, None));
        let refused = client.check(&user("alice")).await;
        assert_eq!(refused.reason, Some(Reason::RateLimited));
        // One of three is back after a third of the hour.
        let wait = refused.retry_after.expect("a wait");
        assert!((1_190..=1_200).contains(&wait.as_secs()), "{wait:?}");
        assert!(refused.decision_id.is_some() && refused.reset_at > Some(1_700_000_000));
        let never = client.check(&user("bob").cost(4)).await;
        assert_eq!((never.allowed, never.retry_after), (false, None));
        let denied = client.check(&user("carol").api_key("stolen")).await;
        assert_eq!(denied.reason, Some(Reason::Denied));
        let tenant = Check::new().tenant("acme");
        assert_eq!(client.check(&tenant).await.delay, None);
        let held = client.check(&tenant).await;
        let delay = held.delay.expect("a delay");
        assert!(held.allowed && delay <= Duration::from_secs(1), "{held:?}");
    }
}

/// Earlier versions had one time for both: when nothing is in use, up to two windows away.
#[tokio::test]
async fn a_window_resets_at_its_end_and_is_full_later() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        assert_eq!(client.check(&user("alice")).await.rules, []);
        let check = Check::new().rule("minutes").user_id("alice").detail();
        let decision = client.check(&check).await;
        let [rule] = &*decision.rules else { panic!("one rule: {decision:?}") };
        assert_eq!((rule.window_seconds, rule.cost, rule.limit), (60.0, 1, 5));
        assert_eq!(decision.reset_at, Some(rule.reset_at));
        assert_eq!(rule.reset_at % 60, 0, "{protocol:?} {rule:?}");
        assert_eq!(rule.full_at, Some(rule.reset_at + 60), "{protocol:?} {rule:?}");
        assert_eq!(rule.quota, None);
        let decision = client.check(&Check::new().rule("burst").user_id("alice").detail()).await;
        let quota = RuleQuota { limit: 10, window_seconds: 1.0 };
        assert_eq!(decision.rules[0].quota, Some(quota), "{protocol:?}");
        assert_eq!((decision.rules[0].limit, decision.rules[0].window_seconds), (50, 5.0));
    }
}

#[tokio::test]
async fn a_peek_charges_nothing() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let check = user("alice").cost(2).idempotency_key("k");
        for _ in 0..3 {
            let seen = client.peek(&check).await.expect("a look");
            assert_eq!((seen.allowed, seen.remaining), (true, Some(3)));
            assert_eq!(seen.decision_id, None);
            assert_eq!(client.remaining(&check).await, Ok(Some(3)));
        }
        assert_eq!(client.remaining(&Check::new()).await, Ok(None));
        assert_eq!(client.check(&check).await.remaining, Some(1));
        assert_eq!(client.remaining(&user("alice")).await, Ok(Some(1)));
    }
}

#[tokio::test]
async fn a_key_is_charged_once() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let check = user("alice").idempotency_key("order-17");
        let first = client.check(&check).await;
        let again = client.check(&check).await;
        assert_eq!(first, again);
        let results = client.check_batch(&[check.clone(), check]).await;
        assert!(results.iter().all(|result| result.remaining == first.remaining), "{results:?}");
        let other = client.try_check(&user("bob").idempotency_key("order-17")).await;
        let Err(Error::Refused { kind, .. }) = other else { panic!("{other:?}") };
        assert_eq!(kind, RefusalKind::Invalid);
        assert_eq!(client.remaining(&user("alice")).await, Ok(Some(2)));
    }
}

#[tokio::test]
async fn an_invalid_check_is_an_error_and_fails_open() {
    async fn check(client: &Client, check: Check, kind: RefusalKind, part: &str) {
        let error = client.try_check(&check).await.expect_err(part);
        let Error::Refused { kind: found, .. } = &error else { panic!("{error}") };
        assert_eq!(*found, kind, "{error}");
        assert!(error.to_string().contains(part), "no {part:?} in {error}");
        assert_eq!(client.check(&check).await.source, Source::FailedOpen(error));
    }
    use RefusalKind::{Invalid, Unknown};
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        let by_rule = |rule: &str| Check::new().rule(rule).key(KeyType::Ip, "192.0.2.7");
        check(&client, by_rule("nope"), Unknown, "there is no rule `nope`").await;
        check(&client, by_rule("per_user"), Invalid, "counts by user_id").await;
        check(&client, Check::new().ip("localhost"), Invalid, "is not an address").await;
        check(&client, user(""), Invalid, "user_id: it is empty").await;
        check(&client, Check::new().api_key(""), Invalid, "api_key: it is empty").await;
        check(&client, Check::new().key(KeyType::User, "u"), Invalid, "add rule").await;
    }
}

/// End clients choose how long paths and identifiers are. Refused checks with long ones let a client that
/// fails open pass them unlimited.
#[tokio::test]
async fn long_values_are_counted_and_not_refused() {
    for protocol in PROTOCOLS {
        let server = Server::start();
        let client = server.client(protocol);
        for length in [1_024, 1_025, 4_097, 60_000, 200_000] {
            let long = "x".repeat(length);
            let check = user(&long).endpoint(format!("/search?q={long}")).attribute("q", &long);
            for remaining in [2, 1, 0] {
                let decision = client.try_check(&check).await.expect("judged");
                assert_eq!(
                    (decision.allowed, decision.remaining),
                    (true, Some(remaining)),
                    "{length} bytes"
                );
            }
            let over = client.try_check(&check).await.expect("judged");
            assert_eq!((over.allowed, over.rule_id.as_deref()), (false, Some("per_user")));
        }
    }
}

#[tokio::test]
async fn a_decision_is_refunded_once() {
    let server = Server::start();
    for protocol in [Protocol::Http, Protocol::Grpc] {
        let builder = protocol.builder(&server.url(protocol));
        let client = builder.clone().token(ADMIN_TOKEN).build().expect("a client");
        let decision = client.check(&user("alice").cost(3)).await;
        let id = decision.decision_id.expect("an id");
        assert_eq!(client.refund(&id).await, Ok(1));
        assert_eq!(client.remaining(&user("alice")).await, Ok(Some(3)));
        let check = async |client: &Client, id: &str, expected: &str| {
            let error = client.refund(id).await.expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(&client, &id, "refunded already").await;
        check(&client, "nope", "decision").await;
        check(&builder.build().expect("a client"), &id, "operator").await;
    }
}
