//! A request is charged to all rules that apply or to none, and one of them binds.

use crate::limiter::check;

const TWO_RULES: &str = "
rules:
  - {rule_id: per_user, limit: 5, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: per_tenant, limit: 3, window: 1h, identifier_type: tenant, algorithm: fixed_window}
";

#[test]
fn a_refused_request_charges_nothing() {
    check(
        TWO_RULES,
        &[
            ("0 check user_id=alice tenant=acme cost=3", "allowed by per_tenant, 0 left, warned"),
            (
                "0 check user_id=alice tenant=acme",
                "refused by per_tenant, 0 left, retry in 3600000 ms, warned",
            ),
            (
                "0 check user_id=bob tenant=acme",
                "refused by per_tenant, 0 left, retry in 3600000 ms, warned",
            ),
            // Neither user was charged by the refusals.
            ("0 check user_id=alice cost=2", "allowed by per_user, 0 left, warned"),
            ("0 check user_id=bob cost=5", "allowed by per_user, 0 left, warned"),
            // Nor was another tenant by the refusal of a user.
            (
                "0 check user_id=bob tenant=other cost=2",
                "refused by per_user, 0 left, retry in 60000 ms, warned",
            ),
            ("0 check tenant=other cost=3", "allowed by per_tenant, 0 left, warned"),
            // What does not fit as a whole is not taken in part.
            ("0 check user_id=carol cost=6", "refused by per_user, 5 left, never"),
            ("0 check user_id=carol cost=5", "allowed by per_user, 0 left, warned"),
            ("0 check user_id=dave tenant=third cost=4", "refused by per_tenant, 3 left, never"),
            ("0 check user_id=dave", "allowed by per_user, 4 left"),
        ],
    );
}

#[test]
fn every_algorithm_refuses_and_recovers() {
    for (algorithm, refused, recovered) in [
        ("fixed_window", "retry in 8000 ms", 10_000),
        ("sliding_window_log", "retry in 8000 ms", 10_000),
        ("sliding_window_counter", "retry in 10500 ms", 12_500),
        ("token_bucket", "retry in 500 ms", 2_500),
        ("gcra", "retry in 500 ms", 2_500),
        ("leaky_bucket", "retry in 500 ms", 2_500),
    ] {
        let policy = format!(
            "rules: [{{rule_id: r, limit: 4, window: 10s, identifier_type: ip, algorithm: {algorithm}}}]"
        );
        let is_queue = algorithm == "leaky_bucket";
        let (held, state) = if is_queue { (", held 0 ms", "throttled") } else { ("", "warned") };
        let full = format!("allowed by r, 0 left{held}, warned");
        let refused = format!("refused by r, 0 left, {refused}, {state}");
        let too_early = format!("{} check ip=192.0.2.1", recovered - 1);
        let in_time = format!("{recovered} check ip=192.0.2.1");
        let mut scene = crate::limiter::in_memory(&policy);
        assert_eq!(scene.step("0 check ip=192.0.2.1 cost=4"), full, "{algorithm}");
        assert_eq!(scene.step("2000 check ip=192.0.2.1"), refused, "{algorithm}");
        assert!(scene.step(&too_early).starts_with("refused by r"), "{algorithm}");
        assert!(scene.step(&in_time).starts_with("allowed by r"), "{algorithm}");
    }
}

#[test]
fn the_rule_with_the_longest_wait_or_the_least_left_binds() {
    let policy = "
rules:
  - {rule_id: minute, limit: 10, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: hour, limit: 12, window: 1h, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: day, limit: 100, window: 1d, identifier_type: user_id, algorithm: fixed_window}
";
    check(
        policy,
        &[
            ("0 check user_id=u", "allowed by minute, 9 left"),
            ("0 check user_id=u cost=9", "allowed by minute, 0 left, warned"),
            // By share, not by number: 1 of 12 is less than 9 of 10.
            ("60000 check user_id=u", "allowed by hour, 1 left, warned"),
            // Two rules refuse; the longer wait is reported.
            (
                "60000 check user_id=u cost=10",
                "refused by hour, 1 left, retry in 3540000 ms, warned",
            ),
            // Never is the longest wait.
            ("60000 check user_id=u cost=11", "refused by minute, 9 left, never, warned"),
            ("60000 check user_id=u cost=101", "refused by minute, 9 left, never, warned"),
        ],
    );
}

#[test]
fn several_subjects_settle_together() {
    check(
        TWO_RULES,
        &[
            ("0 check user_id=alice & tenant=acme cost=3", "allowed by per_tenant, 0 left, warned"),
            // The tenant refuses, so the user is not charged.
            (
                "0 check user_id=alice & tenant=acme",
                "refused by per_tenant, 0 left, retry in 3600000 ms, warned",
            ),
            ("0 peek user_id=alice", "allowed by per_user, 4 left"),
            // Where subjects meet on a counter, their costs add up.
            ("0 check user_id=alice & user_id=alice cost=2", "allowed by per_user, 1 left, warned"),
            (
                "0 check user_id=alice & user_id=alice",
                "refused by per_user, 1 left, retry in 60000 ms, warned",
            ),
            ("0 check user_id=alice & user_id=bob cost=5", "allowed by per_user, 0 left, warned"),
        ],
    );
}

#[test]
fn costs_multiply() {
    let policy = "
rules:
  - rule_id: r
    limit: 100
    window: 1m
    identifier_type: user_id
    algorithm: token_bucket
    cost: 2
    costs: {POST /reports: 10, /free: 0}
";
    check(
        policy,
        &[
            ("0 check GET /reports user_id=u", "allowed by r, 98 left"),
            ("0 check POST /reports user_id=u cost=3", "allowed by r, 68 left"),
            ("0 check GET /free user_id=u cost=1000", "allowed by r, 68 left"),
            ("0 check GET /other user_id=u cost=0", "allowed by r, 68 left"),
            (
                "0 check GET /other user_id=u cost=18446744073709551615",
                "refused by r, 68 left, never",
            ),
        ],
    );
}

/// A tenant chose the id of its rule so that both had one FNV-1a hash, by which the memory store knew rules: its
/// rule, with another algorithm, reset the counters of the operator's.
#[test]
fn rules_with_chosen_ids_share_no_counter() {
    let chosen = "acme.zn066tia3ekmt9xeh12g0y01e2d4xvx3iwgc1cea";
    let policy = format!(
        "
rules:
  - {{rule_id: acme-plan, tenant: acme, limit: 1, window: 1h, identifier_type: user_id, algorithm: fixed_window, applies_to: {{endpoints: [/plan]}}}}
  - {{rule_id: {chosen}, tenant: acme, limit: 9, window: 1h, identifier_type: user_id, algorithm: gcra, applies_to: {{endpoints: [/other]}}}}
"
    );
    let refused = "refused by acme-plan, 0 left, retry in 3600000 ms, warned";
    let other = format!("allowed by {chosen}, 8 left");
    check(
        &policy,
        &[
            ("0 check /plan tenant=acme user_id=u", "allowed by acme-plan, 0 left, warned"),
            ("0 check /plan tenant=acme user_id=u", refused),
            ("0 check /other tenant=acme user_id=u", &other),
            ("0 check /plan tenant=acme user_id=u", refused),
        ],
    );
}
