//! One decision as it is answered.

use serde::Serialize;
use tollgate::http::{remaining, reset_at, retry_after, retry_after_rule};
use tollgate::{Basis, Decision, Micros, Refusal, RuleOutcome, SoftState};
use utoipa::ToSchema;

use super::time::rfc_3339;

/// Whether a request may pass, and what there is to say about it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(example = json!({"allowed": true, "limit": 1000, "remaining": 999, "reset_at": 1_638_360_000,
    "rule_id": "api_default", "state": "normal", "decision_id": "d1f00dbee-a2a"}))]
pub(crate) struct CheckAnswer<'a> {
    /// Whether the request may pass.
    allowed: bool,
    /// The limit of the rule that binds; null if no rule applied.
    #[schema(required = true)]
    limit: Option<u64>,
    /// What is left of it.
    #[schema(required = true)]
    remaining: Option<u64>,
    /// When all of it is back, in seconds since 1970.
    #[schema(required = true)]
    reset_at: Option<u64>,
    /// The rule that binds; null if no rule applied.
    #[schema(required = true)]
    rule_id: Option<&'a str>,
    /// How close the client is to its limits.
    #[schema(value_type = State)]
    state: SoftState,
    /// Names this decision, to have it explained or given back; not there if nothing was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_id: Option<&'a str>,
    /// Refused: seconds after which the same request would pass; null if it never will.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retry_after: Option<Option<u64>>,
    /// Refused: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// What decided, if it was no limit: a list, a ban, or an identifier that the request lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    /// Allowed, but the request should be held for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    /// The shared store had no say: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<String>,
    /// Every rule that applied, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<RuleAnswer<'a>>>,
}

/// How close a client is to its limits.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes the library's type in the API description")]
pub(crate) enum State {
    /// Nothing to say.
    Normal,
    /// Close to a limit.
    Warning,
    /// Admitted, but only after a wait.
    Throttled,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// A limit was reached.
    RateLimited,
    /// The client is on the deny list, or lacks an identifier that a rule requires.
    Denied,
    /// The client kept exceeding the limit of the rule, which refuses it until `retry_after` is over.
    Banned,
    /// The limit could not be checked, and the rule does not pass unchecked requests.
    StoreUnavailable,
}

/// One rule's own figures.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleAnswer<'a> {
    /// The rule.
    rule_id: &'a str,
    /// Whether the request fitted.
    allowed: bool,
    /// The rule only watches; it never refuses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    shadow: bool,
    /// The most that can be in use.
    limit: u64,
    /// What is left.
    remaining: u64,
    /// The seconds in which the rate gives `limit` back: the window, unless there is a burst.
    window_seconds: f64,
    /// What the request was charged here.
    cost: u64,
    /// When all of it is back, in seconds since 1970.
    reset_at: u64,
    /// Refused: seconds after which the same request would fit; null if it never will.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retry_after: Option<Option<u64>>,
    /// How close the client is to this limit.
    #[schema(value_type = State)]
    state: SoftState,
}

impl Reason {
    /// The word for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Denied => "denied",
            Self::Banned => "banned",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

impl From<Refusal> for Reason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::RateLimited => Self::RateLimited,
            Refusal::Denied => Self::Denied,
            Refusal::Banned => Self::Banned,
            Refusal::StoreUnavailable => Self::StoreUnavailable,
        }
    }
}

impl<'a> CheckAnswer<'a> {
    pub(crate) fn new(decision: &'a Decision, decision_id: Option<&'a str>, detail: bool) -> Self {
        let binding = decision.binding();
        let refusal = decision.refusal();
        Self {
            allowed: decision.is_allowed(),
            limit: binding.map(|binding| binding.outcome.limit),
            remaining: binding.map(|binding| remaining(&binding.outcome)),
            reset_at: binding.map(|binding| reset_at(decision.now(), &binding.outcome)),
            rule_id: binding.map(|binding| &*binding.rule.id).or_else(|| refuser(decision)),
            state: decision.state(),
            decision_id,
            retry_after: refusal.map(|_| retry_after(decision)),
            reason: refusal.map(Reason::from),
            because: because(decision),
            delay_ms: decision
                .delay()
                .filter(|delay| *delay > Micros::ZERO)
                .map(Micros::as_millis_ceil),
            degraded: decision.degraded().map(|kind| kind.to_string()),
            rules: detail.then(|| RuleAnswer::all(decision)),
        }
    }

