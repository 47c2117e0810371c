//! A ban in the responses about what a client may do.

use serde::Serialize;
use tollgate::{Decision, DecisionReason};
use utoipa::ToSchema;

use super::time::rfc_3339;

/// The ban that a client is refused by.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BanAnswer {
    /// The rule that refuses it.
    rule_id: String,
    /// Why.
    reason: String,
    /// When the ban ends, in RFC 3339.
    #[schema(format = DateTime)]
    until: String,
}

impl BanAnswer {
    /// The ban that a decision was made by; `None` if it was made by something else.
    pub(crate) fn of(decision: &Decision) -> Option<Self> {
        let DecisionReason::Banned { until, .. } = decision.reason() else { return None };
        let rule = decision.refuser()?;
        let penalty = rule.penalty.as_ref()?;
        Some(Self {
            rule_id: rule.id.to_string(),
            reason: match (penalty.after, penalty.within.get() / 1_000_000) {
                (1, _) => "refused once".to_owned(),
                (after, seconds) => format!("refused {after} times within {seconds} seconds"),
            },
            until: rfc_3339(*until),
        })
    }
}
