//! The identity of a request, and other attributes that rules can match.

use tollgate::identity::{ApiKeys, Extractor, IdentityConfig, KnownKey};
use tollgate::tower::RateLimitLayer;
use tollgate::{Attribute, Attributes};

use crate::tower::site::peer;
use crate::tower::{Site, check, limiter};

const BY_KEY_AND_ADDRESS: &str = "
rules:
  - {rule_id: per_owner, limit: 2, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: per_address, limit: 3, window: 1m, identifier_type: ip, algorithm: fixed_window}
";

fn extractor(accept: ApiKeys) -> Extractor {
    let mut config = IdentityConfig::default();
    config.client_ip.trusted_proxies.push("127.0.0.0/8".parse().expect("a network"));
    config.api_key.accept = accept;
    Extractor::new(config).expect("settings")
}

fn known() -> ApiKeys {
    let secret = "correct-horse-battery-staple".parse().expect("a key");
    ApiKeys::Known(vec![KnownKey { owner: Some("alice".to_owned()), ..KnownKey::new(secret) }])
}

#[tokio::test]
async fn without_an_extractor_no_identifier_is_known() {
    let policy = "
rules:
  - {rule_id: per_address, limit: 1, window: 1m, identifier_type: ip}
  - {rule_id: here, limit: 2, window: 1m, identifier_type: [path, header:x-area]}
  - {rule_id: strict, limit: 1, window: 1m, identifier_type: ip, on_missing: deny, applies_to: {endpoints: [/strict]}}
";
    let site = Site::start(&RateLimitLayer::new(limiter(policy))).await;
    check(
        &site,
        &[
            ("/", "200 x-ratelimit-limit=-"),
            ("/", "200 x-ratelimit-limit=-"),
            ("/strict", "403"),
            ("/a x-area=51", "200 x-ratelimit-limit=2 x-ratelimit-remaining=1"),
            ("/b x-area=51", "200 x-ratelimit-remaining=1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_address_is_that_of_the_connection() {
    let layer = RateLimitLayer::new(limiter(BY_KEY_AND_ADDRESS)).client_address(peer);
    let site = Site::start(&layer).await;
    check(
        &site,
        &[
            ("x-forwarded-for=192.0.2.1", "200 x-ratelimit-remaining=2"),
            ("x-forwarded-for=192.0.2.2", "200 x-ratelimit-remaining=1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_extractor_reads_keys_and_forwarded_addresses() {
    let limiter = limiter(BY_KEY_AND_ADDRESS);
    let layer = RateLimitLayer::new(limiter).client_address(peer).identify(extractor(known()));
    let site = Site::start(&layer).await;
    let key = "x-api-key=correct-horse-battery-staple";
    check(
        &site,
        &[
            (&format!("x-forwarded-for=192.0.2.1 {key}"), "200 x-ratelimit-limit=2"),
            (&format!("x-forwarded-for=192.0.2.2 {key}"), "200 x-ratelimit-remaining=0"),
            (&format!("x-forwarded-for=192.0.2.3 {key}"), "429 x-ratelimit-limit=2"),
            // An unknown key identifies no client.
            ("x-forwarded-for=192.0.2.1 x-api-key=guess", "200 x-ratelimit-remaining=1"),
        ],
    )
    .await;
}

#[tokio::test]
async fn credentials_that_contradict_each_other_are_refused() {
    let limiter = limiter(BY_KEY_AND_ADDRESS);
    let layer = RateLimitLayer::new(limiter).client_address(peer).identify(extractor(known()));
    let site = Site::start(&layer).await;
    let refused = site.ask("x-api-key=a x-api-key=b").await;
    let seen = "400 content-type=application/problem+json cache-control=no-store";
    assert_eq!(refused.looked_at(seen), seen);
    assert!(refused.body.contains("\"code\":\"ambiguous_credentials\""), "{}", refused.body);
    check(&site, &[("/", "200 x-ratelimit-remaining=2")]).await;
}

#[tokio::test]
async fn without_an_address_no_proxy_is_trusted() {
    let layer = RateLimitLayer::new(limiter(BY_KEY_AND_ADDRESS)).identify(extractor(known()));
    let site = Site::start(&layer).await;
    check(
        &site,
        &[
            ("x-forwarded-for=192.0.2.1", "200 x-ratelimit-limit=-"),
            ("x-api-key=correct-horse-battery-staple", "200 x-ratelimit-limit=2"),
        ],
    )
    .await;
}

/// A report, which costs by its pages.
struct Report {
    region: String,
    pages: u64,
}

impl Attributes for Report {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        (attribute == Attribute::Custom("region")).then_some(&self.region)
    }

    fn cost(&self) -> u64 {
        self.pages
    }
}

#[tokio::test]
async fn a_program_may_add_attributes() {
    let policy = "
rules:
  - {rule_id: pages, limit: 10, window: 1m, identifier_type: [attribute:region, ip], algorithm: fixed_window}
";
    let layer = RateLimitLayer::new(limiter(policy)).client_address(peer).identify_with(|parts| {
        let mut places = parts.uri.path().split('/').skip(1).map(str::to_owned);
        let region = places.next().unwrap_or_default();
        let pages = places.next().and_then(|pages| pages.parse().ok()).unwrap_or(1);
        Report { region, pages }
    });
    let site = Site::start(&layer).await;
    check(
        &site,
        &[
            ("/eu/4", "200 x-ratelimit-remaining=6"),
            ("/us/10", "200 x-ratelimit-remaining=0"),
            ("/eu/7", "429 x-ratelimit-remaining=6"),
            ("/eu/6", "200 x-ratelimit-remaining=0"),
            // An empty attribute counts as absent: no region, no rule.
            ("/", "200 x-ratelimit-limit=-"),
        ],
    )
    .await;
}
