//! What observers of a layer see: every checked request, once, and by the id that they give it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use serde_json::Value;
use tollgate::identity::{Extractor, IdentityConfig};
use tollgate::store::RemoteSettings;
use tollgate::store::redis::RedisStore;
use tollgate::tower::{Observed, RateLimitLayer};
use tollgate::{Attribute, Limiter, ManualClock, Micros, Peek, Store};
use tollgate_testbed::free_port;
use tower::{Layer, ServiceExt, service_fn};

use crate::tower::scene::{parse, request};
use crate::tower::site::Answer;
use crate::tower::{MIDNIGHT, Site, layer, limiter};

const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window, applies_to: {endpoints: [/limited]}}
  - {rule_id: keyed, limit: 9, window: 1m, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/keyed]}}
blacklist: [{identifier_type: user_id, identifier: mallory}]
";

/// An observer that records what it sees.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

impl Witness {
    /// Observes a layer, which chooses the ids.
    fn watch<S: Store>(
        &self,
        layer: RateLimitLayer<S, ManualClock>,
    ) -> RateLimitLayer<S, ManualClock> {
        let witness = self.clone();
        layer.observe(move |observed| {
            witness.0.lock().expect("a lock").push(told(observed));
            None
        })
    }

    /// What was seen since the last call.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("a lock"))
    }
}

/// Method, path, user and address, and what was decided by which rule.
fn told(observed: &Observed<'_>) -> String {
    let Observed { decision, request, parts, .. } = observed;
    let known = |attribute| {
        let value = request.get(attribute).filter(|value| !value.is_empty());
        value.unwrap_or("-").to_owned()
    };
    let decided = match (decision.refusal(), decision.degraded()) {
        (Some(refusal), _) => format!("{refusal:?}"),
        (None, Some(_)) => "Degraded".to_owned(),
        (None, None) if decision.delay().is_some_and(|delay| delay > Micros::ZERO) => {
            "Held".to_owned()
        }
        (None, None) => "Passed".to_owned(),
    };
    let binding = decision.binding().map(|binding| binding.rule.id.to_string());
    let rule = binding.or_else(|| decision.refuser().map(|rule| rule.id.to_string()));
    format!(
        "{} {} {} {} {decided} {}",
        parts.method,
        parts.uri.path(),
        known(Attribute::UserId),
        known(Attribute::Ip),
        rule.as_deref().unwrap_or("-"),
    )
}

#[tokio::test]
async fn every_checked_request_is_observed_once() {
    let witness = Witness::default();
    let site = Site::start(&witness.watch(layer(limiter(POLICY)))).await;
    for (asked, status, expected) in [
        ("/limited?page=1 x-user=ann", 200, "GET /limited ann 127.0.0.1 Passed per_user"),
        ("POST /limited x-user=ann", 429, "POST /limited ann 127.0.0.1 RateLimited per_user"),
        ("/limited x-user=bob", 200, "GET /limited bob 127.0.0.1 Passed per_user"),
        ("/keyed", 403, "GET /keyed - 127.0.0.1 Denied keyed"),
        ("/ x-user=mallory", 403, "GET / mallory 127.0.0.1 Denied -"),
        ("/free", 200, "GET /free - 127.0.0.1 Passed -"),
        ("/status/500", 500, "GET /status/500 - 127.0.0.1 Passed -"),
    ] {
        assert_eq!(site.ask(asked).await.status, status, "{asked}");
        assert_eq!(witness.seen(), [expected], "{asked}");
    }
}

#[tokio::test]
async fn requests_refused_before_the_check_are_not_observed() {
    let witness = Witness::default();
    let extractor = Extractor::new(IdentityConfig::default()).expect("settings");
    let site = Site::start(&witness.watch(layer(limiter(POLICY)).identify(extractor))).await;
    assert_eq!(site.ask("x-api-key=a x-api-key=b").await.status, 400);
    assert_eq!(witness.seen(), [""; 0]);
    assert_eq!(site.ask("x-api-key=a").await.status, 200);
    assert_eq!(witness.seen().len(), 1);
}

