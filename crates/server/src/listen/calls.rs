//! The calls of one connection, answered where they arrive.
//!
//! Over HTTP/2 the library wants a task for each call. But most are answered at once: then a task only
//! costs, and what is worse, each answer goes out on its own. So all calls that have arrived are tried
//! first, one after the other, and their answers go out together. Only who has to wait gets a task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::rt::Executor;
use parking_lot::Mutex;

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Calls that have arrived and were not tried yet.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<Call>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Calls {
    fn execute(&self, call: F) {
        self.0.lock().push(Box::pin(call));
    }
}

impl Calls {
    /// Serves the connection that these are the calls of, until it ends or has to wait.
    pub(super) fn poll<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                // Whoever has not been tried yet finds the connection closed.
                self.try_all();
                return Poll::Ready(ended);
            }
            if !self.try_all() {
                return Poll::Pending;
            }
        }
    }

    /// Tries each call. `false`: there was none.
    fn try_all(&self) -> bool {
        let calls = std::mem::take(&mut *self.0.lock());
        let is_any = !calls.is_empty();
        for mut call in calls {
            // A task asks again, so there is nobody to wake. And as with tasks, whoever panics takes
            // nobody else along.
            let mut context = Context::from_waker(Waker::noop());
            let tried = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context)));
            if let Ok(Poll::Pending) = tried {
                tokio::spawn(call);
            }
        }
        is_any
    }
}
