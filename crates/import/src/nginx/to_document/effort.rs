//! A bound on how much is compared: names, places and limits multiply, and a file can be made to
//! have many of each.

/// How many steps are taken in all. Real files need some thousand.
const MAX_STEPS: usize = 3_000_000;

/// What is left to spend.
pub(super) struct Effort(usize);

impl Default for Effort {
    fn default() -> Self {
        Self(MAX_STEPS)
    }
}

impl Effort {
    /// Takes so many steps; none, if that is too much.
    pub(super) fn spend(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps)?;
        Some(())
    }
}
