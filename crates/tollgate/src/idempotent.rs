//! Requests that are checked once, however often they are sent: copies get the decision of the first,
//! whichever process they reach, and are not charged.

use tollgate_store::{IdempotencyKey, Store};

use crate::checked::Promise;
use crate::clock::Clock;
use crate::decision::Decision;
use crate::limiter::Limiter;
use crate::settler::SettleResult;
use crate::target::CheckTarget;

/// The result of a check with an idempotency key.
#[derive(Debug)]
#[must_use = "a decision that is not used limits nothing"]
pub enum Idempotent {
    /// The request is the first with its key, or was refused so far.
    Executed(Decision),
    /// The request is a copy of one that passed. Nothing was charged, and nothing is to be refunded.
    Replayed {
        /// The decision of the first. Rules that are counted locally have the figures of this node.
        decision: Decision,
        /// The note of the first.
        note: String,
    },
    /// Another request passed under the same key. Nothing was charged.
    KeyReused,
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Checks a request that may be a copy. Only a shared store recognizes copies; without one, and while it fails,
    /// every request is the first.
    pub fn check_idempotent<'a>(
        &'a self,
        target: CheckTarget<'_>,
        key: &'a IdempotencyKey<'a>,
    ) -> Promise<'a, Idempotent, S> {
        let decision = self.planned(target);
        match self.this.upgrade() {
            Some(this) => {
                let (IdempotencyKey { call, body, lifetime, .. }, note) =
                    (*key, key.note.to_owned());
                Promise::uncancelled(async move {
                    let key = IdempotencyKey { call, body, note: &note, lifetime };
                    this.settle_copy(decision, &key).await
                })
            }
            None => Promise::pending(self.settle_copy(decision, key)),
        }
    }

    async fn settle_copy(&self, mut decision: Decision, key: &IdempotencyKey<'_>) -> Idempotent {
        match self.settle_with(&decision, Some(key)).await {
            SettleResult::Settled(settled) => {
                self.conclude(&mut decision, &settled);
                self.record(&decision);
                Idempotent::Executed(decision)
            }
            SettleResult::Replayed(settled, note) => {
                self.conclude(&mut decision, &settled);
                Idempotent::Replayed { decision, note }
            }
            SettleResult::KeyReused => Idempotent::KeyReused,
        }
    }
}
