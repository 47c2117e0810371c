//! The response to a check: from a decision, and as JSON.

use std::borrow::Cow;

use serde::Serialize;
use tollgate::http::{full_at, remaining, reset_at, retry_after, retry_after_rule};
use tollgate::{
    Decision, DecisionReason, Limit, Micros, Mode, Outcome, Refusal, RuleOutcome, SoftState,
    Timestamp,
};
use tollgate_api::{CheckResponse, Reason, RuleQuota, RuleResult, State};

use super::time::rfc_3339;

/// The response to a check. With `detail`, it lists every rule that applied.
pub(crate) fn response<'a>(
    decision: &'a Decision,
    decision_id: Option<&'a str>,
    detail: bool,
) -> CheckResponse<'a> {
    let binding = decision.binding();
    let refusal = decision.refusal();
    let rule_id = binding.map(|binding| &*binding.rule.id).or_else(|| refuser(decision));
    CheckResponse {
        allowed: decision.is_allowed(),
        limit: binding.map(|binding| binding.outcome.limit),
        remaining: binding.map(|binding| remaining(&binding.outcome)),
        reset_at: binding
            .map(|binding| reset_at(decision.now(), binding.limit(), &binding.outcome)),
        rule_id: rule_id.map(Cow::Borrowed),
        state: state(decision.state()),
        decision_id: decision_id.map(Cow::Borrowed),
        retry_after: refusal.map(|_| retry_after(decision)),
        reason: refusal.map(reason),
        because: because(decision),
        delay_ms: decision
            .delay()
            .filter(|delay| *delay > Micros::ZERO)
            .map(Micros::as_millis_ceil),
        degraded: decision.degraded().map(|kind| kind.to_string()),
        rules: detail.then(|| rule_results(decision)),
    }
}

/// Every rule that applied.
pub(crate) fn rule_results(decision: &Decision) -> Vec<RuleResult<'_>> {
    decision.outcomes().map(|outcome| rule_result(decision, &outcome)).collect()
}

/// The rules of a tenant that applied.
pub(crate) fn own_results<'a>(decision: &'a Decision, tenant: &str) -> Vec<RuleResult<'a>> {
    let is_own = |outcome: &RuleOutcome<'_>| outcome.rule.tenant.as_deref() == Some(tenant);
    let own = decision.outcomes().filter(is_own);
    own.map(|outcome| rule_result(decision, &outcome)).collect()
}

fn rule_result<'a>(decision: &Decision, outcome: &RuleOutcome<'a>) -> RuleResult<'a> {
    figures_of(&outcome.rule.id, decision.now(), outcome.limit(), &outcome.outcome, outcome.state)
}

/// The figures of one rule at that time.
pub(crate) fn figures_of<'a>(
    rule_id: &'a str,
    at: Timestamp,
    limit: &Limit,
    outcome: &Outcome,
    soft: SoftState,
) -> RuleResult<'a> {
    let quota = RuleQuota { limit: limit.limit(), window_seconds: seconds(limit.window()) };
    RuleResult {
        rule_id: Cow::Borrowed(rule_id),
        allowed: outcome.admitted,
        shadow: outcome.mode == Mode::Shadow,
        limit: outcome.limit,
        remaining: remaining(outcome),
        window_seconds: seconds(outcome.window),
        quota: (quota.limit != outcome.limit).then_some(quota),
        cost: outcome.cost,
        reset_at: reset_at(at, limit, outcome),
        full_at: Some(full_at(at, outcome)),
        retry_after: (!outcome.admitted).then(|| retry_after_rule(outcome)),
        state: state(soft),
    }
}

/// A span in seconds, as the API has it.
pub(crate) const fn seconds(span: Micros) -> f64 {
    span.get() as f64 / 1e6
}

/// The reason of a refusal as the API names it.
pub(crate) const fn reason(refusal: Refusal) -> Reason {
    match refusal {
        Refusal::RateLimited => Reason::RateLimited,
        Refusal::Denied => Reason::Denied,
        Refusal::Banned => Reason::Banned,
        Refusal::StoreUnavailable => Reason::StoreUnavailable,
    }
}

pub(crate) const fn state(state: SoftState) -> State {
    match state {
        SoftState::Normal => State::Normal,
        SoftState::Warning => State::Warning,
        SoftState::Throttled => State::Throttled,
    }
}

