//! Several requests judged together, each on its own. Cheaper than one by one: the policy and the
//! clock are read once, and the counters are fetched side by side.

use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, Timestamp};
use tollgate_rules::{Attributes, Plan};
use tollgate_store::{MemoryStore, Settlement, Store, StoreError};

use crate::clock::Clock;
use crate::counting::Counted;
use crate::decision::Decision;
use crate::installed::Installed;
use crate::limiter::Limiter;

/// Requests that were planned by one policy at one moment.
struct Batch {
    installed: Arc<Installed>,
    now: Timestamp,
    plans: Vec<Plan>,
}

impl Batch {
    /// The charges of each request; none where there is nothing to count.
    fn charges(&self) -> Vec<SmallVec<[Charge<'_>; 4]>> {
        let rules = self.installed.policy.rules();
        let counted = |plan: &&Plan| plan.is_to_be_counted();
        self.plans
            .iter()
            .map(|plan| Some(plan).filter(counted).into_iter())
            .map(|plan| plan.flat_map(|plan| plan.charges(rules)).collect())
            .collect()
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Judges several requests, each on its own, in order.
    pub fn check_batch(
        &self,
        requests: &[&dyn Attributes],
    ) -> impl Future<Output = Vec<Decision>> + Send + use<'_, S, C> {
        let batch = self.plan_batch(requests);
        async move {
            let rules = batch.installed.policy.rules();
            // Requests that need more than one store are judged one by one.
            if batch.plans.iter().any(|plan| self.counting.is_mixed(plan, rules)) {
                let mut decisions = Vec::with_capacity(batch.plans.len());
                for plan in batch.plans {
                    let installed = Arc::clone(&batch.installed);
                    decisions.push(self.judge(installed, plan, batch.now).await);
                }
                return decisions;
            }
            let settled = {
                let charges = batch.charges();
                let requests: Vec<&[Charge<'_>]> = charges.iter().map(SmallVec::as_slice).collect();
                self.counting.shared.settle_batch(&requests, batch.now).await
            };
            self.decide_batch(batch, settled)
        }
    }

    fn plan_batch(&self, requests: &[&dyn Attributes]) -> Batch {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        let plan =
            |request: &&dyn Attributes| installed.policy.plan(&[*request], now, &self.hasher);
        let plans = requests.iter().map(plan).collect();
        Batch { installed, now, plans }
    }

    fn decide_batch(
        &self,
        batch: Batch,
        settled: Vec<Result<Settlement, StoreError>>,
    ) -> Vec<Decision> {
        let Batch { installed, now, plans } = batch;
        let decide = |(plan, settled): (Plan, _)| {
            let counted = if plan.is_to_be_counted() {
                self.counting.counted_all(settled, &plan, installed.policy.rules(), now)
            } else {
                Counted::default()
            };
            let pending = Decision::pending(Arc::clone(&installed), now);
            let mut decision = Decision { plan, ..pending };
            self.decide(&mut decision, &counted);
            decision
        };
        plans.into_iter().zip(settled).map(decide).collect()
    }
}

impl<C: Clock> Limiter<MemoryStore, C> {
    /// [`Limiter::check_batch`] without `async`: counters in memory never wait.
    pub fn check_batch_now(&self, requests: &[&dyn Attributes]) -> Vec<Decision> {
        let batch = self.plan_batch(requests);
        let settled = {
            let charges = batch.charges();
            let requests: Vec<&[Charge<'_>]> = charges.iter().map(SmallVec::as_slice).collect();
            self.counting.shared.settle_batch_now(&requests, batch.now)
        };
        self.decide_batch(batch, settled.into_iter().map(Ok).collect())
    }
}
