//! The client of a request: lists, tiers, overrides, and unknown clients; and rules that do not refuse.

use crate::limiter::check;

#[test]
fn lists_come_before_rules() {
    let policy = "
rules: [{rule_id: r, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window}]
whitelist:
  - {identifier_type: ip, identifier: 10.0.0.0/8, reason: internal}
  - {identifier_type: user_id, identifier: root}
blacklist:
  - {identifier_type: ip, identifier: 10.6.6.0/24, reason: abuse}
  - {identifier_type: api_key, identifier: stolen, reason: leaked, expires_at: '2023-11-15T00:01:00Z'}
";
    check(
        policy,
        &[
            ("0 check user_id=u ip=10.1.1.1 cost=100", "never limited: internal"),
            ("0 check user_id=root cost=100", "never limited: no reason"),
            // Exempt requests were not counted.
            ("0 check user_id=u", "allowed by r, 0 left, warned"),
            ("0 check user_id=u ip=10.6.6.6", "denied: abuse"),
            ("0 check user_id=root ip=10.6.6.6", "denied: abuse"),
            ("59999 check user_id=v api_key=stolen", "denied: leaked"),
            // The entry has expired, and the refusals charged nothing.
            ("60000 check user_id=v api_key=stolen", "allowed by r, 0 left, warned"),
            // Of several subjects one that is denied refuses, one that is exempt exempts.
            ("60000 check user_id=w & ip=10.6.6.6", "denied: abuse"),
            ("60000 check user_id=v & user_id=root", "never limited: no reason"),
        ],
    );
}

#[test]
fn a_rule_can_require_its_identifier() {
    let policy = "
rules:
  - {rule_id: all, limit: 2, window: 1m, identifier_type: global, algorithm: fixed_window}
  - {rule_id: key, limit: 9, window: 1m, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/api/*]}}
  - {rule_id: user, limit: 9, window: 1m, identifier_type: user_id}
";
    check(
        policy,
        &[
            ("0 check /api/x user_id=u", "denied: identifier missing"),
            ("0 check /api/x api_key=", "denied: identifier missing"),
            // The refusals charged no counter.
            ("0 check /api/x api_key=k", "allowed by all, 1 left"),
            ("0 check /home", "allowed by all, 0 left, warned"),
            ("0 check /api/x", "denied: identifier missing"),
        ],
    );
}

#[test]
fn tiers_choose_rules_and_exceptions_change_limits() {
    let policy = "
tiers: [{tier: free, default: true}, {tier: pro}]
clients: [{identifier_type: user_id, identifier: paul, tier: pro}]
rules:
  - {rule_id: free, limit: 2, window: 1m, identifier_type: user_id, algorithm: fixed_window, applies_to: {user_tiers: [free]}}
  - {rule_id: pro, limit: 20, window: 1m, identifier_type: user_id, algorithm: fixed_window, applies_to: {user_tiers: [pro]}}
overrides:
  - {identifier_type: user_id, identifier: olga, rule_id: free, limit: 5}
  - {identifier_type: user_id, identifier: max, rule_id: free, multiplier: 1.5, expires_at: '2023-11-15T00:00:30Z'}
";
    check(
        policy,
        &[
            ("0 check user_id=fred", "allowed by free, 1 left"),
            ("0 check user_id=paul", "allowed by pro, 19 left"),
            ("0 check user_id=fred tier=pro", "allowed by pro, 19 left"),
            // The directory overrides the tier of the request, and an unknown tier is ignored.
            ("0 check user_id=paul tier=free", "allowed by pro, 18 left"),
            ("0 check user_id=fred tier=gold", "allowed by free, 0 left, warned"),
            ("0 check user_id=olga", "allowed by free, 4 left"),
            ("0 check user_id=max cost=3", "allowed by free, 0 left, warned"),
            // The override ends, and its charges stay counted.
            ("30000 check user_id=max", "refused by free, 0 left, retry in 30000 ms, warned"),
            ("60000 check user_id=max", "allowed by free, 1 left"),
        ],
    );
}

#[test]
fn a_shadow_rule_refuses_no_request() {
    let policy = "
rules:
  - {rule_id: watch, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window, action: log_only}
  - {rule_id: real, limit: 3, window: 1m, identifier_type: ip, algorithm: fixed_window}
";
    check(
        policy,
        &[
            ("0 check user_id=u", "allowed"),
            ("0 check user_id=u", "allowed, watch would refuse"),
            (
                "0 check user_id=u ip=192.0.2.1 cost=2",
                "allowed by real, 1 left, watch would refuse",
            ),
            (
                "0 check user_id=v ip=192.0.2.1 cost=2",
                "refused by real, 1 left, retry in 60000 ms, watch would refuse",
            ),
            // A refused request does not charge shadow rules.
            ("0 check user_id=w ip=192.0.2.1 cost=1", "allowed by real, 0 left, warned"),
            (
                "0 check user_id=x ip=192.0.2.1 cost=1",
                "refused by real, 0 left, retry in 60000 ms, warned",
            ),
            ("0 check user_id=x", "allowed"),
            ("0 check user_id=w", "allowed, watch would refuse"),
            ("60000 check user_id=u", "allowed"),
        ],
    );
}

#[test]
fn throttled_requests_have_a_delay() {
    let policy = |algorithm: &str| {
        format!(
            "rules: [{{rule_id: r, limit: 10, window: 10s, burst: 2, identifier_type: user_id, \
             algorithm: {algorithm}, action: throttle, throttle: {{max_delay_ms: 2000}}}}]"
        )
    };
    for algorithm in ["gcra", "token_bucket"] {
        check(
            &policy(algorithm),
            &[
                ("0 check user_id=u", "allowed by r, 1 left, held 0 ms"),
                ("0 check user_id=u", "allowed by r, 0 left, held 0 ms, warned"),
                ("0 check user_id=u", "allowed by r, 0 left, held 1000 ms, throttled"),
                ("0 check user_id=u", "allowed by r, 0 left, held 2000 ms, throttled"),
                ("0 check user_id=u", "refused by r, 0 left, retry in 1000 ms, throttled"),
                ("500 check user_id=u", "refused by r, 0 left, retry in 500 ms, throttled"),
                ("1000 check user_id=u", "allowed by r, 0 left, held 2000 ms, throttled"),
            ],
        );
    }
    // A queue delays every request but the first, up to its length.
    check(
        &policy("leaky_bucket"),
        &[
            ("0 check user_id=u", "allowed by r, 1 left, held 0 ms"),
            ("0 check user_id=u", "allowed by r, 0 left, held 1000 ms, throttled"),
            ("0 check user_id=u", "refused by r, 0 left, retry in 1000 ms, throttled"),
            ("1500 check user_id=u", "allowed by r, 0 left, held 500 ms, throttled"),
        ],
    );
}

#[test]
fn the_longest_delay_counts() {
    let policy = "
rules:
  - {rule_id: slow, limit: 1, window: 1s, burst: 5, identifier_type: user_id, algorithm: leaky_bucket}
  - {rule_id: fast, limit: 2, window: 1s, burst: 5, identifier_type: ip, algorithm: leaky_bucket}
";
    check(
        policy,
        &[
            ("0 check user_id=u ip=192.0.2.1", "allowed by slow, 4 left, held 0 ms"),
            ("0 check user_id=u ip=192.0.2.1", "allowed by slow, 3 left, held 1000 ms, throttled"),
            ("0 check user_id=v ip=192.0.2.1", "allowed by fast, 2 left, held 1000 ms, throttled"),
        ],
    );
}
