//! The commands that ask a running server.

mod address;
mod answer;
mod check;
mod client;
mod explain;
mod layout;
mod request;
mod rules;
mod trust;

pub(crate) use check::check;
pub(crate) use explain::explain;
pub(crate) use rules::{get as get_rule, list as list_rules};
