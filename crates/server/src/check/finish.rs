//! Checks that are finished although their callers have left: by disconnecting, or by a deadline that they chose. Otherwise
//! the store would charge or refuse a request, and the log of decisions would have no line of it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tollgate::Store as _;

use crate::app::state::Shared;

tokio::task_local! {
    /// Set for checks whose callers have left.
    static CALLER_LEFT: ();
}

/// Whether the caller of the running check has left. Its request was counted as an error when it did.
pub(crate) fn has_caller_left() -> bool {
    CALLER_LEFT.try_with(|()| ()).is_ok()
}

impl Shared {
    /// Whether callers can leave while their requests are checked: counters in memory never wait.
    pub(crate) fn can_callers_leave(&self) -> bool {
        self.limiter.store().is_shared()
    }

    /// Runs a check to its end, in the background if its caller leaves.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        check: impl Future<Output = T> + Send + 'static,
    ) -> T {
        if self.can_callers_leave() {
            Finishing { check: Some(Box::pin(check)), has_begun: false }.await
        } else {
            check.await
        }
    }
}

struct Finishing<F: Future<Output: Send + 'static> + Send + 'static> {
    check: Option<Pin<Box<F>>>,
    has_begun: bool,
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for Finishing<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.has_begun = true;
        let Some(check) = &mut this.check else { return Poll::Pending };
        let polled = check.as_mut().poll(context);
        if polled.is_ready() {
            this.check = None;
        }
        polled
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for Finishing<F> {
    fn drop(&mut self) {
        if let Some(check) = self.check.take().filter(|_| self.has_begun)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(CALLER_LEFT.scope((), check));
        }
    }
}
