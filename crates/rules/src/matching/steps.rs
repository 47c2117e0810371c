//! Bounds the work of glob matching, so that no pair of globs and values occupies a thread.

use std::cell::{Cell, RefCell};

use smallvec::SmallVec;

/// How many steps comparing one value of a request with globs may take, about a tenth of a
/// millisecond: enough for 256 searches of words in a value of 1 KiB.
const MAX_STEPS_PER_VALUE: u32 = 64 << 10;
/// How many steps all values of a request may take together.
const MAX_STEPS_PER_REQUEST: u32 = 256 << 10;

/// The steps that are left for one comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps(u32);

impl Steps {
    /// For globs and values that no client chooses.
    pub(crate) const fn unlimited() -> Self {
        Self(u32::MAX)
    }

    /// Takes steps; `None` if there are not enough left.
    pub(crate) fn take(&mut self, steps: usize) -> Option<()> {
        let left = u32::try_from(steps).ok().and_then(|steps| self.0.checked_sub(steps));
        self.0 = left.unwrap_or(0);
        left.map(drop)
    }
}

/// The steps that one request has taken.
///
/// Each value has its own share: a client that sends one long value does not change how its
/// other values are matched.
#[derive(Debug, Default)]
pub(crate) struct GlobWork {
    total: Cell<u32>,
    /// By the address of the value.
    by_value: RefCell<SmallVec<[(usize, u32); 2]>>,
}

impl GlobWork {
    /// Runs a comparison of `value` within the steps that are left for it.
    pub(crate) fn run(
        &self,
        value: &str,
        compare: impl FnOnce(&mut Steps) -> Option<bool>,
    ) -> Option<bool> {
        let place = value.as_ptr().addr();
        let mut values = self.by_value.borrow_mut();
        let at = values.iter().position(|(known, _)| *known == place).unwrap_or_else(|| {
            values.push((place, 0));
            values.len() - 1
        });
        let (_, taken) = values.get_mut(at)?;
        let total = self.total.get();
        let allowed = (MAX_STEPS_PER_VALUE - *taken).min(MAX_STEPS_PER_REQUEST - total);
        let mut steps = Steps(allowed);
        let matches = compare(&mut steps);
        let used = allowed - steps.0;
        *taken += used;
        self.total.set(total + used);
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(work: &GlobWork, value: &str, steps: u32) -> Option<bool> {
        work.run(value, |left| left.take(steps as usize).map(|()| true))
    }

    #[test]
    fn each_value_has_a_share_and_the_request_a_total() {
        let work = GlobWork::default();
        let values = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(take(&work, &values[0], MAX_STEPS_PER_VALUE), Some(true));
        assert_eq!(take(&work, &values[0], 1), None, "its share is used up");
        for value in &values[1..4] {
            assert_eq!(take(&work, value, MAX_STEPS_PER_VALUE), Some(true));
        }
        assert_eq!(take(&work, &values[4], 1), None, "the total is used up");
    }
}
