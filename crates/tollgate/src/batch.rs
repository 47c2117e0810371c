//! Checks several requests together, each independently. Cheaper than one by one: the policy and the clock are read
//! once, and the counters are fetched side by side.

use tollgate_rules::{Plan, RuleSet};
use tollgate_store::Store;

use crate::checked::Promise;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::settler::Settled;
use crate::target::CheckTarget;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// How many requests are best checked together with counters in memory: enough to hide the latency
    /// of memory, few enough for their decisions to stay in the processor's cache.
    pub const CACHED_BATCH: usize = 16;

    /// Checks several targets, each independently, in order. Decisions are large: a caller with many targets and
    /// counters in memory passes [`Limiter::CACHED_BATCH`] of them at a time.
    pub fn check_batch<'t, T: Copy + Into<CheckTarget<'t>>>(
        &self,
        targets: &[T],
    ) -> Promise<'_, Vec<Decision>, S> {
        let (snapshot, now) = (self.snapshot.load_full(), self.clock.now());
        let mut decisions: Vec<Decision> =
            targets.iter().map(|_| Decision::kept(&snapshot, now)).collect();
        for (target, decision) in targets.iter().zip(&mut decisions) {
            let target: CheckTarget<'t> = (*target).into();
            target.plan_into(&mut decision.parts.plan, &snapshot.policy, now, &self.hasher);
            self.refuse_unmatched(&mut decision.parts.plan, target);
        }
        if !self.store().is_shared() {
            for group in decisions.chunks_mut(Self::CACHED_BATCH) {
                let planned = group.iter().flat_map(|decision| decision.parts.plan.planned());
                planned.for_each(|line| self.store().prefetch(line.fingerprint()));
                if !group.iter_mut().all(|decision| self.try_settle(decision, true)) {
                    break;
                }
            }
            return Promise::Ready(decisions);
        }
        match self.this.upgrade() {
            Some(this) => Promise::uncancelled(async move {
                this.settle_batch(&mut decisions).await;
                decisions
            }),
            None => Promise::pending(async move {
                self.settle_batch(&mut decisions).await;
                decisions
            }),
        }
    }

    async fn settle_batch(&self, decisions: &mut [Decision]) {
        // Requests that need more than one store are settled one by one.
        let is_mixed = |decision: &Decision| {
            self.settler.is_mixed(&decision.parts.plan, decision.snapshot.policy.rules())
        };
        if decisions.iter().any(is_mixed) {
            for decision in decisions {
                self.settle(decision, true).await;
            }
            return;
        }
        let Some(now) = decisions.first().map(|decision| decision.parts.asked_at) else { return };
        let settled = {
            let requests: Vec<(&Plan, &RuleSet)> = decisions
                .iter()
                .filter(|decision| decision.parts.plan.is_to_be_counted())
                .map(|decision| (&decision.parts.plan, decision.snapshot.policy.rules()))
                .collect();
            self.settler.settle_batch(&requests, now).await
        };
        let mut settled = settled.into_iter();
        for decision in decisions {
            let settled = decision.parts.plan.is_to_be_counted().then(|| settled.next()).flatten();
            self.conclude(decision, &settled.unwrap_or_else(Settled::default));
            self.record(decision);
        }
    }
}
