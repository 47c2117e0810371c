//! What operators see: metrics, traces, the audit log, and the figures of dashboards.

pub(crate) mod audit_log;
pub(crate) mod fleet_figures;
pub(crate) mod history;
pub(crate) mod metrics;
pub(crate) mod preview;
pub(crate) mod recent_traffic;
pub(crate) mod recommendation;
pub(crate) mod refusers;
pub(crate) mod replay_budget;
pub(crate) mod traces;
