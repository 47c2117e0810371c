//! How many calls may be retried: a share of those that are made, so that a service in trouble does
//! not get several times its traffic.

use std::sync::atomic::{AtomicU64, Ordering};

/// The cost of one retry.
const REPEAT: u64 = 100;

/// A bucket that every call fills a little, and every retry empties by one.
#[derive(Debug)]
pub(super) struct Budget {
    saved: AtomicU64,
    /// How much each call adds, in hundredths of a retry.
    percent: u64,
    most: u64,
}

impl Budget {
    /// So many retries per hundred calls, and at most `at_once` at a time. It begins full.
    pub(super) fn new(percent: u32, at_once: u32) -> Self {
        let most = u64::from(at_once) * REPEAT;
        Self { saved: AtomicU64::new(most), percent: percent.into(), most }
    }

    pub(super) fn note_call(&self) {
        self.save(self.percent);
    }

    /// Takes one retry from the budget, if there is enough.
    pub(super) fn pay(&self) -> bool {
        let take = |saved: u64| saved.checked_sub(REPEAT);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Refunds a retry that is not sent.
    pub(super) fn take_back(&self) {
        self.save(REPEAT);
    }

    fn save(&self, amount: u64) {
        let add = |saved: u64| Some((saved + amount).min(self.most));
        // It always has a value.
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn repetitions_are_a_share_of_calls(
            percent in 0_u32..=100,
            at_once in 0_u32..20,
            is_call in proptest::collection::vec(any::<bool>(), 0..500),
        ) {
            let budget = Budget::new(percent, at_once);
            let (mut calls, mut repetitions) = (0_u64, 0_u64);
            for is_call in is_call {
                if is_call {
                    budget.note_call();
                    calls += 1;
                } else if budget.pay() {
                    repetitions += 1;
                }
                let most = u64::from(at_once) * 100 + calls * u64::from(percent);
                prop_assert!(repetitions * 100 <= most);
            }
        }
    }

    #[test]
    fn what_was_spent_comes_back_with_calls() {
        let budget = Budget::new(10, 2);
        assert_eq!([budget.pay(), budget.pay(), budget.pay()], [true, true, false]);
        (0..9).for_each(|_| budget.note_call());
        assert!(!budget.pay());
        budget.note_call();
        assert_eq!([budget.pay(), budget.pay()], [true, false]);
        budget.take_back();
        assert_eq!([budget.pay(), budget.pay()], [true, false]);
    }
}
