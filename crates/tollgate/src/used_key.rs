//! Idempotency keys of requests that passed, so that a refund can release them: otherwise the copies of a refunded
//! request would pass without being charged.

use std::fmt;

use tollgate_core::Key;
use tollgate_rules::document::Consistency;
use tollgate_store::{Op, OpOutcome, RecordRef, Store, StoreError, StoreErrorKind};

use crate::clock::Clock;
use crate::decision::Decision;
use crate::limiter::Limiter;

/// The idempotency key of a request that passed, which a shared store remembers.
#[derive(Clone, PartialEq, Eq)]
pub struct UsedKey {
    pub(crate) call: [u8; 16],
    pub(crate) note: String,
    /// The subject of the first counter in the store.
    pub(crate) subject: Box<[u8]>,
}

/// Omits the subject: it may be a secret.
impl fmt::Debug for UsedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsedKey").field("note", &self.note).finish_non_exhaustive()
    }
}

impl UsedKey {
    fn record(&self) -> RecordRef<'_> {
        let beside = Key { fingerprint: 0, rule: "", subject: &self.subject, rest: b"", group: 0 };
        RecordRef { call: self.call, note: &self.note, beside }
    }
}

impl Decision {
    /// The idempotency key of this decision, given its call and note; `None` if no shared store counted the request.
    #[must_use]
    pub fn used_key(&self, call: [u8; 16], note: &str) -> Option<UsedKey> {
        let subject = self.first_shared_subject()?.into();
        Some(UsedKey { call, note: note.to_owned(), subject })
    }

    /// The subject of the first charge in a shared store. A cluster keeps the record of an idempotency key beside it.
    pub(crate) fn first_shared_subject(&self) -> Option<&[u8]> {
        let rules = self.snapshot.policy.rules();
        let is_shared = |line: &usize| {
            let planned = self.parts.plan.planned().get(*line);
            let rule = planned.and_then(|planned| rules.get(planned.rule));
            rule.is_some_and(|rule| rule.consistency != Consistency::Local)
        };
        let is_counted = self.is_allowed() && self.parts.plan.is_to_be_counted();
        let line = (0..self.parts.plan.planned().len()).find(is_shared).filter(|_| is_counted)?;
        self.parts.plan.charge(line, rules).map(|charge| charge.key.subject)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Whether copies of the request are still recognized by its key.
    ///
    /// # Errors
    /// The store failed.
    pub async fn is_key_used(&self, key: &UsedKey) -> Result<bool, StoreError> {
        self.submit_record(Op::FindRecord(key.record())).await
    }

    /// Releases the key of a request that is about to be refunded: the next request with it is charged. A key that another
    /// request has used since stays as it is.
    ///
    /// # Errors
    /// The store failed; whether the key was released is unknown.
    pub async fn release_key(&self, key: &UsedKey) -> Result<(), StoreError> {
        self.submit_record(Op::ForgetRecord(key.record())).await.map(drop)
    }

    async fn submit_record(&self, op: Op<'_>) -> Result<bool, StoreError> {
        match self.store().submit_one(op, self.clock.now()).await? {
            OpOutcome::Record { is_there } => Ok(is_there),
            _ => Err(StoreErrorKind::Corrupt.into()),
        }
    }
}
