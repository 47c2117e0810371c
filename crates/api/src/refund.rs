//! Refunds and resets.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Names a decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecisionBody<'a> {
    /// The decision, as the response to its check named it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub decision_id: Cow<'a, str>,
}

/// How many counters were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changed {
    /// The number of counters.
    pub counters: usize,
}
