//! Several requests judged together, each on its own. Cheaper than one by one: the policy and the
//! clock are read once, and the counters are fetched side by side.

use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Charge;
use tollgate_store::{MemoryStore, Store};

use crate::clock::Clock;
use crate::counting::Counted;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::question::Question;

/// How many requests are fetched together: enough to hide the latency of memory, few enough for
/// their decisions to stay in the processor's cache.
const TOGETHER: usize = 16;

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Judges several requests, each on its own, in order.
    pub fn check_batch<'a, Q: Copy + Into<Question<'a>>>(
        &self,
        questions: &[Q],
    ) -> impl Future<Output = Vec<Decision>> + Send + use<'_, 'a, S, C, Q> {
        let mut decisions = Vec::with_capacity(questions.len());
        self.plan_batch(questions, &mut decisions);
        async move {
            if !self.settle_batch_at_once(&mut decisions) {
                self.settle_batch(&mut decisions).await;
            }
            decisions
        }
    }

    /// [`Limiter::check_batch`] at once, if the counters are in memory: hands over each decision with
    /// the place of its question, a few at a time. `false`: they are not, and nothing was judged.
    pub fn check_batch_with<'a, Q: Copy + Into<Question<'a>>>(
        &self,
        questions: &[Q],
        mut take: impl FnMut(usize, &Decision),
    ) -> bool {
        let mut place = 0;
        let mut decisions = Vec::with_capacity(TOGETHER.min(questions.len()));
        for group in questions.chunks(TOGETHER) {
            decisions.clear();
            self.plan_batch(group, &mut decisions);
            if !self.settle_batch_at_once(&mut decisions) {
                return false;
            }
            for decision in &decisions {
                take(place, decision);
                place += 1;
            }
        }
        true
    }

    /// Adds decisions that are still to be made, each with its plan.
    fn plan_batch<'a, Q: Copy + Into<Question<'a>>>(
        &self,
        questions: &[Q],
        decisions: &mut Vec<Decision>,
    ) {
        let (installed, now) = (self.installed.load_full(), self.clock.now());
        decisions.extend(questions.iter().map(|_| Decision::pending(Arc::clone(&installed), now)));
        for (question, decision) in questions.iter().zip(decisions) {
            let question: Question<'a> = (*question).into();
            question.plan_into(&mut decision.plan, &installed.policy, now, &self.hasher);
        }
    }

    /// Makes decisions without waiting; `false`: the store cannot, and nothing was charged.
    fn settle_batch_at_once(&self, decisions: &mut [Decision]) -> bool {
        self.counting.shared.is_immediate()
            && decisions.chunks_mut(TOGETHER).all(|group| {
                let planned = group.iter().flat_map(|decision| decision.plan.planned());
                planned.for_each(|line| self.counting.shared.prefetch(line.fingerprint()));
                group.iter_mut().all(|decision| self.settle_at_once(decision))
            })
    }

    async fn settle_batch(&self, decisions: &mut [Decision]) {
        // Requests that need more than one store are judged one by one.
        let is_mixed = |decision: &Decision| {
            self.counting.is_mixed(&decision.plan, decision.installed.policy.rules())
        };
        if decisions.iter().any(is_mixed) {
            for decision in decisions {
                self.settle(decision).await;
            }
            return;
        }
        let Some(now) = decisions.first().map(|decision| decision.asked_at) else { return };
        let settled = {
            let charges: Vec<SmallVec<[Charge<'_>; 4]>> =
                decisions.iter().map(Decision::charges).collect();
            let requests: Vec<&[Charge<'_>]> = charges.iter().map(SmallVec::as_slice).collect();
            self.counting.shared.settle_batch(&requests, now).await
        };
        for (decision, settled) in decisions.iter_mut().zip(settled) {
            let Decision { installed, plan, .. } = &*decision;
            let counted = if plan.is_to_be_counted() {
                self.counting.counted_all(settled, plan, installed.policy.rules(), now)
            } else {
                Counted::default()
            };
            self.decide(decision, &counted);
        }
    }
}

impl<C: Clock> Limiter<MemoryStore, C> {
    /// [`Limiter::check_batch`] without `async`: counters in memory never wait.
    pub fn check_batch_now<'a, Q: Copy + Into<Question<'a>>>(
        &self,
        questions: &[Q],
    ) -> Vec<Decision> {
        let mut decisions = Vec::with_capacity(questions.len());
        self.plan_batch(questions, &mut decisions);
        self.settle_batch_at_once(&mut decisions);
        decisions
    }
}
