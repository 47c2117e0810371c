//! Warnings with hysteresis, and what is tolerated beyond a limit.

use crate::limiter::check;

#[test]
fn warnings_begin_at_one_share_and_end_below_another() {
    // One unit drains per second, so the level can be set by cost and time.
    let policy = "rules: [{rule_id: r, limit: 100, window: 100s, identifier_type: user_id, algorithm: gcra}]";
    check(
        policy,
        &[
            ("0 check user_id=u cost=79", "allowed by r, 21 left"),
            ("0 check user_id=u", "allowed by r, 20 left, warned"),
            ("5000 peek user_id=u", "allowed by r, 25 left, warned"),
            ("10000 peek user_id=u", "allowed by r, 30 left, warned"),
            ("10001 peek user_id=u", "allowed by r, 30 left, warned"),
            ("11000 peek user_id=u", "allowed by r, 31 left"),
            // Once the warning has ended, 75 % alone does not warn again.
            ("11000 check user_id=u cost=6", "allowed by r, 25 left"),
            ("11000 check user_id=u cost=5", "allowed by r, 20 left, warned"),
            // Other clients have no warning.
            ("11000 check user_id=v cost=75", "allowed by r, 25 left"),
        ],
    );
}

#[test]
fn the_shares_can_be_set() {
    let policy = "rules: [{rule_id: r, limit: 10, window: 1m, identifier_type: user_id, algorithm: fixed_window, soft: {warn_at: 0.5, clear_at: 0.5}}]";
    check(
        policy,
        &[
            ("0 check user_id=u cost=4", "allowed by r, 6 left"),
            ("0 check user_id=u", "allowed by r, 5 left, warned"),
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by r, 6 left"),
        ],
    );
}

#[test]
fn grace_is_admitted_beyond_the_limit_and_not_shown() {
    for (algorithm, wait) in [("fixed_window", 60_000), ("token_bucket", 6_000)] {
        let policy = format!(
            "rules: [{{rule_id: r, limit: 10, window: 1m, identifier_type: user_id, \
             algorithm: {algorithm}, soft: {{grace: 2}}}}]"
        );
        let refused = format!("refused by r, 0 left, retry in {wait} ms, warned");
        check(
            &policy,
            &[
                ("0 check user_id=u cost=10", "allowed by r, 0 left, warned"),
                ("0 check user_id=u", "allowed by r, 0 left, warned"),
                ("0 check user_id=u", "allowed by r, 0 left, warned"),
                ("0 check user_id=u", &refused),
                ("0 check user_id=v cost=12", "allowed by r, 0 left, warned"),
                ("0 check user_id=w cost=13", "refused by r, 10 left, never"),
            ],
        );
    }
}
