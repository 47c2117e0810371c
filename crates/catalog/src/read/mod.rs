//! Reading: pages of entries for people, and snapshots with what changed since for nodes.

pub(crate) mod export;
mod fleet_secret;
pub(crate) mod history;
mod last_used;
pub(crate) mod load;
pub(crate) mod page;
pub(crate) mod query_plan;
pub(crate) mod view;
