//! One file for each call of the HTTP API. They translate; what is judged is judged by the limiter.

pub(crate) mod api_keys;
pub(crate) mod audit;
pub(crate) mod authorize;
pub(crate) mod bans;
pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod clients;
pub(crate) mod decisions;
pub(crate) mod entries;
pub(crate) mod envoy_json;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod lists;
pub(crate) mod overrides;
pub(crate) mod peek;
pub(crate) mod policy;
pub(crate) mod refund;
pub(crate) mod rules;
pub(crate) mod secrets;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod tiers;
pub(crate) mod tokens;
pub(crate) mod top;
pub(crate) mod users;
