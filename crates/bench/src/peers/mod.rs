//! The contestants of the single-rule rows, ours and theirs, all under the same quota: so large that
//! every check is admitted and written.

pub(crate) mod governor;
pub(crate) mod limitador;
pub(crate) mod ours;
pub(crate) mod throttlecrab;

/// Units per day, and at once.
pub(crate) const LIMIT: u32 = 1_000_000_000;
pub(crate) const WINDOW_SECONDS: u32 = 86_400;
/// What every key has used when the measurement begins: takes hours to drain, so that no counter
/// expires under way and all of them stay to be found.
pub(crate) const USED: u32 = LIMIT / 10;
