//! Which row of counts a thread adds to. A row with one writer needs no locked instruction, of which each takes as long as
//! the arithmetic of a charge.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many rows there are. The last one is shared by the threads that found no other.
pub(super) const STRIPES: usize = 16;
const SHARED: usize = STRIPES - 1;

/// A row of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stripe(usize);

/// The row of a thread, which is free again when the thread ends.
struct Owned(Stripe);

/// The rows that threads have.
static TAKEN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static OWNED: Owned = Owned::take();
}

impl Stripe {
    /// The row of this thread.
    #[inline]
    pub(super) fn of_this_thread() -> Self {
        // A thread that is ending may have given its row back.
        OWNED.try_with(|owned| owned.0).unwrap_or(Self(SHARED))
    }

    /// Its number.
    #[inline]
    pub(super) const fn row(self) -> usize {
        self.0
    }

    /// Adds one to a count in this row.
    #[inline]
    pub(super) fn add_one(self, count: &AtomicU64) {
        if self.0 == SHARED {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

impl Owned {
    fn take() -> Self {
        let free = |taken: u32| Some(taken.trailing_ones() as usize).filter(|row| *row < SHARED);
        let take = |taken| Some(taken | 1 << free(taken)?);
        // What the row's last thread counted is seen by the next one.
        let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, take);
        Self(Stripe(taken.ok().and_then(free).unwrap_or(SHARED)))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0.0), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Many times more threads than rows, at once and one after the other: no count is lost.
    #[test]
    fn every_count_of_every_thread_is_there() {
        const THREADS: usize = 40;
        const COUNTS: u64 = 10_000;
        let rows: Vec<AtomicU64> = (0..STRIPES).map(|_| AtomicU64::new(0)).collect();
        for _ in 0..5 {
            let together = Barrier::new(THREADS);
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        together.wait();
                        for _ in 0..COUNTS {
                            let stripe = Stripe::of_this_thread();
                            stripe.add_one(&rows[stripe.row()]);
                        }
                    });
                }
            });
        }
        let counted: u64 = rows.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(counted, 5 * THREADS as u64 * COUNTS);
    }
}
