//! The one check path of all entry points: checks requests, and records decisions.

pub(crate) mod checker;
pub(crate) mod guard;
pub(crate) mod idempotency;
pub(crate) mod journal;
