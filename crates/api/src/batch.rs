//! Many checks in one call.

use serde::{Deserialize, Serialize};

use crate::problem::ProblemBody;
use crate::request::CheckRequest;
use crate::response::CheckResponse;

/// Checks; the responses have the same order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRequest<'a> {
    /// Up to 1,000, unless the server is set otherwise.
    #[serde(borrow)]
    #[cfg_attr(
        feature = "openapi",
        schema(min_items = 1, max_items = 1000, value_type = Vec<CheckRequest<'static>>)
    )]
    pub checks: Vec<CheckRequest<'a>>,
}

/// The responses, in the order of the checks.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchResponse<'a> {
    /// One for each check.
    pub results: Vec<BatchResult<'a>>,
}

/// The response to one check of a batch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BatchResult<'a> {
    /// The decision.
    Response(Box<CheckResponse<'a>>),
    /// The check failed, and nothing was charged.
    Error {
        /// Why it failed.
        error: ProblemBody<'a>,
    },
}
