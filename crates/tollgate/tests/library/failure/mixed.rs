//! Rules counted on this node and rules counted in the store, in one request: all or nothing still.

use tollgate::Micros;

use crate::failure::faulty::FaultyStore;
use crate::failure::{check, check_with};

fn policy(own: &str, shared: &str) -> String {
    format!(
        "
rules:
  - {{rule_id: own, limit: 3, window: 1m, identifier_type: user_id, algorithm: fixed_window, consistency: local, {own}}}
  - {{rule_id: shared, limit: 3, window: 1m, identifier_type: tenant, algorithm: fixed_window, {shared}}}
"
    )
}

#[test]
fn a_local_refusal_charges_nothing_in_the_store() {
    check(
        &policy("cost: 1", "cost: 1"),
        &[
            ("0 check user_id=u cost=3", "allowed by own, 0 left, warned"),
            ("0 check user_id=u tenant=acme", "refused by own, 0 left, retry in 60000 ms, warned"),
            ("0 check tenant=acme cost=3", "allowed by shared, 0 left, warned"),
        ],
    );
}

#[test]
fn a_refusal_by_the_store_charges_nothing_locally() {
    check(
        &policy("cost: 1", "cost: 1"),
        &[
            ("0 check tenant=acme cost=2", "allowed by shared, 1 left"),
            (
                "0 check user_id=u tenant=acme cost=2",
                "refused by shared, 1 left, retry in 60000 ms",
            ),
            ("0 peek user_id=u", "allowed by own, 3 left"),
            ("0 check user_id=u tenant=acme", "allowed by shared, 0 left, warned"),
            ("0 peek user_id=u", "allowed by own, 2 left"),
        ],
    );
}

#[test]
fn both_are_charged_and_refunded() {
    check(
        &policy("cost: 1", "cost: 1"),
        &[
            ("0 check user_id=u tenant=acme cost=2", "allowed by own, 1 left"),
            ("0 refund", "done"),
            ("0 peek user_id=u", "allowed by own, 3 left"),
            ("0 peek tenant=acme", "allowed by shared, 3 left"),
        ],
    );
}

#[test]
fn a_local_rule_does_not_need_the_store() {
    check(
        &policy("on_store_failure: closed", "on_store_failure: closed"),
        &[
            ("down", ""),
            ("0 check user_id=u", "allowed by own, 2 left"),
            // The shared rule does, and the charge of the local one is refunded.
            ("0 check user_id=u tenant=acme", "refused: store unavailable, degraded"),
            ("0 peek user_id=u", "allowed by own, 2 left"),
            ("up", ""),
            ("0 check user_id=u tenant=acme", "allowed by own, 1 left"),
        ],
    );
}

#[test]
fn without_the_store_both_count_locally() {
    check(
        &policy("cost: 1", "fallback_factor: 1"),
        &[
            ("down", ""),
            ("0 check user_id=u tenant=acme cost=2", "allowed by own, 1 left, degraded"),
            (
                "0 check user_id=v tenant=acme cost=2",
                "refused by shared, 1 left, retry in 60000 ms, degraded",
            ),
            ("0 peek user_id=v", "allowed by own, 3 left"),
            ("0 refund oldest", "done"),
            ("0 peek user_id=u tenant=acme", "allowed by own, 3 left, degraded"),
        ],
    );
}

/// A local shadow rule did not count what did not fit, so it has nothing to refund when the store
/// refuses.
#[test]
fn only_charged_units_are_refunded() {
    check(
        &policy("action: log_only", "cost: 1"),
        &[
            ("0 check tenant=acme cost=3", "allowed by shared, 0 left, warned"),
            ("0 check user_id=u cost=2", "allowed"),
            (
                "0 check user_id=u tenant=acme cost=2",
                "refused by shared, 0 left, retry in 60000 ms, warned, own would refuse",
            ),
            ("0 check user_id=u cost=2", "allowed, own would refuse"),
        ],
    );
}

/// A store with its own clock decides by that clock; local charges are refunded by ours.
#[test]
fn a_refund_knows_both_clocks() {
    for algorithm in ["fixed_window", "sliding_window_log"] {
        let policy = policy("cost: 1", "cost: 1").replace("fixed_window", algorithm);
        check_with(
            FaultyStore::new(Micros::from_secs(90)),
            &policy,
            &[
                ("0 check user_id=u tenant=acme cost=2", "allowed by own, 1 left"),
                ("0 refund", "done"),
                ("0 peek tenant=acme", "allowed by shared, 3 left"),
                ("0 peek user_id=u", "allowed by own, 3 left"),
            ],
        );
    }
}
