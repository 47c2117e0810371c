//! Peeks, refunds, resets, and checks of one rule by name.

use crate::limiter::check;

fn policy(algorithm: &str) -> String {
    format!(
        "rules: [{{rule_id: r, limit: 4, window: 10s, identifier_type: user_id, algorithm: {algorithm}}}]"
    )
}

#[test]
fn a_peek_charges_nothing() {
    check(
        &policy("fixed_window"),
        &[
            ("0 peek user_id=u", "allowed by r, 4 left"),
            ("0 peek user_id=u cost=100", "allowed by r, 4 left"),
            ("0 check user_id=u cost=4", "allowed by r, 0 left, warned"),
            ("0 peek user_id=u", "allowed by r, 0 left, warned"),
            ("0 check user_id=u", "refused by r, 0 left, retry in 10000 ms, warned"),
            ("10000 peek user_id=u", "allowed by r, 4 left"),
        ],
    );
}

#[test]
fn a_refund_returns_what_was_charged() {
    for algorithm in
        ["fixed_window", "sliding_window_log", "sliding_window_counter", "gcra", "token_bucket"]
    {
        check(
            &policy(algorithm),
            &[
                ("0 check user_id=u", "allowed by r, 3 left"),
                ("0 check user_id=u cost=3", "allowed by r, 0 left, warned"),
                ("0 refund", "done"),
                ("0 peek user_id=u", "allowed by r, 3 left"),
                ("0 refund", "done"),
                ("0 peek user_id=u", "allowed by r, 4 left"),
            ],
        );
    }
}

#[test]
fn a_refund_goes_to_the_window_that_was_charged() {
    check(
        &policy("fixed_window"),
        &[
            ("9000 check user_id=u cost=2", "allowed by r, 2 left"),
            ("10000 check user_id=u", "allowed by r, 3 left"),
            // That window has passed; the present one keeps its charge.
            ("10000 refund oldest", "done"),
            ("10000 peek user_id=u", "allowed by r, 3 left"),
            ("10000 refund", "done"),
            ("10000 peek user_id=u", "allowed by r, 4 left"),
        ],
    );
    check(
        &policy("sliding_window_counter"),
        &[
            ("9000 check user_id=u cost=2", "allowed by r, 2 left"),
            ("10000 check user_id=u", "allowed by r, 1 left"),
            ("10000 refund oldest", "done"),
            ("10000 peek user_id=u", "allowed by r, 3 left"),
        ],
    );
    check(
        &policy("sliding_window_log"),
        &[
            ("0 check user_id=u cost=2", "allowed by r, 2 left"),
            ("5000 check user_id=u", "allowed by r, 1 left"),
            ("6000 refund oldest", "done"),
            ("6000 peek user_id=u", "allowed by r, 3 left"),
            // The entry that is left is the later one.
            ("14999 peek user_id=u", "allowed by r, 3 left"),
            ("15000 peek user_id=u", "allowed by r, 4 left"),
            ("15000 refund", "done"),
            ("15000 peek user_id=u", "allowed by r, 4 left"),
        ],
    );
}

#[test]
fn a_refund_covers_all_rules_and_only_what_was_taken() {
    let policy = "
rules:
  - {rule_id: user, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: watch, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window, action: log_only}
";
    check(
        policy,
        &[
            ("0 check user_id=u", "allowed by user, 4 left"),
            ("0 check user_id=u", "allowed by user, 3 left, watch would refuse"),
            // The shadow rule did not count the second request, so it has nothing to refund.
            ("0 refund", "done"),
            ("0 check user_id=u", "allowed by user, 3 left, watch would refuse"),
            ("0 refund oldest", "done"),
            ("0 check user_id=u", "allowed by user, 3 left"),
            // A refusal has nothing to refund.
            (
                "0 check user_id=u cost=4",
                "refused by user, 3 left, retry in 60000 ms, watch would refuse",
            ),
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by user, 3 left"),
        ],
    );
}

#[test]
fn a_refusal_has_nothing_to_refund() {
    let policy = "
rules:
  - {rule_id: user, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: tenant, limit: 3, window: 1m, identifier_type: tenant, algorithm: fixed_window}
";
    check(
        policy,
        &[
            ("0 check user_id=u tenant=acme cost=3", "allowed by tenant, 0 left, warned"),
            // The user would have had room for one more, which was not taken.
            (
                "0 check user_id=u tenant=acme",
                "refused by tenant, 0 left, retry in 60000 ms, warned",
            ),
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by user, 2 left"),
        ],
    );
}

