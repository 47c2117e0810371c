//! The settings of idempotency keys.

use std::time::Duration;

/// How long responses are kept for repeated calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencySettings {
    /// The most responses.
    pub keys: usize,
    /// The longest time.
    pub kept_for: Duration,
}
