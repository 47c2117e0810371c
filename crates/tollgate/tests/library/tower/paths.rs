//! Paths and credentials that the service behind may read in another way than the layer.

use tollgate::PathCase;
use tollgate::http::PathMatching;
use tollgate::identity::{Extractor, IdentityConfig, Unverified};
use tollgate::tower::RateLimitLayer;
use tollgate::{Limiter, ManualClock};

use crate::tower::scene::parse;
use crate::tower::site::peer;
use crate::tower::{MIDNIGHT, Site, check, limiter};

const POLICY: &str = "
rules:
  - {rule_id: login, limit: 1, window: 1m, identifier_type: ip, applies_to: {endpoints: [/Login]}}
";

#[tokio::test]
async fn a_strict_layer_refuses_paths_that_can_be_read_in_two_ways() {
    let limiter = Limiter::builder().policy(parse(POLICY)).path_case(PathCase::Insensitive);
    let limiter = limiter.clock(ManualClock::at(MIDNIGHT)).build();
    let layer = RateLimitLayer::new(limiter).client_address(peer).paths(PathMatching::Strict);
    let site = Site::start(&layer).await;
    check(
        &site,
        &[
            ("/login", "200 x-ratelimit-remaining=0"),
            ("/LOGIN;x=1", "429"),
            ("/login%2F", "400 content-type=application/problem+json x-ratelimit-limit=-"),
            ("/x/..%2flogin", "400"),
            ("/..;/login", "400"),
            ("/login%00 content-type=application/grpc", "200 grpc-status=3"),
            ("/other%20name", "200 x-ratelimit-limit=-"),
        ],
    )
    .await;
    let refused = site.ask("/login%5C").await;
    assert!(refused.body.contains("\"code\":\"ambiguous_path\""), "{}", refused.body);
}

#[tokio::test]
async fn a_layer_is_lenient_by_default() {
    let site = Site::start(&RateLimitLayer::new(limiter(POLICY)).client_address(peer)).await;
    let steps = [
        ("/Login", "200 x-ratelimit-remaining=0"),
        ("/Login", "429"),
        ("/Login%2F", "200 x-ratelimit-limit=-"),
        ("/login", "200 x-ratelimit-limit=-"),
    ];
    check(&site, &steps).await;
}

#[tokio::test]
async fn unverified_credentials_can_be_refused() {
    let config = IdentityConfig { unverified: Unverified::Refuse, ..IdentityConfig::default() };
    let extractor = Extractor::new(config).expect("settings");
    let layer = RateLimitLayer::new(limiter(POLICY)).client_address(peer).identify(extractor);
    let site = Site::start(&layer).await;
    check(
        &site,
        &[
            ("/", "200"),
            ("/ x-api-key=unknown", "401 www-authenticate=ApiKey cache-control=no-store"),
            ("/ x-api-key=unknown content-type=application/grpc", "200 grpc-status=16"),
        ],
    )
    .await;
}