#[test]
fn a_refund_of_a_peek_or_of_no_rule_does_nothing() {
    check(
        &policy("gcra"),
        &[
            ("0 check ip=192.0.2.1", "no rule"),
            ("0 refund", "done"),
            ("0 check user_id=u", "allowed by r, 3 left"),
            ("0 check user_id=u cost=0", "allowed by r, 3 left"),
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by r, 3 left"),
        ],
    );
}

#[test]
fn a_reset_forgets_one_client_under_all_rules() {
    let policy = "
rules:
  - {rule_id: user, limit: 2, window: 1m, identifier_type: user_id}
  - {rule_id: address, limit: 3, window: 1m, identifier_type: ip}
";
    check(
        policy,
        &[
            ("0 check user_id=u ip=192.0.2.1 cost=2", "allowed by user, 0 left, warned"),
            ("0 check user_id=v ip=192.0.2.2 cost=2", "allowed by user, 0 left, warned"),
            ("0 reset user_id=u ip=192.0.2.1", "2 changed"),
            ("0 check user_id=u ip=192.0.2.1 cost=2", "allowed by user, 0 left, warned"),
            ("0 check user_id=v", "refused by user, 0 left, retry in 90000 ms, warned"),
            ("0 reset user_id=v", "1 changed"),
            ("0 check user_id=v", "allowed by user, 1 left"),
            ("0 peek ip=192.0.2.2", "allowed by address, 1 left"),
            ("0 reset tenant=unknown", "0 changed"),
        ],
    );
}

#[test]
fn one_rule_can_be_checked_by_name() {
    let policy = "
rules:
  - {rule_id: posts, limit: 2, window: 1m, identifier_type: user_id, algorithm: fixed_window, applies_to: {methods: [POST]}}
  - {rule_id: other, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: off, limit: 1, window: 1m, identifier_type: user_id, enabled: false}
blacklist: [{identifier_type: user_id, identifier: mallory, reason: abuse}]
";
    check(
        policy,
        &[
            // Whatever its conditions, and without the other rules.
            ("0 rule posts user_id=u", "allowed by posts, 1 left"),
            ("0 rule posts user_id=u", "allowed by posts, 0 left, warned"),
            ("0 rule posts user_id=u", "refused by posts, 0 left, retry in 60000 ms, warned"),
            ("0 check GET user_id=u", "allowed by other, 0 left, warned"),
            ("0 rule off user_id=u cost=9", "no rule"),
            ("0 rule posts ip=192.0.2.1", "no rule"),
            ("0 rule nonsense user_id=u", "no rule"),
            ("0 rule posts user_id=mallory", "denied: abuse"),
        ],
    );
}

#[test]
fn a_credit_refunds_without_the_decision() {
    for algorithm in
        ["fixed_window", "sliding_window_log", "sliding_window_counter", "gcra", "token_bucket"]
    {
        check(
            &policy(algorithm),
            &[
                ("0 check user_id=u cost=4", "allowed by r, 0 left, warned"),
                ("0 credit user_id=u", "1 changed"),
                ("0 credit-rule r user_id=u cost=2", "1 changed"),
                ("0 peek user_id=u", "allowed by r, 3 left"),
                ("0 credit user_id=u cost=100", "1 changed"),
                ("0 peek user_id=u", "allowed by r, 4 left"),
                ("0 credit-rule nope user_id=u", "0 changed"),
                ("0 credit ip=192.0.2.1", "0 changed"),
            ],
        );
    }
}

#[test]
fn one_rule_is_reset_alone() {
    let policy = "
rules:
  - {rule_id: user, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: tenant, limit: 3, window: 1m, identifier_type: tenant, algorithm: fixed_window}
";
    check(
        policy,
        &[
            ("0 check user_id=u tenant=acme cost=3", "allowed by tenant, 0 left, warned"),
            ("0 reset-rule tenant user_id=u tenant=acme", "1 changed"),
            ("0 peek user_id=u tenant=acme", "allowed by user, 2 left"),
            ("0 reset-rule nope user_id=u", "0 changed"),
            ("0 reset-rule tenant user_id=u", "0 changed"),
        ],
    );
}
