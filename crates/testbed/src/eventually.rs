//! Polls for a condition that is not announced, with a timeout.

use std::time::Duration;

use tokio::time::{interval, timeout};

use crate::wait::WAIT_TIMEOUT;

/// The interval between polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `look` finds what it looks for, for at most [`WAIT_TIMEOUT`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let looking = async {
        let mut looks = interval(POLL_INTERVAL);
        loop {
            looks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    };
    let found = timeout(WAIT_TIMEOUT, looking).await;
    found.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}