/// Writes a response as JSON. What every response holds is written by hand: that is several times
/// as fast as a serializer, and there is a response for every check. The id of the decision is `id`.
pub(crate) fn write(response: &CheckResponse<'_>, id: Option<&[u8]>, out: &mut Vec<u8>) {
    let CheckResponse { allowed, limit, remaining, reset_at, rule_id, state, .. } = response;
    out.extend_from_slice(if *allowed { b"{\"allowed\":true" } else { b"{\"allowed\":false" });
    number(out, b",\"limit\":", *limit);
    number(out, b",\"remaining\":", *remaining);
    number(out, b",\"reset_at\":", *reset_at);
    out.extend_from_slice(b",\"rule_id\":");
    match rule_id {
        Some(rule_id) => text(out, rule_id),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(match state {
        State::Warning => b",\"state\":\"warning\"".as_slice(),
        State::Throttled => b",\"state\":\"throttled\"",
        _ => b",\"state\":\"normal\"",
    });
    if let Some(id) = id {
        // The server creates decision ids, and they need no escapes.
        out.extend_from_slice(b",\"decision_id\":\"");
        out.extend_from_slice(id);
        out.push(b'"');
    }
    let CheckResponse { retry_after, reason, because, delay_ms, degraded, rules, .. } = response;
    rest(out, "retry_after", retry_after.as_ref());
    rest(out, "reason", reason.as_ref());
    rest(out, "because", because.as_ref());
    rest(out, "delay_ms", delay_ms.as_ref());
    rest(out, "degraded", degraded.as_ref());
    rest(out, "rules", rules.as_ref());
    out.push(b'}');
}

fn number(out: &mut Vec<u8>, name: &[u8], number: Option<u64>) {
    out.extend_from_slice(name);
    match number {
        Some(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes a JSON string. Rule ids rarely need escapes, so the check for them comes first.
fn text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Text always serialises, and writing to a vector cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

/// Writes a field that is rarely present.
fn rest(out: &mut Vec<u8>, name: &str, value: Option<&impl Serialize>) {
    if let Some(value) = value {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        let _ = serde_json::to_writer(out, value);
    }
}

/// Why a decision was made, if not by a limit.
fn because(decision: &Decision) -> Option<String> {
    match decision.reason() {
        DecisionReason::NoRule if !decision.is_allowed() => {
            Some("no rule applies, and unmatched is deny".to_owned())
        }
        DecisionReason::Rules
        | DecisionReason::NoRule
        | DecisionReason::StoreUnavailable { .. } => None,
        DecisionReason::AllowListed { .. } => Some("the client is whitelisted".to_owned()),
        DecisionReason::DenyListed { .. } => Some("the client is blacklisted".to_owned()),
        DecisionReason::Banned { until, .. } => Some(format!("banned until {}", rfc_3339(*until))),
        DecisionReason::MissingIdentifier { .. } => {
            let identifiers = decision.refuser().map_or(&[][..], |rule| &rule.identifiers[..]);
            let names: Vec<String> = identifiers.iter().map(ToString::to_string).collect();
            Some(match names.as_slice() {
                [name] => format!("it has no {name}"),
                names => format!("it lacks one of {}", names.join(", ")),
            })
        }
    }
}

/// The id of the rule that refused without counting.
pub(crate) fn refuser(decision: &Decision) -> Option<&str> {
    decision.refuser().map(|rule| &*rule.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Limiter, Request};

    /// The handwritten JSON of a response equals that of serde.
    #[test]
    fn responses_are_written_as_serde_writes_them() {
        let limiter = Limiter::from_text(
            "
             blacklist: [{identifier: banned, identifier_type: user_id}]
             whitelist: [{identifier: root, identifier_type: user_id}]
             rules:
             - {rule_id: per_user, limit: 5, window: 1m, identifier_type: user_id}
             - {rule_id: smooth, algorithm: leaky_bucket, limit: 2, burst: 8, window: 1s, identifier_type: user_id}
             - {rule_id: watch, limit: 1, window: 1m, identifier_type: global, action: log_only}",
        )
        .unwrap_or_else(|problems| panic!("{problems}"));
        let mut states = std::collections::HashSet::new();
        for round in 0..8 {
            for user in [Some("u1"), Some("banned"), Some("root"), None] {
                let request = user.map_or_else(Request::new, |user| Request::new().user_id(user));
                let decision = limiter.check(&request).now();
                for (id, detail) in [(None, round % 2 == 0), (Some("d1f00dbee-a2a"), true)] {
                    let response = response(&decision, id, detail);
                    let mut written = Vec::new();
                    write(&response, id.map(str::as_bytes), &mut written);
                    assert_eq!(
                        String::from_utf8(written.clone()).ok(),
                        serde_json::to_string(&response).ok()
                    );
                    let read: CheckResponse<'_> = serde_json::from_slice(&written).expect("JSON");
                    assert_eq!(read, response, "the written response is read back");
                    states.insert((decision.is_allowed(), decision.state()));
                }
            }
        }
        assert!(states.len() > 3, "{states:?}");
    }

    #[test]
    fn a_text_that_needs_escapes_gets_them() {
        for odd in ["plain", "", "quo\"te", "back\\slash", "new\nline", "\u{e9}\u{1}"] {
            let mut written = Vec::new();
            text(&mut written, odd);
            assert_eq!(String::from_utf8(written).ok(), serde_json::to_string(odd).ok());
        }
    }
}
