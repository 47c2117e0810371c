//! One file for each call of the HTTP API. They translate; what is judged is judged by the limiter.

pub(crate) mod authorize;
pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod decisions;
pub(crate) mod envoy_json;
pub(crate) mod give_back;
pub(crate) mod health;
pub(crate) mod look;
pub(crate) mod rules;
pub(crate) mod status;
