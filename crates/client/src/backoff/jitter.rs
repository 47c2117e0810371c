//! Jitter, so that callers that were refused together do not retry together.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A sequence of random numbers, not for cryptography (`SplitMix64`).
#[derive(Debug)]
pub(super) struct Jitter(AtomicU64);

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Jitter {
    /// A sequence that no other has.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(())))
    }

    /// Any span up to `most`, all of them as likely.
    pub(super) fn up_to(&self, most: Duration) -> Duration {
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        share(mixed ^ (mixed >> 31), most)
    }
}

/// The span that a random number stands for.
fn share(random: u64, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    let share = (u128::from(random) * (u128::from(nanos) + 1)) >> 64;
    Duration::from_nanos(u64::try_from(share).unwrap_or(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_are_within_bounds(random: u64, most: u64) {
            prop_assert!(share(random, Duration::from_nanos(most)) <= Duration::from_nanos(most));
        }
    }

    #[test]
    fn shares_reach_from_nothing_to_all() {
        let most = Duration::from_millis(8);
        assert_eq!(share(0, most), Duration::ZERO);
        assert_eq!(share(u64::MAX, most), most);
        assert_eq!(share(u64::MAX, Duration::ZERO), Duration::ZERO);
        assert!(share(u64::MAX, Duration::MAX) <= Duration::MAX);
    }

    #[test]
    fn every_eighth_is_as_likely() {
        let (jitter, most) = (Jitter::new(), Duration::from_nanos(799));
        let mut eighths = [0_u32; 8];
        for _ in 0..8_000 {
            eighths[(jitter.up_to(most).as_nanos() / 100) as usize] += 1;
        }
        // Six standard deviations.
        assert!(eighths.iter().all(|count| (820..1_180).contains(count)), "{eighths:?}");
    }
}
