//! One file for each call of the HTTP API. Handlers only translate; the limiter decides.

pub(crate) mod audit;
pub(crate) mod authorize;
pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod decisions;
pub(crate) mod envoy_json;
pub(crate) mod envoy_limits;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod nodes;
pub(crate) mod peek;
pub(crate) mod preview;
pub(crate) mod recommendation;
pub(crate) mod recorded_request;
pub(crate) mod refund;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod top;
