//! A decision of the last minutes, as the journal has it.

use std::borrow::Cow;
use std::collections::BTreeMap;

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
    /// What the log of decisions knows of the request.
    #[serde(flatten)]
    pub request: RecordedRequest,
}

/// A request as the log of decisions has it. All refused requests are recorded, and a sample of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedRequest {
    /// The name of the node that decided, as in `GET /api/v1/nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The HTTP method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path without its query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The identifiers of the client. API keys and other secrets are shown as the beginning of their digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub identifiers: BTreeMap<String, String>,
    /// What each rule counted the request by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<RecordedKey>,
}

/// What a rule counted a request by.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedKey {
    /// The rule.
    pub rule_id: String,
    /// The identifiers, in the order of the rule.
    pub key: Vec<RecordedPart>,
}

/// One part of the key of a counter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecordedPart {
    /// The type of the identifier.
    pub identifier_type: String,
    /// Its value, redacted as in the log; absent if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}
