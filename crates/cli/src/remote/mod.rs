//! The commands that ask a running server, and what others need to ask one.

pub(crate) mod address;
mod answer;
mod check;
pub(crate) mod client;
mod explain;
pub(crate) mod layout;
pub(crate) mod list;
pub(crate) mod refusal;
mod request;
mod rules;
mod token;
mod trust;

pub(crate) use check::check;
pub(crate) use explain::explain;
pub(crate) use rules::{get as get_rule, list as list_rules};
