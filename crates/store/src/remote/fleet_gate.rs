//! Whether a shared store may be used. Nodes count together only if they have the same secret of the fleet, so the
//! first one leaves a mark of it in the store, and the others compare theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::{StoreError, StoreErrorKind};

/// The name of the mark in a store, which no counter has.
pub(crate) const MARK_NAME: &str = "fleet";
/// The mark of nodes without a secret. It expires soon after they end, so that a fleet with a secret can follow them.
pub(crate) const NO_SECRET: &str = "none";
/// How long [`NO_SECRET`] lasts. Nodes renew it more often.
pub(crate) const NO_SECRET_TTL: Duration = Duration::from_secs(20);
/// The longest mark that is compared.
pub(crate) const MAX_MARK_BYTES: usize = 128;

/// A gate before all servers of a store: while it is closed, the store is as if it were unavailable. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct FleetGate {
    is_closed: Arc<AtomicBool>,
}

impl FleetGate {
    /// A gate that is closed until the store is known to be the fleet's.
    #[must_use]
    pub fn closed() -> Self {
        Self { is_closed: Arc::new(AtomicBool::new(true)) }
    }

    /// Opens or closes the gate; returns whether it was open.
    #[expect(clippy::must_use_candidate, reason = "most callers only set it")]
    pub fn set_open(&self, is_open: bool) -> bool {
        !self.is_closed.swap(!is_open, Relaxed)
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
