//! Work that is finished even if its caller leaves.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

#[cfg(any(feature = "redis", feature = "postgres", feature = "tower"))]
use tokio::runtime::Handle;

/// A future that continues in a background task when it is dropped halfway. Otherwise a client could disconnect while
/// the store is called, and be neither counted nor banned.
pub(crate) struct Uncancelled<F: Future<Output: Send + 'static> + Send + 'static> {
    work: Option<Pin<Box<F>>>,
    has_begun: bool,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Uncancelled<F> {
    pub(crate) fn new(work: F) -> Self {
        Self { work: Some(Box::pin(work)), has_begun: false }
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for Uncancelled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.has_begun = true;
        let Some(work) = &mut this.work else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            this.work = None;
        }
        polled
    }
}

#[cfg(any(feature = "redis", feature = "postgres", feature = "tower"))]
impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for Uncancelled<F> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.has_begun)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(all(test, feature = "tower"))]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_that_has_begun_is_finished() {
        for has_begun in [false, true] {
            let (start, started) = oneshot::channel::<()>();
            let (end, ended) = oneshot::channel::<()>();
            let mut work = Uncancelled::new(async move {
                let _ = started.await;
                let _ = end.send(());
            });
            if has_begun {
                let mut waker = Context::from_waker(std::task::Waker::noop());
                assert!(Pin::new(&mut work).poll(&mut waker).is_pending());
            }
            drop(work);
            let _ = start.send(());
            assert_eq!(ended.await.is_ok(), has_begun);
        }
    }
}
