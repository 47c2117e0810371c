//! A decision of the last minutes, as the journal has it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::response::{CheckResponse, RuleResult};

/// A recent decision.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecisionRecord<'a> {
    /// The decision.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub decision_id: Cow<'a, str>,
    /// When it was made, in RFC 3339.
    pub at: String,
    /// Why the request was allowed or refused.
    pub because: String,
    /// The tier the client was in.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub tier: Option<Cow<'a, str>>,
    /// The revision of the policy that decided; null if only the log of decisions knows it.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub revision: Option<u64>,
    /// The response to the check.
    pub answer: CheckResponse<'a>,
    /// Every rule that applied.
    pub rules: Vec<RuleResult<'a>>,
}
