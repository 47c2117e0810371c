//! Calls that go on in the background after their timeout: a connection that is too late for one check is in time
//! for the next, and one that is cancelled has to be made again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::Error;
use super::transport::DetachedCall;

const MAX_DETACHED: usize = 64;
/// Long enough for a lost packet of the handshake to be sent again.
const DETACHED_TIMEOUT: Duration = Duration::from_secs(3);

/// The permits of detached calls. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct DetachedCalls {
    places: Arc<Semaphore>,
}

/// A call that goes on in the background if it is dropped before its response.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    /// None while it is polled and once it is ready.
    call: Option<DetachedCall<T>>,
    detached: DetachedCalls,
}

impl DetachedCalls {
    pub(super) fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_DETACHED)) }
    }

    pub(super) fn detach_on_drop<T: Send + 'static>(
        &self,
        call: DetachedCall<T>,
    ) -> DetachOnDrop<T> {
        DetachOnDrop { call: Some(call), detached: self.clone() }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A call that panics does not come back, and so does not go on.
        let Some(mut call) = self.call.take() else { return Poll::Pending };
        let response = call.as_mut().poll(context);
        if response.is_pending() {
            self.call = Some(call);
        }
        response
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let Ok(place) = Arc::clone(&self.detached.places).try_acquire_owned() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            let _ = timeout(DETACHED_TIMEOUT, call).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call without a response, which holds this for as long as it goes on.
    fn endless(held: &Arc<()>) -> DetachedCall<()> {
        let held = Arc::clone(held);
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok(())
        })
    }

    #[tokio::test(start_paused = true)]
    async fn detached_calls_are_bounded_in_number_and_in_time() {
        let (detached, held) = (DetachedCalls::new(), Arc::new(()));
        for _ in 0..2 {
            let calls: Vec<_> = (0..100).map(|_| detached.detach_on_drop(endless(&held))).collect();
            assert_eq!(Arc::strong_count(&held), 1 + 100);
            drop(calls);
            assert_eq!(Arc::strong_count(&held), 1 + MAX_DETACHED);
            tokio::time::sleep(DETACHED_TIMEOUT / 2).await;
            assert_eq!(Arc::strong_count(&held), 1 + MAX_DETACHED);
            tokio::time::sleep(DETACHED_TIMEOUT).await;
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }

    #[tokio::test]
    async fn a_call_in_time_is_not_detached() {
        let detached = DetachedCalls::new();
        let call: DetachedCall<u8> = Box::pin(async { Ok(7) });
        assert_eq!(detached.detach_on_drop(call).await, Ok(7));
        assert_eq!(detached.places.available_permits(), MAX_DETACHED);
    }

    #[test]
    fn without_a_runtime_it_ends() {
        let held = Arc::new(());
        drop(DetachedCalls::new().detach_on_drop(endless(&held)));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
