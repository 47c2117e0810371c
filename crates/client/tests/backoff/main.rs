//! Callers who back off, on a clock that stands still: no test here waits.

mod giving_up;
mod holding;
mod scene;
mod waiting;
