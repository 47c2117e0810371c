//! The JSON of the HTTP API, declared once for the server and its clients. Types only: both sides add the logic.
//!
//! Requests are strict: an unknown field is an error. Responses are lenient: an older client ignores the fields of a
//! newer server.
#![forbid(unsafe_code)]

mod batch;
mod decision;
mod explain;
mod object;
mod problem;
mod recommendation;
mod refund;
mod request;
mod response;
mod text;

pub use batch::{BatchRequest, BatchResponse, BatchResult};
pub use decision::{DecisionRecord, RecordedKey, RecordedPart, RecordedRequest};
pub use explain::{
    CounterFigures, ExplainResponse, KeyPart, ListEntry, ListName, PolicyRevision, QuotaFigures,
    RuleExplanation, TierOrigin,
};
pub use object::Object;
pub use problem::{DocumentProblem, ProblemBody};
pub use recommendation::{RecommendationResponse, RecommendedRule};
pub use refund::{Changed, DecisionBody};
#[cfg(feature = "openapi")]
pub use request::KeyTypeName;
pub use request::{CheckRequest, Identifiers, KeyType};
pub use response::{CheckResponse, Reason, RuleQuota, RuleResult, State, seconds};
pub use text::Text;
