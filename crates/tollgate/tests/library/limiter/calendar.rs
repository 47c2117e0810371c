//! A quota per month of the calendar.

use tollgate::Micros;

use crate::limiter::scene::{MIDNIGHT, at_once, request};
use crate::limiter::{check, in_memory};

const POLICY: &str = "
rules:
  - {rule_id: m, limit: 3, window: 1 month, time_zone: Europe/Berlin, algorithm: fixed_window, identifier_type: user_id}
";

/// From midnight of the 15th of November 2023, UTC, until December begins in Berlin: 15 days and 23 hours.
#[test]
fn a_month_ends_when_it_does_in_its_zone() {
    check(
        POLICY,
        &[
            ("0 check user_id=u cost=2", "allowed by m, 1 left"),
            ("0 check user_id=u cost=2", "refused by m, 1 left, retry in 1378800000 ms"),
            ("1378799999 check user_id=u cost=2", "refused by m, 1 left, retry in 1 ms"),
            ("1378800000 check user_id=u cost=2", "allowed by m, 1 left"),
            // What was charged in November is not refunded to December.
            ("1378800000 refund oldest", "done"),
            ("1378800000 peek user_id=u", "allowed by m, 1 left"),
            ("1378800000 refund", "done"),
            ("1378800000 peek user_id=u", "allowed by m, 3 left"),
        ],
    );
}

/// The reported window is the current one: November has 30 days, December 31.
#[test]
fn the_reported_window_is_that_of_the_moment() {
    let scene = in_memory(POLICY);
    for (after, days, left) in [(0, 30, 1_378_800), (1_378_800, 31, 31 * 86_400)] {
        scene.limiter.clock().set(MIDNIGHT.plus(Micros::from_secs(after)));
        let decision = at_once(scene.limiter.check(&request("user_id=u")));
        let binding = decision.binding().expect("a rule");
        assert_eq!(binding.quota(), (3, Micros::from_secs(days * 86_400)));
        assert_eq!(binding.reset_after(decision.now()), Micros::from_secs(left));
        let outcome = binding.outcome;
        assert_eq!(outcome.window, Micros::from_secs(days * 86_400));
        assert_eq!(outcome.report.reset_after, Micros::from_secs(left));
        // A receipt tells the same.
        let restored = decision.receipt().open();
        assert_eq!(restored.binding().map(|binding| binding.outcome), Some(outcome));
    }
}
