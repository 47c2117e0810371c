//! Checks, wherever they arrive: asked of the limiter, and recorded, in one place.

pub(crate) mod checker;
pub(crate) mod guard;
pub(crate) mod idempotency;
pub(crate) mod journal;
