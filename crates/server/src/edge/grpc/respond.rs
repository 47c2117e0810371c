//! Writes responses to checks as the bytes of their messages: there is one for every check, and a message as a value
//! would allocate each of its texts.

use prost::Message as _;
use tollgate::http::{full_at, remaining, reset_at, retry_after, retry_after_rule};
use tollgate::{Decision, RuleOutcome, SoftState};

use super::definitions::tollgate::v1::{QuotaResponse, RuleQuota, RuleStatus};
use super::encode::{bytes, nested, number, some_number, text};
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::response::{reason, refuser, seconds};

/// Writes a `CheckResponse`.
pub(super) fn write(out: &mut Vec<u8>, decision: &Decision, id: Option<&[u8]>, detail: bool) {
    let binding = decision.binding();
    let figures = binding.as_ref().map(|binding| &binding.outcome);
    let rule_id = binding.as_ref().map(|binding| &*binding.rule.id).or_else(|| refuser(decision));
    some_number(out, 1, u64::from(decision.is_allowed()));
    if let (Some(binding), Some(figures)) = (&binding, figures) {
        some_number(out, 2, figures.limit.saturating_sub(remaining(figures)));
        number(out, 3, figures.limit);
        number(out, 4, remaining(figures));
        number(out, 5, reset_at(decision.now(), binding.limit(), figures));
    }
    if let Some(seconds) = retry_after(decision) {
        number(out, 6, seconds);
    }
    text(out, 7, rule_id.unwrap_or_default());
    text(out, 8, state(decision.state()));
    if let Some(id) = id {
        bytes(out, 9, id);
    }
    text(out, 10, decision.refusal().map_or("", |refusal| reason(refusal).name()));
    some_number(out, 11, decision.delay().map_or(0, tollgate::Micros::as_millis_ceil));
    if let Some(kind) = decision.degraded() {
        text(out, 12, &kind.to_string());
    }
    if detail {
        for outcome in decision.outcomes() {
            let rule = rule(decision, &outcome);
            nested(out, 13, |out| rule.encode_raw(out));
        }
    }
}

/// Writes a `CheckResponse` as a result of a batch.
pub(super) fn write_result(out: &mut Vec<u8>, response: impl FnOnce(&mut Vec<u8>)) {
    nested(out, 1, |out| nested(out, 1, response));
}

/// Writes the problem of a check as its result in a batch.
pub(super) fn write_error(out: &mut Vec<u8>, problem: &Problem) {
    nested(out, 1, |out| {
        nested(out, 2, |out| {
            text(out, 1, problem.code());
            text(out, 2, problem.detail());
        });
    });
}

/// What is left, without a decision.
pub(super) fn quota(decision: &Decision) -> QuotaResponse {
    let binding = decision.binding();
    let rule_id = binding.as_ref().map(|binding| &*binding.rule.id).or_else(|| refuser(decision));
    QuotaResponse {
        limit: binding.as_ref().map(|binding| binding.outcome.limit),
        remaining: binding.as_ref().map(|binding| remaining(&binding.outcome)),
        reset_at: binding
            .as_ref()
            .map(|binding| reset_at(decision.now(), binding.limit(), &binding.outcome)),
        rule_id: rule_id.unwrap_or_default().to_owned(),
        rules: decision.outcomes().map(|outcome| rule(decision, &outcome)).collect(),
    }
}

fn rule(decision: &Decision, outcome: &RuleOutcome<'_>) -> RuleStatus {
    let (figures, (limit, window)) = (&outcome.outcome, outcome.quota());
    RuleStatus {
        rule_id: outcome.rule.id.to_string(),
        allowed: !outcome.is_exceeded(),
        shadow: outcome.is_shadow(),
        limit: figures.limit,
        remaining: remaining(figures),
        window_seconds: seconds(figures.window),
        cost: figures.cost,
        reset_at: reset_at(decision.now(), outcome.limit(), &outcome.outcome),
        full_at: Some(full_at(decision.now(), figures)),
        quota: (limit != figures.limit)
            .then(|| RuleQuota { limit, window_seconds: seconds(window) }),
        retry_after: retry_after_rule(figures),
        state: state(outcome.state).to_owned(),
    }
}

