//! The response to a check: one decision.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "openapi",
    schema(example = json!({"allowed": true, "limit": 1000, "remaining": 999, "reset_at": 1_638_360_000,
        "rule_id": "api_default", "state": "normal", "decision_id": "d1f00dbee-a2a"}))
)]
pub struct CheckResponse<'a> {
    /// Whether the request may pass.
    pub allowed: bool,
    /// The limit of the rule that binds; null if no rule applied.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub limit: Option<u64>,
    /// What is left of it.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub remaining: Option<u64>,
    /// When the limit resets, in seconds since 1970: `fixed_window` and `sliding_window_counter` at the end of the
    /// current window, others when nothing is in use.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub reset_at: Option<u64>,
    /// The rule that binds; null if no rule applied.
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = Option<String>))]
    pub rule_id: Option<Cow<'a, str>>,
    /// How close the client is to its limits.
    pub state: State,
    /// Names this decision, to explain or refund it; not there if nothing was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub decision_id: Option<Cow<'a, str>>,
    /// Refused: seconds after which the same request would pass; null if it never will.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub retry_after: Option<Option<u64>>,
    /// Refused: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What decided, if it was no limit: a list, a ban, or an identifier that the request lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Allowed, but the request should be held for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Why the decision was made without the shared store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Every rule that applied, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<RuleResult<'a>>>,
}

/// How close a client is to its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum State {
    /// Neither close to a limit nor delayed.
    #[default]
    Normal,
    /// Close to a limit.
    Warning,
    /// Admitted, but only after a wait; or refused by a rule that delays, since the wait would be too long.
    Throttled,
    /// A value that only newer servers know.
    #[serde(other, skip_serializing)]
    Other,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum Reason {
    /// A limit was reached.
    RateLimited,
    /// The client is on the deny list, or lacks an identifier that a rule requires.
    Denied,
    /// The client kept exceeding the limit of the rule, which refuses it until `retry_after` has passed.
    Banned,
    /// The limit could not be checked, and the rule does not pass unchecked requests.
    StoreUnavailable,
    /// A value that only newer servers know.
    #[serde(other, skip_serializing)]
    Other,
}

impl Reason {
    /// The reason of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::RateLimited, Self::Denied, Self::Banned, Self::StoreUnavailable]
            .into_iter()
            .find(|reason| reason.name() == name)
    }

    /// Its name over HTTP and gRPC.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Denied => "denied",
            Self::Banned => "banned",
            Self::StoreUnavailable => "store_unavailable",
            Self::Other => "other",
        }
    }
}

/// One rule's own figures.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleResult<'a> {
    /// The rule.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub rule_id: Cow<'a, str>,
    /// Whether the request fitted.
    pub allowed: bool,
    /// The rule only watches; it never refuses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shadow: bool,
    /// The most that can be in use.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// The seconds in which the rate gives `limit` back: the window, unless there is a burst.
    #[serde(serialize_with = "seconds")]
    pub window_seconds: f64,
    /// The limit as the rule has it, if there is a burst: `limit` is the burst then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<RuleQuota>,
    /// What the request was charged here.
    pub cost: u64,
    /// When the limit resets, in seconds since 1970: `fixed_window` and `sliding_window_counter` at the end of the
    /// current window, others when nothing is in use.
    pub reset_at: u64,
    /// When nothing is in use, in seconds since 1970, if there are no more requests. Older servers do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = u64))]
    pub full_at: Option<u64>,
    /// Refused: seconds after which the same request would fit; null if it never will.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub retry_after: Option<Option<u64>>,
    /// How close the client is to this limit.
    pub state: State,
}

impl RuleResult<'_> {
    /// The figures, without borrowing from the response.
    #[must_use]
    pub fn into_owned(self) -> RuleResult<'static> {
        RuleResult {
            rule_id: Cow::Owned(self.rule_id.into_owned()),
            allowed: self.allowed,
            shadow: self.shadow,
            limit: self.limit,
            remaining: self.remaining,
            window_seconds: self.window_seconds,
            quota: self.quota,
            cost: self.cost,
            reset_at: self.reset_at,
            full_at: self.full_at,
            retry_after: self.retry_after,
            state: self.state,
        }
    }
}

/// A limit as it is written in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleQuota {
    /// Units per window.
    pub limit: u64,
    /// The window.
    #[serde(serialize_with = "seconds")]
    pub window_seconds: f64,
}

/// Writes seconds, without a fraction if there is none.
///
/// # Errors
/// Those of the serializer.
pub fn seconds<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    // Windows are far below 2^53.
    if seconds.fract() == 0.0 && (0.0..9e15).contains(seconds) {
        serializer.serialize_u64(*seconds as u64)
    } else {
        serializer.serialize_f64(*seconds)
    }
}

/// Reads a field that is there: null is a value of it. A missing field is the default.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_written_as_it_was_read() {
        let check = |text: &str| {
            let response: CheckResponse<'_> = serde_json::from_str(text).expect(text);
            assert_eq!(serde_json::to_string(&response).expect(text), text);
        };
        let head = r#""limit":5,"remaining":0,"reset_at":7,"rule_id":"r","state":"warning""#;
        check(&format!("{{\"allowed\":true,{head}}}"));
        check(&format!(
            r#"{{"allowed":false,{head},"decision_id":"d","retry_after":null,"reason":"banned","because":"b"}}"#
        ));
        let rule = r#"{"rule_id":"r","allowed":false,"limit":5,"remaining":0,"window_seconds":0.5,"quota":{"limit":2,"window_seconds":60},"cost":1,"reset_at":7,"full_at":9,"retry_after":3,"state":"normal"}"#;
        check(&format!(
            r#"{{"allowed":false,{head},"retry_after":3,"reason":"rate_limited","delay_ms":2,"degraded":"timeout","rules":[{rule}]}}"#
        ));
    }

    #[test]
    fn what_a_newer_server_says_is_no_error() {
        let text = r#"{"allowed":false,"state":"exhausted","reason":"too_old","new":1}"#;
        let response: CheckResponse<'_> = serde_json::from_str(text).expect(text);
        assert_eq!((response.state, response.reason), (State::Other, Some(Reason::Other)));
    }
}
