//! Undoing and correcting what was counted: refunds of decisions, their real prices, credits, resets.

use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, Mode, Timestamp};
use tollgate_rules::document::Consistency;
use tollgate_rules::{Attributes, Plan, Rule, RuleSet};
use tollgate_store::{Refund, Store, StoreError};

use crate::clock::Clock;
use crate::counting::{Charges, Counting};
use crate::decision::Decision;
use crate::installed::Installed;
use crate::limiter::Limiter;
use crate::penalty::Offence;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Gives back what a decision charged. It takes the decision, so that this happens once.
    ///
    /// # Errors
    /// If the store could not be asked; nothing is known to be given back then.
    pub async fn refund(&self, decision: Decision) -> Result<(), StoreError> {
        self.correct(&decision, |_, _| 0).await
    }

    /// Brings what a decision charged to what its request turned out to be worth. `price` says so for
    /// each rule that was charged, given how much that was. If it is more, the difference is taken even
    /// if it is not there: a counter may go below zero, by its limit at most. If it is less, the
    /// difference is given back.
    ///
    /// It takes the decision, so that this happens once. A decision that refused has charged nothing,
    /// and nothing happens.
    ///
    /// # Errors
    /// If the store could not be asked; nothing is known to be corrected then.
    pub async fn reprice(
        &self,
        decision: Decision,
        price: impl Fn(&Rule, u64) -> u64,
    ) -> Result<(), StoreError> {
        self.correct(&decision, price).await
    }

    /// [`Limiter::reprice`] for whoever still needs the decision, and does this once.
    pub(crate) async fn correct(
        &self,
        decision: &Decision,
        price: impl Fn(&Rule, u64) -> u64,
    ) -> Result<(), StoreError> {
        let (rules, now) = (decision.installed.policy.rules(), self.clock.now());
        let mut refunds: SmallVec<[Refund<'_>; 4]> = SmallVec::new();
        let mut debits: Charges<'_> = SmallVec::new();
        for (rule, charge) in decision.charged_rules() {
            let Charge { key, limit, cost, .. } = charge;
            let price = price(rule, cost);
            if price < cost {
                let (units, charged_at) = (cost - price, Some(decision.now));
                refunds.push(Refund { key, limit, units, charged_at });
            } else if price > cost {
                debits.push(Charge { cost: price - cost, mode: Mode::Debit, ..charge });
            }
        }
        let was_degraded = decision.degraded.is_some();
        let refunded =
            self.counting.refund(&refunds, rules, was_degraded, decision.asked_at, now).await;
        let debited = self.counting.debit(&debits, rules, was_degraded, now).await;
        refunded.and(debited)
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

    /// Forgets what was counted for a request, under every rule that applies to it, and lifts its bans
    /// on this limiter. Says how many counters that were.
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
        let rules = installed.policy.rules();
        let banned = self.lift_planned(&plan, &installed.policy);
        let mut keys: SmallVec<[_; 4]> = plan.charges(rules).map(|charge| charge.key).collect();
        let counters = keys.len();
        keys.extend(banned.iter().filter_map(|Offence { rule_id, subject }| {
            let penalty = rules.find(rule_id)?.penalty.as_ref()?;
            Some(self.refusals_key(penalty, subject))
        }));
        self.counting.reset(&keys).await?;
        Ok(counters)
    }
}

impl Decision {
    /// The rules that were charged, each with its charge.
    fn charged_rules(&self) -> impl Iterator<Item = (&Rule, Charge<'_>)> {
        let rules = self.installed.policy.rules();
        let admitted = self.lines.iter().filter(|judged| judged.outcome.admitted);
        admitted.filter(|_| self.is_allowed()).filter_map(|judged| {
            Some((rules.get(judged.outcome.rule)?, self.plan.charge(judged.line, rules)?))
        })
    }
}

impl<S: Store> Counting<S> {
    /// Takes what a decision did not charge, where it charged the rest.
    async fn debit(
        &self,
        debits: &[Charge<'_>],
        rules: &RuleSet,
        was_degraded: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let is_own = |debit: &Charge<'_>| {
            let rule = rules.find(debit.key.rule);
            self.shared.is_shared()
                && (was_degraded || rule.is_some_and(|rule| rule.consistency == Consistency::Local))
        };
        let (own, shared): (Charges<'_>, Charges<'_>) = debits.iter().copied().partition(is_own);
        // A debit is never refused, so there is nothing to look at.
        let _ = self.own.settle_now(&own, now);
        if shared.is_empty() { Ok(()) } else { self.shared.settle(&shared, now).await.map(drop) }
    }
}