const fn state(state: SoftState) -> &'static str {
    match state {
        SoftState::Normal => "normal",
        SoftState::Warning => "warning",
        SoftState::Throttled => "throttled",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tollgate::{Limiter, Request};

    use super::super::definitions::tollgate::v1::check_result::Result as One;
    use super::super::definitions::tollgate::v1::{
        CheckBatchResponse, CheckError, CheckResponse, CheckResult,
    };
    use super::*;

    /// The same response as a value.
    fn expected(decision: &Decision, id: Option<&str>, detail: bool) -> CheckResponse {
        let QuotaResponse { limit, remaining, reset_at, rule_id, rules } = quota(decision);
        let in_use = |binding: RuleOutcome<'_>| {
            binding.outcome.limit.saturating_sub(binding.outcome.remaining())
        };
        CheckResponse {
            allowed: decision.is_allowed(),
            current_count: decision.binding().map_or(0, in_use),
            limit,
            remaining,
            reset_at,
            retry_after: retry_after(decision),
            rule_id,
            state: state(decision.state()).to_owned(),
            decision_id: id.unwrap_or_default().to_owned(),
            reason: decision.refusal().map_or("", |refusal| reason(refusal).name()).to_owned(),
            delay_ms: decision.delay().map_or(0, tollgate::Micros::as_millis_ceil),
            degraded: decision.degraded().map(|kind| kind.to_string()).unwrap_or_default(),
            rules: if detail { rules } else { Vec::new() },
        }
    }

    #[test]
    fn responses_are_written_as_the_library_writes_them() {
        let long = "r".repeat(100);
        let limiter = Limiter::from_text(&format!(
            "
             blacklist: [{{identifier: banned, identifier_type: user_id}}]
             whitelist: [{{identifier: root, identifier_type: user_id}}]
             rules:
             - {{rule_id: per_user, limit: 5, window: 1m, identifier_type: user_id}}
             - {{rule_id: {long}, algorithm: leaky_bucket, limit: 2, burst: 8, window: 1s, identifier_type: user_id}}
             - {{rule_id: watch, limit: 1, window: 1m, identifier_type: global, action: log_only}}",
        ))
        .unwrap_or_else(|problems| panic!("{problems}"));
        let mut states = HashSet::new();
        let (mut batch, mut results) = (Vec::new(), Vec::new());
        for round in 0..8 {
            for user in [Some("u1"), Some("banned"), Some("root"), None] {
                let request = user.map_or_else(Request::new, |user| Request::new().user_id(user));
                let decision = limiter.check(&request).now();
                for (id, detail) in [(None, round % 2 == 0), (Some("d1f00dbee-a2a"), true)] {
                    let expected = expected(&decision, id, detail);
                    let mut written = Vec::new();
                    write(&mut written, &decision, id.map(str::as_bytes), detail);
                    assert_eq!(CheckResponse::decode(&*written).as_ref(), Ok(&expected));
                    assert_eq!(written, expected.encode_to_vec());
                    let id = id.map(str::as_bytes);
                    write_result(&mut batch, |out| write(out, &decision, id, detail));
                    results.push(CheckResult { result: Some(One::Response(expected)) });
                    states.insert((decision.is_allowed(), decision.state()));
                }
            }
        }
        assert!(states.len() > 3, "{states:?}");
        let problem = Problem::unprocessable("invalid_check", "x".repeat(300));
        write_error(&mut batch, &problem);
        let (code, detail) = (problem.code().to_owned(), problem.detail().to_owned());
        results.push(CheckResult { result: Some(One::Error(CheckError { code, detail })) });
        assert_eq!(batch, CheckBatchResponse { results }.encode_to_vec());
    }
}
