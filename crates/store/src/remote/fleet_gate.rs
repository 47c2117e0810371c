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
}

impl<'m> FleetMark<'m> {
    /// How long a mark lasts that is not meant to stay. Nodes renew theirs more often.
    pub(crate) const TTL: Duration = Duration::from_secs(20);

    /// The marks of a node with these secrets.
    pub(crate) fn new(ours: Option<&'m str>, previous: Option<&'m str>) -> Self {
        Self { ours: ours.unwrap_or(NO_SECRET), previous }
    }

    /// How long our mark lasts; `None` if it stays.
    pub(crate) fn lasts(&self) -> Option<Duration> {
        (self.ours == NO_SECRET).then_some(Self::TTL)
    }

    /// Whose a mark in the store is.
    pub(crate) fn owner_of(&self, found: &str) -> StoreMark {
        match found {
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
    counter_key: Arc<RwLock<Option<CounterKey>>>,
}

impl FleetGate {
    /// A gate that is closed until the store is known to be the fleet's.
    #[must_use]
    pub fn closed() -> Self {
        Self { is_closed: Arc::new(AtomicBool::new(true)), ..Self::default() }
    }

    /// Opens or closes the gate; returns whether it was open.
    #[expect(clippy::must_use_candidate, reason = "most callers only set it")]
    pub fn set_open(&self, is_open: bool) -> bool {
        !self.is_closed.swap(!is_open, Relaxed)
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

    pub(crate) fn admit(&self) -> Result<(), StoreError> {
        if self.is_closed() {
            let why = "it is not known whether the store belongs to this fleet";
            return Err(StoreError::new(StoreErrorKind::Unavailable, why));
        }
        Ok(())
    }
}
