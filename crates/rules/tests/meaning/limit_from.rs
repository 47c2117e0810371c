//! Limits that verified tokens carry.

use tollgate_core::Timestamp;

use crate::request::{Request, plan, policy};

const POLICY: &str = "
rules:
- {rule_id: r, limit: 100, window: 1m, identifier_type: user_id, limit_from: {claim: rate_limit, ceiling: 1000}}
- {rule_id: b, limit: 100, window: 1m, burst: 7, algorithm: gcra, identifier_type: user_id,
   limit_from: {claim: rate_limit, ceiling: 1000}}
overrides:
- {identifier_type: user_id, identifier: ann, rule_id: r, limit: 5}
";

/// The limits of a request under both rules.
fn limits(request: Request) -> Vec<(u64, u64)> {
    let policy = policy(POLICY);
    let plan = plan(&policy, &[request], Timestamp::EPOCH);
    let charges = plan.charges(policy.rules());
    charges.map(|charge| (charge.limit.limit(), charge.limit.capacity())).collect()
}

/// Where explain says that the limit of the first rule comes from.
fn from(request: &Request) -> Option<String> {
    policy(POLICY).explain(request, Timestamp::EPOCH).rules[0].quota.limit_from.clone()
}

#[test]
fn a_claim_is_the_limit_up_to_the_ceiling() {
    let unreadable = Some("the rule, since claim:rate_limit is not a whole number");
    for (claim, limit, expected) in [
        (Some("250"), 250, Some("claim:rate_limit")),
        (Some("1"), 1, Some("claim:rate_limit")),
        (Some("0250"), 250, Some("claim:rate_limit")),
        (Some("100"), 100, Some("claim:rate_limit")),
        (Some("1000"), 1000, Some("claim:rate_limit")),
        (Some("1001"), 1000, Some("the ceiling of claim:rate_limit")),
        (Some("18446744073709551615"), 1000, Some("the ceiling of claim:rate_limit")),
        // As in a rule, 0 blocks.
        (Some("0"), 0, Some("claim:rate_limit")),
        (None, 100, Some("the rule, since claim:rate_limit is missing")),
        // An empty value is none.
        (Some(""), 100, Some("the rule, since claim:rate_limit is missing")),
        (Some("-1"), 100, unreadable),
        (Some("+250"), 100, unreadable),
        (Some("250.0"), 100, unreadable),
        (Some("0.5"), 100, unreadable),
        (Some("1e3"), 100, unreadable),
        (Some(" 250"), 100, unreadable),
        (Some("1_000"), 100, unreadable),
        (Some("0xff"), 100, unreadable),
        (Some("٢٥٠"), 100, unreadable),
        (Some("unlimited"), 100, unreadable),
        (Some("true"), 100, unreadable),
        (Some("18446744073709551616"), 100, unreadable),
    ] {
        let mut request = Request::parse("user_id=bob");
        if let Some(claim) = claim {
            request = request.with("claim:rate_limit", claim);
        }
        assert_eq!(from(&request).as_deref(), expected, "{claim:?}");
        let burst = if limit == 0 { 0 } else { 7 };
        assert_eq!(limits(request), [(limit, limit), (limit, burst)], "{claim:?}");
    }
}

/// Only claims, which come from verified tokens: not a header or attribute of that name.
#[test]
fn nothing_but_a_claim_carries_a_limit() {
    for name in ["header:rate_limit", "attribute:rate_limit", "claim:limit", "rate_limit"] {
        let request = Request::parse("user_id=bob").with(name, "500");
        assert_eq!(limits(request)[0].0, 100, "{name}");
    }
}

#[test]
fn an_override_takes_precedence_over_a_claim() {
    let request = Request::parse("user_id=ann").with("claim:rate_limit", "500");
    assert_eq!(from(&request), None, "the override is named instead");
    assert_eq!(limits(request), [(5, 5), (500, 7)]);
}

/// The counter is that of the client, whatever its token says: a new token does not start a new one.
#[test]
fn a_claim_changes_the_limit_and_not_the_counter() {
    let policy = policy(POLICY);
    let fingerprint = |claim: &str| {
        let request = Request::parse("user_id=bob").with("claim:rate_limit", claim);
        plan(&policy, &[request], Timestamp::EPOCH).planned()[0].fingerprint()
    };
    assert_eq!(fingerprint("200"), fingerprint("300"));
}
