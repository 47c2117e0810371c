//! Keys at a URL, against a real server: when they are fetched, by whom, and what happens when they
//! cannot be.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tollgate::Timestamp;
use tollgate::identity::{Extractor, JwksUrl, TokenKeys};

use crate::issuer::{self, Issuer};
use crate::jwks_server::{Answer, JwksServer};
use crate::{NOW, believing, holder, parse};

/// Longer than anything here takes, so that a hanging test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// An issuer with two keys, one of which it will replace by the other.
struct Scene {
    server: JwksServer,
    extractor: Arc<Extractor>,
    keys: [(&'static str, Issuer); 2],
}

impl Scene {
    async fn new(deadline: Duration) -> Self {
        let server = JwksServer::start(Answer::Status(500)).await;
        let source = JwksUrl { deadline, ..JwksUrl::new(server.url()) };
        let extractor = Arc::new(believing(TokenKeys::JwksUrl(source)));
        Self { server, extractor, keys: [("a", Issuer::p256()), ("b", Issuer::p256())] }
    }

    /// The set of the keys with these names.
    fn set(&self, names: &str) -> String {
        let named = self.keys.iter().filter(|(name, _)| names.contains(name));
        issuer::set_of(&named.map(|(name, key)| key.jwk(name, "")).collect::<Vec<_>>())
    }

    async fn publish(&mut self, what: &str) {
        match what {
            "" => {}
            "500" => self.server.set(Answer::Status(500)),
            "302" => self.server.set(Answer::Status(302)),
            "nonsense" => self.server.set(Answer::Body("<html>".to_owned())),
            "too much" => {
                self.server.set(Answer::Body(format!(
                    "{}{}",
                    self.set("a"),
                    " ".repeat(256 << 10)
                )));
            }
            "nothing" => self.server.set(Answer::Body(issuer::set_of(&[]))),
            "silence" => self.server.set(Answer::Silence),
            "away" => self.server.stop().await,
            names => self.server.set(Answer::Body(self.set(names))),
        }
    }

    /// A token by the first key, with a name that may be another.
    fn token(&self, name: &str) -> String {
        let key = self.keys.iter().find(|(known, _)| *known == name);
        let (_, key) = key.unwrap_or(&self.keys[0]);
        let header = format!(r#"{{"alg":"ES256","kid":"{name}"}}"#);
        key.token_with(&header, r#"{"sub":"alice","exp":1800000000}"#)
    }
}

/// Plays steps of: seconds since the beginning, what is published then, the key of the token that
/// comes, its user or problem, and how often the keys have been fetched by then.
async fn check(deadline: Duration, steps: &[(u64, &str, &str, &str, usize)]) {
    let mut scene = Scene::new(deadline).await;
    for (number, &(seconds, published, key, expected, fetches)) in steps.iter().enumerate() {
        scene.publish(published).await;
        let now = Timestamp::from_secs(NOW + seconds);
        let token = scene.token(key);
        let found = tokio::time::timeout(TEST_TIMEOUT, holder(&scene.extractor, &token, now)).await;
        assert_eq!(found.as_deref(), Ok(expected), "step {number} of {steps:?}");
        let asked = tokio::time::timeout(TEST_TIMEOUT, scene.server.until_asked(fetches)).await;
        assert!(asked.is_ok(), "step {number} of {steps:?}: {} fetches", scene.server.asked());
        assert_eq!(scene.server.asked(), fetches, "fetches at step {number} of {steps:?}");
    }
}

const FETCH_TIMEOUT: Duration = Duration::from_secs(2);
/// For servers that do not respond anyway.
const SHORT_TIMEOUT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn keys_are_fetched_when_a_token_needs_them() {
    let steps = [(0, "a", "a", "alice", 1), (1, "", "a", "alice", 1), (599, "", "a", "alice", 1)];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn a_new_key_is_found_at_once() {
    let steps = [
        (0, "a", "a", "alice", 1),
        (100, "a b", "b", "alice", 2),
        (101, "", "a", "alice", 2),
        // The old key goes.
        (200, "b", "c", "UnknownKey", 3),
        (201, "", "a", "UnknownKey", 3),
        (202, "", "b", "alice", 3),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn invented_key_names_do_not_cause_more_fetches() {
    let steps = [
        (0, "a", "x", "UnknownKey", 1),
        (0, "", "y", "UnknownKey", 1),
        (29, "a b", "b", "UnknownKey", 1),
        (29, "", "a", "alice", 1),
        (30, "", "b", "alice", 2),
        (31, "", "z", "UnknownKey", 2),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn old_keys_are_refreshed_in_the_background() {
    let steps = [
        (0, "a", "a", "alice", 1),
        // Verified with the old keys; the fetch runs in the background.
        (600, "b", "a", "alice", 2),
        // This token waits for the fetch, or comes after it.
        (601, "", "b", "alice", 2),
        (602, "", "a", "UnknownKey", 2),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn old_keys_stay_when_a_fetch_fails() {
    for trouble in ["500", "302", "nonsense", "too much"] {
        let steps = [
            (0, "a", "a", "alice", 1),
            (100, trouble, "x", "UnknownKey", 2),
            (101, "", "a", "alice", 2),
            // The keys are too old: another fetch fails, and the next one comes after the pause.
            (600, "", "a", "alice", 3),
            (601, "", "x", "UnknownKey", 3),
            (629, "", "a", "alice", 3),
            (630, "a b", "a", "alice", 4),
            (631, "", "b", "alice", 4),
        ];
        check(FETCH_TIMEOUT, &steps).await;
    }
    let steps = [
        (0, "a", "a", "alice", 1),
        (100, "away", "b", "UnknownKey", 1),
        (10_000, "", "a", "alice", 1),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn an_empty_set_removes_all_keys() {
    let steps = [
        (0, "a", "a", "alice", 1),
        (100, "nothing", "x", "UnknownKey", 2),
        (101, "", "a", "UnknownKey", 2),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn a_server_that_is_down_at_first_is_found_later() {
    let steps = [
        (0, "500", "a", "KeysUnavailable", 1),
        (10, "a", "a", "KeysUnavailable", 1),
        (30, "", "a", "alice", 2),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn a_slow_server_is_waited_for_until_the_deadline() {
    let steps = [
        (0, "a", "a", "alice", 1),
        (100, "silence", "b", "UnknownKey", 2),
        (101, "", "a", "alice", 2),
        (140, "a b", "b", "alice", 3),
    ];
    check(Duration::from_secs(1), &steps).await;
    let steps = [(0, "silence", "a", "KeysUnavailable", 1)];
    check(SHORT_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_does_not_stop_fetches() {
    let steps = [
        (100_000, "a", "a", "alice", 1),
        (0, "a b", "b", "alice", 2),
        (1, "", "c", "UnknownKey", 2),
    ];
    check(FETCH_TIMEOUT, &steps).await;
}

#[tokio::test]
async fn failures_are_reported_without_secrets() {
    for (trouble, told) in [
        ("500", "answered 500, not 200"),
        ("302", "answered 302, not 200"),
        ("nonsense", "not a JWKS, which is {\"keys\": [...]}, at line 1, column 1"),
        ("too much", "length limit exceeded"),
        ("nothing", "no key to verify with: the set is empty"),
        ("silence", "no answer within 50ms"),
        ("away", "client error (Connect): tcp connect error"),
    ] {
        let mut scene =
            Scene::new(if trouble == "silence" { SHORT_TIMEOUT } else { FETCH_TIMEOUT }).await;
        assert_eq!(scene.extractor.key_failure(), None);
        scene.publish(trouble).await;
        holder(&scene.extractor, &scene.token("a"), Timestamp::from_secs(NOW)).await;
        let failure = scene.extractor.key_failure().expect(trouble);
        let place = scene.server.url().to_string().replace("?token=hidden", "");
        assert!(failure.starts_with(&format!("{place}: {told}")), "{failure}");
    }
    let mut scene = Scene::new(FETCH_TIMEOUT).await;
    holder(&scene.extractor, &scene.token("a"), Timestamp::from_secs(NOW)).await;
    assert!(scene.extractor.key_failure().is_some());
    scene.publish("a").await;
    holder(&scene.extractor, &scene.token("a"), Timestamp::from_secs(NOW + 30)).await;
    assert_eq!(scene.extractor.key_failure(), None);
}

/// A server that answers when the gate is opened.
async fn gated() -> (Scene, Arc<Semaphore>) {
    let scene = Scene::new(TEST_TIMEOUT).await;
    let gate = Arc::new(Semaphore::new(0));
    scene.server.set(Answer::Behind(Arc::clone(&gate), scene.set("a")));
    (scene, gate)
}

#[tokio::test]
async fn concurrent_requests_share_one_fetch() {
    let (scene, gate) = gated().await;
    // Even if the clock leaps meanwhile.
    let asking = (0..50).map(|number| {
        let (extractor, token) = (Arc::clone(&scene.extractor), scene.token("a"));
        let now = Timestamp::from_secs(NOW + 100 * number);
        tokio::spawn(async move { holder(&extractor, &token, now).await })
    });
    let asking: Vec<_> = asking.collect();
    scene.server.until_asked(1).await;
    gate.add_permits(50);
    for asked in asking {
        assert_eq!(asked.await.unwrap(), "alice");
    }
    assert_eq!(scene.server.asked(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_end_the_fetch() {
    let (scene, gate) = gated().await;
    let (token, now) = (scene.token("a"), Timestamp::from_secs(NOW));
    tokio::select! {
        found = holder(&scene.extractor, &token, now) => panic!("{found} came through the gate"),
        () = scene.server.until_asked(1) => {}
    }
    gate.add_permits(1);
    assert_eq!(holder(&scene.extractor, &token, now).await, "alice");
    assert_eq!(scene.server.asked(), 1);
}

#[test]
fn without_a_runtime_tokens_are_rejected_and_nothing_panics() {
    let source = JwksUrl::new(parse("http://127.0.0.1:9/"));
    let extractor = believing(TokenKeys::JwksUrl(source));
    let key = Issuer::p256();
    let token = key.token(r#"{"sub":"alice","exp":1800000000}"#);
    let found = crate::at_once(holder(&extractor, &token, Timestamp::from_secs(NOW)));
    assert_eq!(found, "KeysUnavailable");
    assert!(extractor.key_failure().is_some());
}
