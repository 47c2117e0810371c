//! The policy in force: where it comes from, how changes reach this node, and the bans it imposes.

pub(crate) mod bans;
pub(crate) mod catalog_sync;
pub(crate) mod file;
pub(crate) mod file_digest;
pub(crate) mod load_status;
pub(crate) mod policy_copy;
mod policy_copy_sync;
pub(crate) mod redact;
pub(crate) mod rule_cache;
mod sealed_policy;
pub(crate) mod source;
mod start;
