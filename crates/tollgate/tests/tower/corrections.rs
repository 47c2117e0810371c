//! What the answer of the service does to the charge: refunds by status, and the real price.

use crate::{Site, check, layer, limiter};

const REFUNDED: &str = "
rules:
  - {rule_id: successes, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window, refund_on: [5xx, 404]}
  - {rule_id: attempts, limit: 100, window: 1m, identifier_type: user_id, algorithm: fixed_window}
";

#[tokio::test]
async fn statuses_give_the_charge_of_their_rule_back() {
    let site = Site::start(&layer(limiter(REFUNDED))).await;
    // Fields are those of the judgement, so the next answer tells.
    for (asked, status, successes, attempts) in [
        ("/status/200", 200, 4, 99),
        ("/status/503", 503, 3, 98),
        ("/status/404", 404, 3, 97),
        ("/status/403", 403, 3, 96),
        ("/status/200", 200, 2, 95),
    ] {
        let answer = site.ask(&format!("{asked} x-user=u")).await;
        let left = format!("\"successes\";r={successes};t=60, \"attempts\";r={attempts};t=60");
        assert_eq!(answer.fields["ratelimit"], left, "{asked}");
        assert_eq!(answer.status, status, "{asked}");
    }
}

const PRICED: &str = "
rules: [{rule_id: units, limit: 10, window: 1m, identifier_type: user_id, algorithm: fixed_window, costs: {\"* /status/*\": 4}, refund_on: [503]}]
";

#[tokio::test]
async fn the_price_is_what_the_request_costs_in_all() {
    let check_price = async |asked: &str, then: &str| {
        let layer = layer(limiter(PRICED));
        let site = Site::start(&layer).await;
        let priced = site.ask(&format!("{asked} x-user=u")).await;
        assert!(!priced.fields.contains_key("x-request-cost"), "{asked}: it goes no further");
        check(&site, &[("x-user=u", then)]).await;
    };
    check_price("/price/1", "200 x-ratelimit-remaining=8").await;
    check_price("/price/7", "200 x-ratelimit-remaining=2").await;
    check_price("/price/9", "200 x-ratelimit-remaining=0").await;
    check_price("/price/0", "200 x-ratelimit-remaining=9").await;
    // Never refused, but whoever comes next is.
    check_price("/price/10", "429 x-ratelimit-remaining=0").await;
    check_price("/price/15", "429 x-ratelimit-remaining=0").await;
    check_price("/price/18446744073709551615", "429 x-ratelimit-remaining=0").await;
    // What is no number is no price.
    check_price("/price/many", "200 x-ratelimit-remaining=8").await;
    check_price("/price/-1", "200 x-ratelimit-remaining=8").await;
    check_price("/price/18446744073709551616", "200 x-ratelimit-remaining=8").await;
    // A refund outweighs it.
    check_price("/price/7/503", "200 x-ratelimit-remaining=9").await;
    check_price("/price/7/500", "200 x-ratelimit-remaining=2").await;
}

#[tokio::test]
async fn what_was_refused_has_no_price() {
    let layer = layer(limiter(PRICED));
    let site = Site::start(&layer).await;
    check(
        &site,
        &[
            ("/price/10 x-user=u", "200 x-ratelimit-remaining=9"),
            ("/price/9 x-user=u", "429 x-ratelimit-remaining=0"),
            ("/price/9 x-user=v", "200 x-ratelimit-remaining=9"),
            ("/ x-user=v", "200 x-ratelimit-remaining=0"),
        ],
    )
    .await;
}
