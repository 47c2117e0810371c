//! The memory of decisions, used again by the next ones of the same thread. A decision is nearly a kilobyte: on the heap it
//! is never copied, and reusing it costs less than clearing that much of the stack.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use tollgate_core::Timestamp;

use super::DecisionParts;

/// How many a thread keeps: those of a batch, and some.
const KEPT: usize = 32;

thread_local! {
    #[expect(clippy::vec_box, reason = "they are handed out without being copied")]
    static FREE: RefCell<Vec<Box<DecisionParts>>> = const { RefCell::new(Vec::new()) };
}

/// The parts of a decision, which go back to the thread that drops them.
pub(crate) struct Reused(Option<Box<DecisionParts>>);

impl Reused {
    /// Parts of a decision that is to be made for this time.
    #[inline]
    pub(super) fn at(now: Timestamp) -> Self {
        let free = FREE.try_with(|free| free.try_borrow_mut().ok()?.pop());
        let mut parts = free.ok().flatten().unwrap_or_default();
        (parts.asked_at, parts.now) = (now, now);
        Self(Some(parts))
    }
}

const TAKEN: &str = "parts are only taken when they are dropped";

impl Deref for Reused {
    type Target = DecisionParts;

    #[inline]
    fn deref(&self) -> &DecisionParts {
        match &self.0 {
            Some(parts) => parts,
            None => unreachable!("{TAKEN}"),
        }
    }
}

impl DerefMut for Reused {
    #[inline]
    fn deref_mut(&mut self) -> &mut DecisionParts {
        match &mut self.0 {
            Some(parts) => parts,
            None => unreachable!("{TAKEN}"),
        }
    }
}

impl Clone for Reused {
    fn clone(&self) -> Self {
        let mut copy = Self::at(self.now);
        (*copy).clone_from(self);
        copy
    }
}

impl Drop for Reused {
    #[inline]
    fn drop(&mut self) {
        let Some(mut parts) = self.0.take() else { return };
        // What is dropped here is dropped while nothing is borrowed.
        parts.clear();
        let _ = FREE.try_with(|free| {
            if let Ok(mut free) = free.try_borrow_mut()
                && free.len() < KEPT
            {
                free.push(parts);
            }
        });
    }
}