    /// Writes the answer as JSON. What every answer holds is written by hand: that is several times
    /// as fast as a serializer, and there is an answer for every check.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Self { allowed, limit, remaining, reset_at, rule_id, state, decision_id, .. } = self;
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
            SoftState::Normal => b",\"state\":\"normal\"",
            SoftState::Warning => b",\"state\":\"warning\"".as_slice(),
            SoftState::Throttled => b",\"state\":\"throttled\"",
        });
        if let Some(decision_id) = decision_id {
            // Ours, so without escapes.
            out.extend_from_slice(b",\"decision_id\":\"");
            out.extend_from_slice(decision_id.as_bytes());
            out.push(b'"');
        }
        let Self { retry_after, reason, because, delay_ms, degraded, rules, .. } = self;
        rest(out, "retry_after", retry_after.as_ref());
        rest(out, "reason", reason.as_ref());
        rest(out, "because", because.as_ref());
        rest(out, "delay_ms", delay_ms.as_ref());
        rest(out, "degraded", degraded.as_ref());
        rest(out, "rules", rules.as_ref());
        out.push(b'}');
    }
}

fn number(out: &mut Vec<u8>, name: &[u8], number: Option<u64>) {
    out.extend_from_slice(name);
    match number {
        Some(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        None => out.extend_from_slice(b"null"),
    }
}

/// A string. Ids need no escapes; should one do so after all, it gets them.
fn text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Texts always serialise, and a vector takes everything.
        let _ = serde_json::to_writer(out, text);
    }
}

/// A field that is rarely there.
fn rest(out: &mut Vec<u8>, name: &str, value: Option<&impl Serialize>) {
    if let Some(value) = value {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        let _ = serde_json::to_writer(out, value);
    }
}

/// What decided, if it was no limit.
fn because(decision: &Decision) -> Option<String> {
    match decision.basis() {
        Basis::Rules | Basis::NoRule | Basis::StoreUnavailable { .. } => None,
        Basis::AllowListed { .. } => Some("the client is whitelisted".to_owned()),
        Basis::DenyListed { .. } => Some("the client is blacklisted".to_owned()),
        Basis::Banned { until, .. } => Some(format!("banned until {}", rfc_3339(*until))),
        Basis::MissingIdentifier { .. } => {
            let identifiers = decision.refuser().map_or(&[][..], |rule| &rule.identifiers[..]);
            let names: Vec<String> = identifiers.iter().map(ToString::to_string).collect();
            Some(match names.as_slice() {
                [name] => format!("it has no {name}"),
                names => format!("it lacks one of {}", names.join(", ")),
            })
        }
    }
}

/// The rule that refused without counting.
pub(crate) fn refuser(decision: &Decision) -> Option<&str> {
    decision.refuser().map(|rule| &*rule.id)
}

impl<'a> RuleAnswer<'a> {
    pub(crate) fn all(decision: &'a Decision) -> Vec<Self> {
        decision.outcomes().map(|outcome| Self::new(decision, &outcome)).collect()
    }

    fn new(decision: &Decision, outcome: &RuleOutcome<'a>) -> Self {
        let is_exceeded = outcome.is_exceeded();
        Self {
            rule_id: &outcome.rule.id,
            allowed: !is_exceeded,
            shadow: outcome.is_shadow(),
            limit: outcome.outcome.limit,
            remaining: remaining(&outcome.outcome),
            window_seconds: outcome.outcome.window.get() as f64 / 1e6,
            cost: outcome.outcome.cost,
            reset_at: reset_at(decision.now(), &outcome.outcome),
            retry_after: is_exceeded.then(|| retry_after_rule(&outcome.outcome)),
            state: outcome.state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Limiter, Request};

    /// Written by hand, an answer reads as serde would have written it.
    #[test]
    fn answers_are_written_as_they_are_described() {
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
                    let answer = CheckAnswer::new(&decision, id, detail);
                    let mut written = Vec::new();
                    answer.write(&mut written);
                    assert_eq!(
                        String::from_utf8(written).ok(),
                        serde_json::to_string(&answer).ok()
                    );
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
