//! Requests that are checked once, however often they are sent: copies get the decision of the first,
//! whichever process they reach, and are not charged.

use tollgate_core::Charge;
use tollgate_rules::document::Consistency;
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
        /// Whether the first was charged for the same: otherwise the rules have changed in between, and the decision
        /// does not say what the first has charged.
        has_same_charges: bool,
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
        let IdempotencyKey { call, body, lifetime, note } = *key;
        let note = format!("{note} {:016x}", decision.charges_digest());
        match self.this.upgrade() {
            Some(this) => Promise::uncancelled(async move {
                let key = IdempotencyKey { call, body, note: &note, lifetime };
                this.settle_copy(decision, &key).await
            }),
            None => Promise::pending(async move {
                let key = IdempotencyKey { call, body, note: &note, lifetime };
                self.settle_copy(decision, &key).await
            }),
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
                let (note, has_same_charges) = match note.rsplit_once(' ') {
                    Some((first, digest)) => (first.to_owned(), key.note.ends_with(digest)),
                    None => (note, false),
                };
                Idempotent::Replayed { decision, note, has_same_charges }
            }
            SettleResult::KeyReused => Idempotent::KeyReused,
        }
    }
}

impl Decision {
    /// A digest of the charges that were planned, the same in every process: rules, limits, clients and costs.
    fn charges_digest(&self) -> u64 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        let feed = |hash: u64, bytes: &[u8]| {
            bytes
                .iter()
                .fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
        };
        let rules = self.snapshot.policy.rules();
        self.parts.plan.charges(rules).fold(OFFSET, |hash, Charge { key, limit, cost, .. }| {
            let consistency =
                rules.find_counter(key.rule).map(|rule| rule.consistency == Consistency::Local);
            let texts = [key.rule.as_bytes(), key.subject, key.rest];
            let numbers = [limit.digest(), cost, u64::from(consistency == Some(true))];
            // Lengths keep texts apart.
            let hash = texts
                .iter()
                .fold(hash, |hash, text| feed(feed(hash, &text.len().to_le_bytes()), text));
            numbers.iter().fold(hash, |hash, number| feed(hash, &number.to_le_bytes()))
        })
    }
}
