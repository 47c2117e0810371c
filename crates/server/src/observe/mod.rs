//! What operators see: metrics, traces, the audit log.

pub(crate) mod audit_log;
pub(crate) mod metrics;
pub(crate) mod traces;
