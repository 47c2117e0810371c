//! The limits that counters were written under, each stored once.
//!
//! A counter must carry the limit it is counted in, but a limit is three times as large as a counter. So counters
//! carry an index of 16 bits into this table. It is append only, read without a lock, and bounded: a limit that finds
//! no place has no index, and its counters carry the limit themselves.

use std::num::NonZeroU16;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::Limit;

/// How many limits can have an index. Real policies have dozens.
const PLACES: usize = 1 << 14;
/// How many places after its home a limit may be in.
const MAX_PROBES: usize = 8;

#[derive(Debug)]
pub(crate) struct LimitTable {
    limits: Box<[OnceLock<Box<Limit>>]>,
    /// The digests of the limits, by the same index: all that a settlement has to read.
    digests: Box<[AtomicU64]>,
}

/// The index of a limit.
pub(crate) type LimitId = NonZeroU16;

impl LimitTable {
    pub(crate) fn new() -> Self {
        Self {
            limits: (0..PLACES).map(|_| OnceLock::new()).collect(),
            digests: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Whether the index refers to this limit. Digests of 64 bits are trusted to distinguish limits, as fingerprints
    /// are trusted to distinguish keys.
    #[inline]
    pub(crate) fn means(&self, id: LimitId, limit: &Limit) -> bool {
        let digest = self.digests.get(usize::from(id.get()) - 1);
        digest.is_some_and(|digest| digest.load(Ordering::Relaxed) == limit.digest())
    }

    pub(crate) fn get(&self, id: LimitId) -> Option<&Limit> {
        self.limits.get(usize::from(id.get()) - 1)?.get().map(Box::as_ref)
    }

    /// The index of `limit`, which is inserted if there is a place for it.
    pub(crate) fn id_of(&self, limit: &Limit) -> Option<LimitId> {
        // Two threads that race for a place agree afterwards on the winner.
        let home = usize::try_from(limit.digest() >> 32).unwrap_or(0);
        (0..MAX_PROBES).map(|step| (home + step) % PLACES).find_map(|place| {
            let kept = self.limits[place].get_or_init(|| {
                self.digests[place].store(limit.digest(), Ordering::Relaxed);
                Box::new(*limit)
            });
            (kept.as_ref() == limit)
                .then(|| u16::try_from(place + 1).ok().and_then(LimitId::new))?
        })
    }
}
