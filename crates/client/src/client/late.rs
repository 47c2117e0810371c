//! Calls that nobody waits for any more. They go on for a while: a connection that comes too late for one
//! check is in time for the next, and one that is given up is made again in vain.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::Error;
use super::transport::Call;

/// How many calls may go on without anybody who waits.
const MOST_CALLS: usize = 64;
/// For how long they may: a packet of the connection may be lost and sent again.
const LONGEST: Duration = Duration::from_secs(3);

/// Room for calls that are late. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LateCalls {
    places: Arc<Semaphore>,
}

/// A call that goes on in the background if it is dropped before it is answered.
pub(super) struct Persistent<T: Send + 'static> {
    /// None while it is asked and once it has answered.
    call: Option<Call<T>>,
    late: LateCalls,
}

impl LateCalls {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST_CALLS)) }
    }

    pub(super) fn persist<T: Send + 'static>(&self, call: Call<T>) -> Persistent<T> {
        Persistent { call: Some(call), late: self.clone() }
    }
}

impl<T: Send + 'static> Future for Persistent<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A call that panics does not come back, and so does not go on.
        let Some(mut call) = self.call.take() else { return Poll::Pending };
        let answer = call.as_mut().poll(context);
        if answer.is_pending() {
            self.call = Some(call);
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Persistent<T> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let Ok(place) = Arc::clone(&self.late.places).try_acquire_owned() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            // Nobody is left to be told.
            let _ = timeout(LONGEST, call).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that is never answered, and holds this for as long as it goes on.
    fn endless(held: &Arc<()>) -> Call<()> {
        let held = Arc::clone(held);
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        })
    }

    #[tokio::test(start_paused = true)]
    async fn late_calls_are_bounded_in_number_and_in_time() {
        let (late, held) = (LateCalls::new(), Arc::new(()));
        for _ in 0..2 {
            let calls: Vec<_> = (0..100).map(|_| late.persist(endless(&held))).collect();
            assert_eq!(Arc::strong_count(&held), 1 + 100);
            drop(calls);
            assert_eq!(Arc::strong_count(&held), 1 + MOST_CALLS);
            tokio::time::sleep(LONGEST / 2).await;
            assert_eq!(Arc::strong_count(&held), 1 + MOST_CALLS);
            tokio::time::sleep(LONGEST).await;
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }

    #[tokio::test]
    async fn who_waits_has_the_answer() {
        let late = LateCalls::new();
        let call: Call<u8> = Box::pin(async { Ok(7) });
        assert_eq!(late.persist(call).await, Ok(7));
        assert_eq!(late.places.available_permits(), MOST_CALLS);
    }

    #[test]
    fn without_a_runtime_it_ends() {
        let held = Arc::new(());
        drop(LateCalls::new().persist(endless(&held)));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
