//! Whether a shared store may be used. Nodes count together only if they have the same secret of the fleet, so the
//! first one leaves a mark of it in the store, and the others compare theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::RwLock;

use super::CounterKey;
use crate::{StoreError, StoreErrorKind};

/// The name of the mark in a store, which no counter has.
pub(crate) const MARK_NAME: &str = "fleet";
/// The mark of nodes without a secret. It expires soon after they end, so that a fleet with a secret can follow them.
const NO_SECRET: &str = "none";

/// The marks of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FleetMark<'m> {
    /// The mark that it leaves where there is none.
    pub(crate) ours: &'m str,
    /// The mark of the secret that the fleet had before. It is accepted, and expires once no node has it as its own.
    pub(crate) previous: Option<&'m str>,
    /// Whether it leaves its mark where there is none.
    pub(crate) may_claim: bool,
}

/// Whose mark a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMark {
    /// That of our secret.
    Ours,
    /// That of the secret that we had before: nodes that know only that one still count.
    Previous,
    /// That of nodes without a secret, which still count.
    NoSecret,
    /// That of another fleet.
    Others,
    /// None, and it was not claimed.
    Absent,
}

impl<'m> FleetMark<'m> {
    /// How long a mark lasts that is not meant to stay. Nodes renew theirs more often.
    pub(crate) const TTL: Duration = Duration::from_secs(20);

    /// The marks of a node with these secrets.
    pub(crate) fn new(ours: Option<&'m str>, previous: Option<&'m str>, may_claim: bool) -> Self {
        Self { ours: ours.unwrap_or(NO_SECRET), previous, may_claim }
    }

    /// How long our mark lasts; `None` if it stays.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        (self.ours == NO_SECRET).then_some(Self::TTL)
    }

    /// Whose a mark in the store is; an empty one is none.
    pub(crate) fn owner_of(&self, found: &str) -> StoreMark {
        match found {
            "" => StoreMark::Absent,
            found if found == self.ours => StoreMark::Ours,
            found if Some(found) == self.previous => StoreMark::Previous,
            NO_SECRET => StoreMark::NoSecret,
            _ => StoreMark::Others,
        }
    }
}

/// A gate before all servers of a store: while it is closed, the store is as if it were unavailable. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct FleetGate {
    is_closed: Arc<AtomicBool>,
    /// Whether it is closed because the store belongs to another fleet.
    is_of_others: Arc<AtomicBool>,
    counter_key: Arc<RwLock<Option<CounterKey>>>,
}

impl FleetGate {
    /// A gate that is closed until the store is known to be the fleet's.
    #[must_use]
    pub fn closed() -> Self {
        Self { is_closed: Arc::new(AtomicBool::new(true)), ..Self::default() }
    }

    /// Opens the gate, or closes it because the store belongs to another fleet.
    pub fn set_open(&self, is_open: bool) {
        self.is_of_others.store(!is_open, Relaxed);
        self.is_closed.store(!is_open, Relaxed);
    }

    /// Sets the key that hides subjects in the names of counters; all nodes that count together have the same one.
    pub fn set_counter_key(&self, key: Option<CounterKey>) {
        *self.counter_key.write() = key;
    }

    /// The key that hides subjects in the names of counters.
    #[cfg(feature = "redis")]
    pub(crate) fn counter_key(&self) -> Option<CounterKey> {
        self.counter_key.read().clone()
    }

    /// Whether the store is known to be the fleet's.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_closed()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Why it is closed, if it is.
    pub(crate) fn closed_by(&self) -> Option<StoreErrorKind> {
        let is_of_others = self.is_of_others.load(Relaxed);
        let kind =
            if is_of_others { StoreErrorKind::OtherFleet } else { StoreErrorKind::Unavailable };
        self.is_closed().then_some(kind)
    }

    pub(crate) fn admit(&self) -> Result<(), StoreError> {
        match self.closed_by() {
            None => Ok(()),
            Some(StoreErrorKind::Unavailable) => {
                let why = "it is not known whether the store belongs to this fleet";
                Err(StoreError::new(StoreErrorKind::Unavailable, why))
            }
            Some(kind) => Err(kind.into()),
        }
    }
}
