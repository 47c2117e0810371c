//! The responses to refused clients.

use http::{Response, StatusCode};
use serde_json::Value;
use tollgate::store::RemoteSettings;
use tollgate::store::redis::RedisStore;
use tollgate::{Limiter, ManualClock};
use tollgate_testbed::free_port;

use crate::tower::scene::parse;
use crate::tower::{MIDNIGHT, Site, check, layer, limiter};

const POLICY: &str = "
rules:
  - {rule_id: per_address, limit: 1, window: 1m, identifier_type: ip, algorithm: fixed_window, applies_to: {endpoints: [/limited]}}
  - {rule_id: keyed, limit: 9, window: 1m, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/keyed]}}
blacklist: [{identifier_type: user_id, identifier: mallory, reason: owes us money}]
";

#[tokio::test]
async fn statuses_and_fields_say_why() {
    let site = Site::start(&layer(limiter(POLICY))).await;
    let json = "content-type=application/problem+json cache-control=no-store";
    check(
        &site,
        &[
            ("/limited", "200 x-ratelimit-remaining=0"),
            (
                "/limited",
                &format!("429 x-ratelimit-limit=1 x-ratelimit-remaining=0 retry-after=60 {json}"),
            ),
            ("x-user=mallory", &format!("403 retry-after=- {json}")),
            ("/keyed", &format!("403 retry-after=- {json}")),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_body_repeats_the_fields() {
    let site = Site::start(&layer(limiter(POLICY))).await;
    site.ask("/limited").await;
    let refused = site.ask("POST /limited").await;
    let body: Value = serde_json::from_str(&refused.body).expect("JSON");
    let id = refused.fields["x-tollgate-decision"].to_str().expect("a text");
    let expected = serde_json::json!({
        "error": {
            "code": "RATE_LIMIT_EXCEEDED",
            "message": "Rule per_address has 0 of 1 left, and this request costs 1. Try again in 60 s.",
            "retry_after": 60,
            "rule_id": "per_address",
            "decision_id": id,
        },
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "violated-policies": ["per_address"],
    });
    assert_eq!(body, expected);
    let denied = site.ask("x-user=mallory").await;
    assert!(denied.body.contains("\"ACCESS_DENIED\""), "{}", denied.body);
    assert!(!denied.body.contains("money"), "notes of operators stay inside: {}", denied.body);
    assert_ne!(denied.fields["x-tollgate-decision"], id, "every refusal has its own id");
}

#[tokio::test]
async fn an_unavailable_store_responds_503() {
    let policy = "
rules:
  - {rule_id: closed, limit: 9, window: 1m, identifier_type: ip, on_store_failure: closed, applies_to: {endpoints: [/closed]}}
  - {rule_id: open, limit: 9, window: 1m, identifier_type: ip, on_store_failure: open}
";
    let unreachable = format!("redis://127.0.0.1:{}", free_port());
    let store = RedisStore::connect(&unreachable, RemoteSettings::default()).expect("a URL");
    let limiter = Limiter::builder().policy(parse(policy)).store(store);
    let site = Site::start(&layer(limiter.clock(ManualClock::at(MIDNIGHT)).build())).await;
    check(
        &site,
        &[
            ("/closed", "503 retry-after=5 grpc-status=-"),
            ("/closed content-type=application/grpc", "200 retry-after=5 grpc-status=14"),
            ("/", "200 retry-after=-"),
        ],
    )
    .await;
}

#[tokio::test]
async fn calls_of_grpc_are_known_by_their_content_type() {
    let site = Site::start(&layer(limiter(POLICY))).await;
    let spoken = |content_type: &str, expected: &str| {
        (format!("/keyed content-type={content_type}"), expected.to_owned())
    };
    for (asked, expected) in [
        spoken("application/grpc", "200 grpc-status=7 content-type=application/grpc"),
        spoken("application/grpc+proto", "200 grpc-status=7 content-type=application/grpc"),
        spoken("application/grpc;x=1", "200 grpc-status=7 content-type=application/grpc"),
        spoken("application/grpc-web", "403 grpc-status=- content-type=application/problem+json"),
        spoken("application/json", "403 grpc-status=- content-type=application/problem+json"),
    ] {
        check(&site, &[(&asked, &expected)]).await;
    }
}

#[tokio::test]
async fn a_program_may_send_a_custom_response() {
    let layer = layer(limiter(POLICY)).refused_with(|decision, parts| {
        let rule = decision.binding().map_or("no rule", |binding| &*binding.rule.id);
        let mut response = Response::new(format!("{rule} refuses {}", parts.uri.path()));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    });
    let site = Site::start(&layer).await;
    site.ask("/limited").await;
    let refused = site.ask("/limited").await;
    assert_eq!(refused.body, "per_address refuses /limited");
    let seen = "418 retry-after=60 x-ratelimit-remaining=0 cache-control=no-store";
    assert_eq!(refused.looked_at(seen), seen);
    assert_eq!(site.ask("x-user=mallory").await.body, "no rule refuses /");
}
