//! Undoing what was counted: refunds of decisions, credits, resets.

use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, Timestamp};
use tollgate_rules::{Attributes, Plan};
use tollgate_store::{Refund, Store, StoreError};

use crate::clock::Clock;
use crate::decision::Decision;
use crate::installed::Installed;
use crate::limiter::Limiter;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Gives back what a decision charged. It takes the decision, so that this happens once.
    ///
    /// # Errors
    /// If the store could not be asked; nothing is known to be given back then.
    pub async fn refund(&self, decision: Decision) -> Result<(), StoreError> {
        if !decision.is_allowed() {
            return Ok(());
        }
        let rules = decision.installed.policy.rules();
        let charged = decision.lines.iter().filter(|judged| judged.outcome.admitted);
        let charges: SmallVec<[Charge<'_>; 4]> =
            charged.filter_map(|judged| decision.plan.charge(judged.line, rules)).collect();
        let refunds: SmallVec<[Refund<'_>; 4]> = charges
            .iter()
            .map(|charge| Refund {
                key: charge.key,
                limit: charge.limit,
                units: charge.cost,
                charged_at: Some(decision.now),
            })
            .collect();
        let was_degraded = decision.degraded.is_some();
        let (asked_at, now) = (decision.asked_at, self.clock.now());
        self.counting.refund(&refunds, rules, was_degraded, asked_at, now).await
    }

    /// Gives back what a request like this costs, to every rule that applies to it, without knowing
    /// when it was charged: it goes to the newest window or entry. Says how many counters that were.
    ///
    /// # Errors
    /// If the store could not be asked; nothing is known to be given back then.
    pub fn credit(
        &self,
        request: &dyn Attributes,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send + use<'_, S, C> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let plan = installed.policy.plan(&[request], now, &self.hasher);
        self.credit_planned(installed, plan, now)
    }

    /// [`Limiter::credit`] for one rule, whatever its conditions. `None`: there is no such rule.
    pub fn credit_rule(
        &self,
        rule_id: &str,
        request: &dyn Attributes,
    ) -> Option<impl Future<Output = Result<usize, StoreError>> + Send + use<'_, S, C>> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let plan = installed.policy.plan_rule(rule_id, request, now, &self.hasher)?;
        Some(self.credit_planned(installed, plan, now))
    }

    /// Forgets what was counted for a request, under every rule that applies to it. Says how many
    /// counters that were.
    ///
    /// # Errors
    /// If the store could not be asked.
    pub fn reset(
        &self,
        request: &dyn Attributes,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send + use<'_, S, C> {
        let installed = self.installed.load_full();
        let plan = installed.policy.plan(&[request], self.clock.now(), &self.hasher);
        self.reset_planned(installed, plan)
    }

    /// [`Limiter::reset`] for one rule, whatever its conditions. `None`: there is no such rule.
    pub fn reset_rule(
        &self,
        rule_id: &str,
        request: &dyn Attributes,
    ) -> Option<impl Future<Output = Result<usize, StoreError>> + Send + use<'_, S, C>> {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let plan = installed.policy.plan_rule(rule_id, request, now, &self.hasher)?;
        Some(self.reset_planned(installed, plan))
    }

    async fn credit_planned(
        &self,
        installed: Arc<Installed>,
        plan: Plan,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let rules = installed.policy.rules();
        let refunds: SmallVec<[Refund<'_>; 4]> = plan
            .charges(rules)
            .map(|Charge { key, limit, cost, .. }| Refund {
                key,
                limit,
                units: cost,
                charged_at: None,
            })
            .collect();
        self.counting.refund(&refunds, rules, false, now, now).await?;
        Ok(refunds.len())
    }

    async fn reset_planned(
        &self,
        installed: Arc<Installed>,
        plan: Plan,
    ) -> Result<usize, StoreError> {
        let charges = plan.charges(installed.policy.rules());
        let keys: SmallVec<[_; 4]> = charges.map(|charge| charge.key).collect();
        self.counting.reset(&keys).await?;
        Ok(keys.len())
    }
}
