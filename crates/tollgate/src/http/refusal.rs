//! The response to a refused request: a status, and a problem document (RFC 9457) with the rule that refused it and
//! when to retry.

use std::fmt;

use ::http::StatusCode;
use serde::{Serialize, Serializer};
use tollgate_rules::Rule;

use super::figures::retry_after;
use crate::decision::{Decision, DecisionReason, Refusal, RuleOutcome};

/// The content type of the body.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Appends the body of a refusal to `out` and returns its status: 429 for a limit or a ban, 403 for a client on a
/// block list or a request that no rule applies to, 503 where the store is unavailable. An allowed request has no such body; its status is 200.
///
/// The reasons of lists are not included: they are notes for operators.
pub fn refusal_body(decision: &Decision, decision_id: &str, out: &mut Vec<u8>) -> StatusCode {
    problem_body(decision, decision_id, None, out)
}

/// Appends the problem document of a refusal, with another status if one is given; returns its status.
pub(super) fn problem_body(
    decision: &Decision,
    decision_id: &str,
    status: Option<StatusCode>,
    out: &mut Vec<u8>,
) -> StatusCode {
    let Some(refusal) = decision.refusal() else { return StatusCode::OK };
    let parts = kind(refusal);
    let RefusalParts { code, problem_type, title, .. } = parts;
    let status = status.unwrap_or(parts.status);
    let body = Body {
        error: ErrorMember {
            code,
            message: RefusalMessage(decision),
            retry_after: (refusal != Refusal::Denied).then(|| retry_after(decision)),
            rule_id: refused_by(decision).map(|rule| &*rule.id),
            decision_id,
        },
        problem_type,
        title,
        status: status.as_u16(),
        violated_policies: (refusal == Refusal::RateLimited).then_some(ViolatedPolicies(decision)),
    };
    // Writing to memory cannot fail, and the body has no maps with invalid keys.
    let written = serde_json::to_writer(&mut *out, &body);
    debug_assert!(written.is_ok(), "{written:?}");
    status
}

/// The fixed parts of a kind of refusal.
struct RefusalParts {
    status: StatusCode,
    code: &'static str,
    problem_type: &'static str,
    title: &'static str,
}

const fn kind(refusal: Refusal) -> RefusalParts {
    match refusal {
        Refusal::RateLimited => RefusalParts {
            status: StatusCode::TOO_MANY_REQUESTS,
            code: "RATE_LIMIT_EXCEEDED",
            problem_type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
            title: "Request cannot be satisfied as assigned quota has been exceeded",
        },
        Refusal::Banned => RefusalParts {
            status: StatusCode::TOO_MANY_REQUESTS,
            code: "CLIENT_BANNED",
            problem_type: "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
            title: "Request not satisfied due to detection of abnormal request pattern",
        },
        Refusal::Denied => RefusalParts {
            status: StatusCode::FORBIDDEN,
            code: "ACCESS_DENIED",
            problem_type: "about:blank",
            title: "Forbidden",
        },
        Refusal::StoreUnavailable => RefusalParts {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "STORE_UNAVAILABLE",
            problem_type: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            title: "Request cannot be satisfied due to temporary server capacity constraints",
        },
    }
}

/// The code of a refusal in its problem document.
pub(super) fn code_of(decision: &Decision) -> &'static str {
    decision.refusal().map_or("", |refusal| kind(refusal).code)
}

/// The refusal in a sentence.
pub(super) fn message_of(decision: &Decision) -> String {
    RefusalMessage(decision).to_string()
}

/// The rule that refused the request; `None` if a list did.
pub(super) fn refused_by(decision: &Decision) -> Option<&Rule> {
    decision.refuser().or_else(|| decision.binding().map(|binding| binding.rule))
}

#[derive(Serialize)]
struct Body<'a> {
    error: ErrorMember<'a>,
    #[serde(rename = "type")]
    problem_type: &'static str,
    title: &'static str,
    status: u16,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated_policies: Option<ViolatedPolicies<'a>>,
}

#[derive(Serialize)]
struct ErrorMember<'a> {
    code: &'static str,
    message: RefusalMessage<'a>,
    /// `null` means never; without the member, waiting does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<&'a str>,
    decision_id: &'a str,
}

/// Every rule that refused, not only the one that binds.
struct ViolatedPolicies<'a>(&'a Decision);

impl Serialize for ViolatedPolicies<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused = |outcome: &RuleOutcome<'_>| outcome.is_exceeded() && !outcome.is_shadow();
        let refused = self.0.outcomes().filter(refused);
        serializer.collect_seq(refused.map(|outcome| &*outcome.rule.id))
    }
}

/// The refusal in a sentence.
struct RefusalMessage<'a>(&'a Decision);

impl Serialize for RefusalMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for RefusalMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(decision) = self;
        match (decision.reason(), refused_by(decision)) {
            (DecisionReason::MissingIdentifier { .. }, Some(rule)) => {
                write!(f, "Rule {} needs to know who is asking: ", rule.id)?;
                for (number, identifier) in rule.identifiers.iter().enumerate() {
                    write!(f, "{}{identifier}", if number > 0 { ", " } else { "" })?;
                }
                f.write_str(".")
            }
            (DecisionReason::Banned { .. }, Some(rule)) => {
                let seconds = retry_after(decision).unwrap_or_default();
                write!(f, "Rule {} has banned this client, which kept exceeding it. ", rule.id)?;
                write!(f, "Try again in {seconds} s.")
            }
            (DecisionReason::NoRule, _) => {
                f.write_str("No rule applies to this request, and such requests are refused here.")
            }
            (DecisionReason::StoreUnavailable { .. }, _) => {
                f.write_str("The limit cannot be checked at the moment.")
            }
            _ => match decision.binding() {
                Some(binding) => limit_reached(decision, &binding, f),
                None => f.write_str("This client is not allowed here."),
            },
        }
    }
}

fn limit_reached(
    decision: &Decision,
    binding: &RuleOutcome<'_>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let outcome = &binding.outcome;
    let (rule, limit, cost) = (&binding.rule.id, outcome.limit, outcome.cost);
    let left = outcome.remaining();
    write!(f, "Rule {rule} has {left} of {limit} left, and this request costs {cost}")?;
    match retry_after(decision) {
        Some(seconds) => write!(f, ". Try again in {seconds} s."),
        None => f.write_str(": it can never pass."),
    }
}
