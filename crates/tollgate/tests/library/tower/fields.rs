//! The header fields of what passes.

use tollgate::http::HeaderFamilies;

use crate::tower::{Site, check, layer, limiter};

const PER_USER: &str = "
rules: [{rule_id: per_user, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window}]
";

#[tokio::test]
async fn every_checked_response_has_the_fields() {
    let site = Site::start(&layer(limiter(PER_USER))).await;
    check(
        &site,
        &[
            (
                "x-user=a",
                "200 x-ratelimit-limit=5 x-ratelimit-remaining=4 x-ratelimit-reset=1700006460 \
                 x-ratelimit-policy=5;w=60 ratelimit-policy=\"per_user\";q=5;w=60 \
                 ratelimit=\"per_user\";r=4;t=60 retry-after=- x-ratelimit-warning=-",
            ),
            // Errors of the service have the fields too.
            ("/status/500 x-user=a", "500 x-ratelimit-remaining=3"),
            ("/status/404 x-user=a", "404 x-ratelimit-remaining=2"),
            ("POST /elsewhere x-user=b", "200 x-ratelimit-remaining=4"),
        ],
    )
    .await;
    site.ask("x-user=a").await;
    let warned = site.ask("x-user=a").await;
    assert_eq!(warned.fields["x-ratelimit-warning"], "per_user: 0 of 5 left");
}

#[tokio::test]
async fn a_request_without_rules_has_no_fields() {
    let site = Site::start(&layer(limiter(PER_USER))).await;
    check(&site, &[("/", "200 x-ratelimit-limit=- ratelimit=- x-tollgate-decision=-")]).await;
}

#[tokio::test]
async fn families_are_a_choice() {
    let none = layer(limiter(PER_USER)).headers(HeaderFamilies::none());
    let site = Site::start(&none).await;
    check(
        &site,
        &[
            ("x-user=a", "200 x-ratelimit-limit=- ratelimit=- ratelimit-policy=-"),
            ("x-user=a", "200 x-ratelimit-limit=-"),
            ("x-user=a", "200"),
            ("x-user=a", "200"),
            ("x-user=a", "200"),
            // A refusal says when to come back whatever was chosen.
            ("x-user=a", "429 x-ratelimit-limit=- retry-after=60 cache-control=no-store"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_shadow_rule_refuses_no_request() {
    let watching = "
rules: [{rule_id: watch, limit: 1, window: 1m, identifier_type: ip, action: log_only}]
";
    let layer = layer(limiter(watching));
    let site = Site::start(&layer).await;
    check(&site, &[("/", "200 x-ratelimit-limit=-"), ("/", "200"), ("/", "200")]).await;
    assert_eq!(layer.limiter().stats()[0].1.would_refuse, 2);
}
