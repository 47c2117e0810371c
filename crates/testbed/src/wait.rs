//! Waiting for a condition, with an end.

use std::thread;
use std::time::Duration;

use crate::clock::Moment;

/// The longest that anything is waited for. Far more than it takes: a machine may be busy with other
/// tests.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The interval between polls.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until `look` finds what it looks for, for at most [`WAIT_TIMEOUT`].
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    try_until(WAIT_TIMEOUT, look).unwrap_or_else(|| panic!("waited in vain for {what}"))
}

/// Waits until `look` returns something; `None` after the timeout.
pub(crate) fn try_until<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Moment::after(patience);
    loop {
        // Read before polling, so that the last poll comes after the timeout.
        let is_last = end.has_passed();
        if let Some(found) = look() {
            return Some(found);
        }
        if is_last {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
}
