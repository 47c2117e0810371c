//! The commands that call a running server, and what other commands need to call one.

pub(crate) mod call_error;
mod check;
pub(crate) mod client;
mod counters;
mod envoy_limits;
mod explain;
pub(crate) mod fields;
mod health;
pub(crate) mod list;
mod request;
mod rules;
mod token;

pub(crate) use check::check;
pub(crate) use counters::{RefundArguments, ResetArguments, refund, refund_decision, reset};
pub(crate) use explain::{explain, explain_decision, of_this_node};
pub(crate) use health::{HealthArguments, health};
pub(crate) use rules::{get as get_rule, list as list_rules};
