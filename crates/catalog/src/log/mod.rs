//! The logs: changes of the catalog and resets of counters, which are the audit log, and decisions.

mod actors;
pub(crate) mod audit;
mod ban_log;
pub(crate) mod decision_log;
pub(crate) mod decisions;
pub(crate) mod resets;
pub(crate) mod revisions;
