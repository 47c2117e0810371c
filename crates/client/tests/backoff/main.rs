//! Callers who back off, on a clock that stands still: no test here waits.

mod cooldown;
mod giving_up;
mod scene;
mod waiting;
