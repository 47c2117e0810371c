//! The limits that counters were written under, each stored once.
//!
//! A counter must carry the limit it is counted in, but a limit is three times as large as a counter. So counters
//! carry an index of 16 bits into this table, which counts them: the place of a limit without counters goes to the next
//! limit that needs one. The table is bounded: a limit that finds no place has no index, and its counters carry the
//! limit themselves.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard};
use tollgate_core::Limit;

/// How many limits can have an index. Real policies have dozens.
const PLACES: usize = 1 << 14;
/// How many places after its home a limit may be in.
const MAX_PROBES: usize = 8;

#[derive(Debug)]
pub(crate) struct LimitTable {
    /// Locked while a shard is, never the other way round.
    limits: RwLock<Box<[Option<Box<Limit>>]>>,
    /// The digests of the limits, by the same index: all that a settlement has to read.
    digests: Box<[AtomicU64]>,
    /// How many counters have each index. Zero becomes one only while the limits are locked.
    counters: Box<[AtomicU64]>,
    /// Chooses the home of a limit: tenants choose limits, and must not choose places.
    hasher: RandomState,
}

/// The index of a limit.
pub(crate) type LimitId = NonZeroU16;

/// The limits while they are locked for reading.
pub(crate) struct Limits<'t>(RwLockReadGuard<'t, Box<[Option<Box<Limit>>]>>);

impl Limits<'_> {
    /// The limit of a counter.
    pub(crate) fn get(&self, id: LimitId) -> Option<&Limit> {
        self.0.get(place_of(id))?.as_deref()
    }
}

impl LimitTable {
    pub(crate) fn new() -> Self {
        let zeros = || (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        Self {
            limits: RwLock::new((0..PLACES).map(|_| None).collect()),
            digests: zeros(),
            counters: zeros(),
            hasher: RandomState::new(),
        }
    }

    /// Whether the index of a counter refers to this limit. Digests of 64 bits are trusted to distinguish limits, as
    /// fingerprints are trusted to distinguish keys.
    #[inline]
    pub(crate) fn means(&self, id: LimitId, limit: &Limit) -> bool {
        let digest = self.digests.get(place_of(id));
        digest.is_some_and(|digest| digest.load(Ordering::Relaxed) == limit.digest())
    }

    /// The limit of a counter.
    pub(crate) fn get(&self, id: LimitId) -> Option<Limit> {
        self.read().get(id).copied()
    }

    /// All limits, locked until they are dropped.
    pub(crate) fn read(&self) -> Limits<'_> {
        Limits(self.limits.read())
    }

    /// The index of `limit` for one more counter, which has to be given up by [`LimitTable::release`]. The limit is
    /// inserted if there is a place for it.
    pub(crate) fn acquire(&self, limit: &Limit) -> Option<LimitId> {
        let home = self.hasher.hash_one(limit.digest()) as usize % PLACES;
        let places = || (0..MAX_PROBES).map(|step| (home + step) % PLACES);
        let limits = self.limits.read();
        let find = |limits: &[Option<Box<Limit>>]| {
            places().find(|place| limits[*place].as_deref() == Some(limit))
        };
        if let Some(place) = find(&limits) {
            return self.count(place);
        }
        let is_free = |place: &usize| self.counters[*place].load(Ordering::Acquire) == 0;
        places().find(is_free)?;
        drop(limits);
        let mut limits = self.limits.write();
        // Another thread may have inserted it meanwhile.
        let known = find(&limits);
        let place = known.or_else(|| places().find(is_free))?;
        if known.is_none() {
            self.digests[place].store(limit.digest(), Ordering::Relaxed);
            limits[place] = Some(Box::new(*limit));
        }
        self.count(place)
    }

    fn count(&self, place: usize) -> Option<LimitId> {
        let id = u16::try_from(place + 1).ok().and_then(LimitId::new)?;
        self.counters[place].fetch_add(1, Ordering::Relaxed);
        Some(id)
    }

    /// Gives an index up that a counter had.
    pub(crate) fn release(&self, id: LimitId) {
        // What was read of the limit was read before another one takes its place.
        self.counters[place_of(id)].fetch_sub(1, Ordering::Release);
    }
}

fn place_of(id: LimitId) -> usize {
    usize::from(id.get()) - 1
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Algorithm, Micros, Quota};

    use super::*;

    fn limit(units: u64) -> Limit {
        Quota::new(Algorithm::Gcra, units, Micros::from_secs(60)).compile().expect("a limit")
    }

    /// Places were never freed: overrides that a tenant wrote anew filled the table for everybody until a restart.
    #[test]
    fn places_of_limits_without_counters_are_used_again() {
        let table = LimitTable::new();
        for round in 0..3 {
            let limits = (0..4 * PLACES as u64).map(|it| limit(1 + it + round * 1_000_000));
            let found: Vec<_> = limits.map(|limit| (table.acquire(&limit), limit)).collect();
            let ids = || found.iter().filter_map(|(id, limit)| Some(((*id)?, limit)));
            assert!(ids().count() > PLACES / 2 && ids().count() <= PLACES, "round {round}");
            assert!(
                ids().all(|(id, limit)| table.get(id) == Some(*limit) && table.means(id, limit))
            );
            ids().for_each(|(id, _)| table.release(id));
        }
        let (one, other) = (limit(1), limit(2));
        let id = table.acquire(&one).expect("a place");
        assert_eq!(table.acquire(&one), Some(id), "a limit has one place");
        table.release(id);
        assert_eq!(table.get(id), Some(one), "a counter still has it");
        assert_ne!(table.acquire(&other).expect("a place"), id);
    }
}