#[tokio::test]
async fn an_unavailable_store_is_observed() {
    let policy = "
rules:
  - {rule_id: closed, limit: 9, window: 1m, identifier_type: ip, on_store_failure: closed, applies_to: {endpoints: [/closed]}}
  - {rule_id: open, limit: 9, window: 1m, identifier_type: ip, on_store_failure: open}
";
    let unreachable = format!("redis://127.0.0.1:{}", free_port());
    let store = RedisStore::connect(&unreachable, RemoteSettings::default()).expect("a URL");
    let limiter = Limiter::builder().policy(parse(policy)).store(store);
    let witness = Witness::default();
    let layer = layer(limiter.clock(ManualClock::at(MIDNIGHT)).build());
    let site = Site::start(&witness.watch(layer)).await;
    for (asked, status, expected) in [
        ("/", 200, "GET / - 127.0.0.1 Degraded -"),
        ("/closed", 503, "GET /closed - 127.0.0.1 StoreUnavailable closed"),
    ] {
        assert_eq!(site.ask(asked).await.status, status, "{asked}");
        assert_eq!(witness.seen(), [expected], "{asked}");
    }
}

#[tokio::test]
async fn a_refusal_has_the_id_that_the_observer_returns() {
    let layer = layer(limiter(POLICY)).observe(|observed| {
        let name = observed.parts.headers.get("x-name")?.to_str().ok()?;
        Some(name.replace('_', "\n"))
    });
    let site = Site::start(&layer).await;
    let named = |answer: &Answer| {
        let field = answer.fields.get("x-tollgate-decision");
        field.map(|name| name.to_str().expect("a text").to_owned())
    };
    let told = |answer: &Answer| {
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        body["error"]["decision_id"].as_str().map(str::to_owned)
    };
    let refused = site.ask("/keyed x-name=case-7").await;
    assert_eq!((named(&refused), told(&refused)), (Some("case-7".into()), Some("case-7".into())));
    let call = site.ask("/keyed x-name=case-8 content-type=application/grpc").await;
    assert_eq!(named(&call).as_deref(), Some("case-8"));
    // An id that does not fit into a field is in the body only.
    let refused = site.ask("/keyed x-name=a_b").await;
    assert_eq!((named(&refused), told(&refused)), (None, Some("a\nb".into())));
    let unnamed = site.ask("/keyed").await;
    assert!(named(&unnamed).is_some_and(|name| name.starts_with('l')), "{unnamed:?}");
    assert_eq!(named(&unnamed), told(&unnamed));
    assert_eq!(named(&site.ask("/free x-name=case-9").await), None, "what passes has no name");
}

#[tokio::test(start_paused = true)]
async fn delayed_requests_are_observed_before_the_delay_and_those_without_a_place_as_refused() {
    let policy = "
rules: [{rule_id: slow, limit: 1, window: 1h, burst: 9, identifier_type: global, algorithm: leaky_bucket}]
";
    let witness = Witness::default();
    let layer = witness.watch(RateLimitLayer::new(limiter(policy)).max_delayed(1));
    let send = || {
        let pass = |_: Request<Empty<Bytes>>| async {
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        };
        layer.layer(service_fn(pass)).oneshot(Request::new(Empty::<Bytes>::new()))
    };
    assert_eq!(send().await.expect("an answer").status(), 200);
    assert_eq!(witness.seen(), ["GET / - - Passed slow"]);
    let held = tokio::spawn(send());
    tokio::task::yield_now().await;
    assert_eq!((layer.delayed(), held.is_finished()), (1, false));
    assert_eq!(witness.seen(), ["GET / - - Held slow"]);
    assert_eq!(send().await.expect("an answer").status(), 429);
    assert_eq!(witness.seen(), ["GET / - - RateLimited slow"]);
    assert_eq!(layer.limiter().check(&Peek(&request(""))).now().remaining(), Some(7));
    assert_eq!(held.await.expect("no panic").expect("an answer").status(), 200);
    assert_eq!(witness.seen(), [""; 0], "once is enough");
}
