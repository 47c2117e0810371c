//! The one check path of all entry points: checks requests, and records decisions.

pub(crate) mod checker;
pub(crate) mod decision_id;
mod finish;
pub(crate) mod guard;
pub(crate) mod idempotency;
pub(crate) mod journal;
mod journal_query;
pub(crate) mod refund;
pub(crate) mod remote_journal;
pub(crate) mod sealed_id;
