//! Undoes and corrects charges: refunds of decisions, their final costs, credits, resets.

use smallvec::SmallVec;
use tollgate_core::{Charge, Mode};
use tollgate_rules::Rule;
use tollgate_store::{Refund, Store, StoreError};

use crate::checked::Promise;
use crate::clock::Clock;
use crate::decision::{Decision, RuleResult};
use crate::limiter::Limiter;
use crate::penalty::Offence;
use crate::settler::Charges;
use crate::target::CheckTarget;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Refunds what a decision charged. It takes the decision, so that this happens once.
    ///
    /// # Errors
    /// The store failed; whether anything was refunded is unknown.
    pub fn refund(&self, decision: Decision) -> Promise<'_, Result<(), StoreError>, S> {
        Promise::run(self.store(), async move { self.correct(&decision, |_, _| 0).await })
    }

    /// Corrects what a decision charged to the final cost of its request. `price` returns it for each rule that was
    /// charged, given how much that was. If it is more, the difference is charged even if it does not fit: a counter
    /// may go below zero, by its limit at most. If it is less, the difference is refunded.
    ///
    /// It takes the decision, so that this happens once. A decision that refused has charged nothing, so there is
    /// nothing to correct.
    ///
    /// # Errors
    /// The store failed; whether anything was corrected is unknown.
    pub async fn reprice(
        &self,
        decision: Decision,
        price: impl Fn(&Rule, u64) -> u64,
    ) -> Result<(), StoreError> {
        self.correct(&decision, price).await
    }

    /// [`Limiter::reprice`] for a caller that still needs the decision, and calls this once.
    pub(crate) async fn correct(
        &self,
        decision: &Decision,
        price: impl Fn(&Rule, u64) -> u64,
    ) -> Result<(), StoreError> {
        let (rules, now) = (decision.snapshot.policy.rules(), self.clock.now());
        let mut refunds: SmallVec<[Refund<'_>; 4]> = SmallVec::new();
        let mut debits: Charges<'_> = SmallVec::new();
        for (rule, charge) in decision.charged_rules() {
            let Charge { key, limit, cost, .. } = charge;
            let price = price(rule, cost);
            if price < cost {
                let (units, charged_at) = (cost - price, Some(decision.parts.now));
                refunds.push(Refund { key, limit, units, charged_at });
            } else if price > cost {
                debits.push(Charge { cost: price - cost, mode: Mode::Debit, ..charge });
            }
        }
        let was_degraded = decision.parts.degraded.is_some();
        let refunded =
            self.settler.refund(&refunds, rules, was_degraded, decision.parts.asked_at, now).await;
        let debited = self.settler.debit(&debits, rules, was_degraded, now).await;
        refunded.and(debited)
    }

    /// Refunds what a request like this costs, to every rule that applies to it, without knowing when it was charged:
    /// it goes to the newest window or entry. Returns how many counters that were.
    ///
    /// # Errors
    /// The store failed; whether anything was refunded is unknown.
    pub fn credit<'t>(
        &self,
        target: impl Into<CheckTarget<'t>>,
    ) -> Promise<'_, Result<usize, StoreError>, S> {
        let decision = self.planned(target.into());
        Promise::run(self.store(), async move {
            let (rules, now) = (decision.snapshot.policy.rules(), decision.parts.asked_at);
            let refunds: SmallVec<[Refund<'_>; 4]> = decision
                .parts
                .plan
                .charges(rules)
                .map(|Charge { key, limit, cost, .. }| Refund {
                    key,
                    limit,
                    units: cost,
                    charged_at: None,
                })
                .collect();
            self.settler.refund(&refunds, rules, false, now, now).await?;
            Ok(refunds.len())
        })
    }

    /// Resets the counters of a request, under every rule that applies to it, and lifts its bans on this limiter.
    /// Returns how many counters that were.
    ///
    /// # Errors
    /// The store failed.
    pub fn reset<'t>(
        &self,
        target: impl Into<CheckTarget<'t>>,
    ) -> Promise<'_, Result<usize, StoreError>, S> {
        let decision = self.planned(target.into());
        Promise::run(self.store(), async move {
            let (policy, plan) = (&decision.snapshot.policy, &decision.parts.plan);
            let rules = policy.rules();
            let banned = self.lift_planned(plan, policy);
            let mut keys: SmallVec<[_; 4]> = plan.charges(rules).map(|charge| charge.key).collect();
            let counters = keys.len();
            keys.extend(banned.iter().filter_map(|Offence { rule_id, subject }| {
                let penalty = rules.find(rule_id)?.penalty.as_deref()?;
                Some(self.refusals_key(penalty, subject))
            }));
            self.settler.reset(&keys).await?;
            Ok(counters)
        })
    }
}

impl Decision {
    /// The rules that were charged, each with how much.
    pub fn charges(&self) -> impl Iterator<Item = (&str, u64)> {
        let charges = self.charged_rules().filter(|(_, charge)| charge.cost > 0);
        charges.map(|(rule, charge)| (&*rule.id, charge.cost))
    }

    /// The rules that were charged, each with its charge.
    fn charged_rules(&self) -> impl Iterator<Item = (&Rule, Charge<'_>)> {
        self.reported_charges().map(|(rule, charge, _)| (rule, charge))
    }

    /// The rules that were charged, each with its charge and the result.
    pub(crate) fn reported_charges(
        &self,
    ) -> impl Iterator<Item = (&Rule, Charge<'_>, &RuleResult)> {
        let rules = self.snapshot.policy.rules();
        let admitted = self.parts.results.iter().filter(|result| result.admitted);
        admitted.filter(|_| self.is_allowed()).filter_map(|result| {
            let charge = self.parts.plan.charge(result.line, rules)?;
            Some((rules.get(self.planned(result)?.rule)?, charge, result))
        })
    }
}
