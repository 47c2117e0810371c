//! Corrections of a charge by the response of the service: refunds by status, and the final cost.

use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ::http::{Request, Response};
use tokio::time::timeout;
use tollgate::store::{Op, Outcomes, SettleRequest, Settlement};
use tollgate::tower::RateLimitLayer;
use tollgate::{Limiter, MemoryStore, Policy, Store, Timestamp};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::tower::{Site, check, layer, limiter};

const REFUNDED: &str = "
rules:
  - {rule_id: successes, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window, refund_on: [5xx, 404]}
  - {rule_id: attempts, limit: 100, window: 1m, identifier_type: user_id, algorithm: fixed_window}
";

#[tokio::test]
async fn refund_on_statuses_refund_their_rule() {
    let site = Site::start(&layer(limiter(REFUNDED))).await;
    // Fields report the figures before the correction, so the next response shows it.
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
    // The priced request passes, but the next one is refused.
    check_price("/price/10", "429 x-ratelimit-remaining=0").await;
    check_price("/price/15", "429 x-ratelimit-remaining=0").await;
    check_price("/price/18446744073709551615", "429 x-ratelimit-remaining=0").await;
    // A price that is not a number is ignored.
    check_price("/price/many", "200 x-ratelimit-remaining=8").await;
    check_price("/price/-1", "200 x-ratelimit-remaining=8").await;
    check_price("/price/18446744073709551616", "200 x-ratelimit-remaining=8").await;
    // A refund overrides the price.
    check_price("/price/7/503", "200 x-ratelimit-remaining=9").await;
    check_price("/price/7/500", "200 x-ratelimit-remaining=2").await;
}

#[tokio::test]
async fn a_refused_request_has_no_final_cost() {
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

/// A slow store: every call has to wait.
struct Far(MemoryStore);

impl Store for Far {
    fn is_shared(&self) -> bool {
        true
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        if ops.iter().any(|op| matches!(op, Op::Refund(_))) {
            tokio::task::yield_now().await;
        }
        self.0.submit_now(ops, now)
    }
}

/// The correction was once lost when the client disconnected during the call to the store.
#[tokio::test]
async fn a_client_that_leaves_during_a_correction_does_not_stop_it() {
    let rules = "rules: [{rule_id: r, limit: 10, window: 1d, identifier_type: path, algorithm: fixed_window, cost: 4}]";
    let policy = Policy::from_text(rules).expect("a policy");
    let limiter = Limiter::builder().policy(policy).store(Far(MemoryStore::with_bytes(0))).build();
    let layer = RateLimitLayer::new(limiter);
    let service = layer.layer(service_fn(|_: Request<()>| {
        ready(Response::builder().header("x-request-cost", 1).body(()))
    }));
    let asked = Request::new(());
    {
        let mut answer = pin!(service.oneshot(asked));
        poll_fn(|context| {
            assert!(answer.as_mut().poll(context).is_pending(), "the store is far away");
            Poll::Ready(())
        })
        .await;
    }
    let corrected = async {
        loop {
            let seen = layer.limiter().check(&tollgate::Request::new().path("/").cost(0)).await;
            if seen.outcomes().any(|rule| rule.outcome.report.remaining == 9) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), corrected).await.expect("the excess is refunded");
}
