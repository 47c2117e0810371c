//! The pages, one file each: a view model becomes the content inside the frame.

pub(crate) mod audit;
pub(crate) mod client;
mod client_menus;
pub(crate) mod clients;
pub(crate) mod decision;
pub(crate) mod deleted_rule;
pub(crate) mod error;
pub(crate) mod explanation;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod overview;
pub(crate) mod rule;
pub(crate) mod rule_form;
pub(crate) mod rules;
pub(crate) mod sign_in;
pub(crate) mod simulate;
pub(crate) mod try_request;
