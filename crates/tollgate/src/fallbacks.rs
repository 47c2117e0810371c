//! Statistics of requests that were decided without the shared store, by rule and `on_store_failure`.

use tollgate_rules::document::{Consistency, OnStoreFailure};

use crate::decision::{Decision, DecisionReason};
use crate::stats::Fallback;

impl Decision {
    /// Counts what each rule did without the shared store. If a rule that fails closed refuses the request, the other
    /// rules are not counted.
    #[cold]
    pub(crate) fn record_fallbacks(&self) {
        let closed_by = match self.parts.reason {
            DecisionReason::StoreUnavailable { rule } => Some(rule),
            _ => None,
        };
        let rules = self.snapshot.policy.rules();
        for planned in self.parts.plan.planned().iter().filter(|planned| planned.cost > 0) {
            let Some(rule) = rules.get(planned.rule) else { continue };
            let Some(stats) = self.snapshot.stats.get(planned.rule) else { continue };
            if rule.consistency == Consistency::Local {
                continue;
            }
            let fallback = match (closed_by, rule.on_store_failure) {
                (Some(closed_by), _) if closed_by == planned.rule => Fallback::Closed,
                (Some(_), _) => continue,
                (None, OnStoreFailure::Local) => Fallback::Local,
                // A rule in shadow mode refuses nothing, even if it fails closed.
                (None, OnStoreFailure::Open | OnStoreFailure::Closed) => Fallback::Open,
            };
            stats.count_fallback(fallback);
        }
    }
}
