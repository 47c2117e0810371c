//! What operators see: metrics, traces, the audit log, and the figures of dashboards.

pub(crate) mod audit_log;
#[allow(dead_code, reason = "signatures first")]
pub(crate) mod fleet_figures;
#[allow(dead_code, reason = "signatures first")]
pub(crate) mod history;
pub(crate) mod metrics;
#[allow(dead_code, reason = "signatures first")]
pub(crate) mod preview;
#[allow(dead_code, reason = "signatures first")]
pub(crate) mod recent_traffic;
pub(crate) mod traces;
