//! Tollgate's store in memory under one GCRA rule, with the clock that a server uses.

use std::hint::black_box;

use foldhash::quality::RandomState;
use tollgate::{CachedClock, Clock};
use tollgate_core::{Algorithm, Charge, ChargeResult, Key, Limit, Micros, Mode, Quota};
use tollgate_store::MemoryStore;
use tollgate_store::memory::DEFAULT_BYTES;

use super::{LIMIT, USED, WINDOW_SECONDS};
use crate::Fallible;
use crate::keys::KeyText;

/// Room for every counter at any load of its page.
const BYTES_PER_COUNTER: u64 = 48;

#[derive(Debug)]
pub(crate) struct Ours {
    store: MemoryStore,
    clock: CachedClock,
    hasher: RandomState,
    limit: Limit,
}

impl Ours {
    pub(crate) fn with_counters(count: u64) -> Fallible<Self> {
        let bytes = usize::try_from(count * BYTES_PER_COUNTER)?;
        let ours = Self {
            store: MemoryStore::with_bytes(bytes.max(DEFAULT_BYTES)),
            clock: CachedClock::start()?,
            hasher: RandomState::default(),
            limit: quota().compile()?,
        };
        let mut text = KeyText::new();
        for number in 0..count {
            let charge = ours.charge(text.of(number), u64::from(USED));
            if !ours.store.settle_now(&[charge], ours.clock.now()).passed {
                return Err("a first charge was refused".into());
            }
        }
        Ok(ours)
    }

    /// Fails if a counter was evicted during the run: inserting is not what is measured.
    pub(crate) fn expect_counters(&self, count: u64) -> Fallible<()> {
        let left = self.store.len() as u64;
        if left == count { Ok(()) } else { Err(format!("{left} of {count} counters left").into()) }
    }

    #[inline]
    pub(crate) fn check(&self, key: &str) -> bool {
        let mut line = ChargeResult::default();
        self.store.settle_one(&self.charge(key, 1), self.clock.now(), &mut line);
        black_box(&line).admitted
    }

    /// Checks a batch, each key on its own; says how many were refused.
    #[inline]
    pub(crate) fn check_each<const SIZE: usize>(
        &self,
        keys: &[KeyText; SIZE],
        lines: &mut [ChargeResult; SIZE],
    ) -> u64 {
        let now = self.clock.now();
        let charges: [Charge<'_>; SIZE] =
            std::array::from_fn(|place| self.charge(keys[place].as_str(), 1));
        self.store.settle_each(&charges, now, lines);
        black_box(&*lines).iter().map(|line| u64::from(!line.admitted)).sum()
    }

    #[inline]
    fn charge<'a>(&'a self, key: &'a str, cost: u64) -> Charge<'a> {
        let key = Key::new(&self.hasher, "per_user", key.as_bytes(), b"");
        Charge { key, limit: &self.limit, cost, mode: Mode::Enforce }
    }
}

fn quota() -> Quota {
    let window = Micros::from_secs(u64::from(WINDOW_SECONDS));
    Quota::new(Algorithm::Gcra, u64::from(LIMIT), window).with_burst(u64::from(LIMIT))
}
