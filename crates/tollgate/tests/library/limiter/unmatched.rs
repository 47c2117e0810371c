//! Requests that no rule applies to.

use crate::scene::{parse, render, request};
use tollgate::{Attributes, CheckTarget, Limiter, Refusal, Unmatched};

const POLICY: &str = "
rules:
  - {rule_id: orders, limit: 5, window: 1m, identifier_type: user_id, applies_to: {endpoints: [/orders]}}
  - {rule_id: watched, limit: 5, window: 1m, identifier_type: global, applies_to: {endpoints: [/watched]}, action: log_only}
  - {rule_id: off, limit: 5, window: 1m, identifier_type: global, enabled: false}
whitelist: [{identifier_type: user_id, identifier: root}]
blacklist: [{identifier_type: user_id, identifier: eve}]
";

fn limiter(unmatched: Unmatched) -> Limiter {
    Limiter::builder().policy(parse(POLICY)).unmatched(unmatched).build()
}

#[test]
fn requests_that_no_rule_applies_to_pass_or_are_denied() {
    for (asked, by_default, denied) in [
        ("/orders user_id=u", "allowed by orders, 4 left", "allowed by orders, 4 left"),
        ("/watched", "allowed", "allowed"),
        ("/other user_id=u", "no rule", "denied: no rule"),
        // The rule for orders lacks its identifier, and is skipped.
        ("/orders", "no rule", "denied: no rule"),
        ("/other user_id=root", "never limited: no reason", "never limited: no reason"),
        ("/other user_id=eve", "denied: no reason", "denied: no reason"),
    ] {
        for (unmatched, expected) in [(Unmatched::Allow, by_default), (Unmatched::Deny, denied)] {
            let limiter = limiter(unmatched);
            let request = request(asked);
            assert_eq!(render(&limiter.check(&request).now()), expected, "{asked} {unmatched:?}");
            let limiter = self::limiter(unmatched);
            let batch = limiter.check_batch(&[&request, &request]).now();
            assert_eq!(render(&batch[0]), expected, "{asked} {unmatched:?}, in a batch");
            assert_eq!(batch[1].is_allowed(), batch[0].is_allowed());
            let explained = limiter.explain(&request).now();
            assert_eq!(explained.would_pass, batch[0].is_allowed(), "{asked} {unmatched:?}");
        }
    }
    assert_eq!(
        limiter(Unmatched::Deny).check(&request("/other")).now().refusal(),
        Some(Refusal::Denied)
    );
}

/// A caller that names a rule, or charges of its choice, does not depend on what the rules apply to.
#[test]
fn a_check_of_one_rule_is_never_unmatched() {
    let limiter = limiter(Unmatched::Deny);
    let request = request("/other user_id=u");
    for rule in ["orders", "off", "missing"] {
        assert!(limiter.check(CheckTarget::Rule(rule, &request)).now().is_allowed(), "{rule}");
    }
    assert!(limiter.check(CheckTarget::Charges(&[])).now().is_allowed());
    let views: [&dyn Attributes; 2] = [&request, &request];
    assert!(!limiter.check(CheckTarget::Views(&views)).now().is_allowed());
}
