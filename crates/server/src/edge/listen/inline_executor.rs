//! The calls of one connection, polled first on the task of the connection.
//!
//! Over HTTP/2 the library spawns a task for each call. But most calls complete at once: a task is then
//! overhead, and each response is written separately. So all calls that have arrived are polled once,
//! one after the other, and their responses are written together. Only a call that has to wait gets a
//! task.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hyper::rt::Executor;
use parking_lot::Mutex;

use super::stalled_stream::{StalledStream, StalledStreams};

type ExecutedCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The calls of one connection. Clones share them.
#[derive(Clone, Default)]
pub(super) struct InlineExecutor(Arc<Mutex<CallState>>);

#[derive(Default)]
struct CallState {
    /// How the response of the next call is sent.
    next: Option<Arc<StalledStream>>,
    /// Calls that were not polled yet.
    arrived: Vec<(ExecutedCall, Option<Arc<StalledStream>>)>,
    waiting: StalledStreams,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for InlineExecutor {
    fn execute(&self, call: F) {
        let mut state = self.0.lock();
        let pace = state.next.take();
        state.arrived.push((Box::pin(call), pace));
    }
}

impl InlineExecutor {
    /// Sets how the response of the next call is sent. The library hands that call over before it takes
    /// another request; over HTTP/1.1 there is no pace, and no call is handed over.
    pub(super) fn expect(&self, pace: Option<&Arc<StalledStream>>) {
        if let Some(pace) = pace {
            self.0.lock().next = Some(Arc::clone(pace));
        }
    }

    /// Aborts calls whose clients took nothing of their responses for more than `most_quiet` checks,
    /// this one included.
    pub(super) fn end_stuck(&self, most_quiet: u32) {
        self.0.lock().waiting.look(most_quiet);
    }

    /// Polls the connection and its calls, until it ends or has to wait.
    pub(super) fn poll<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                // Calls that were not polled yet find the connection closed.
                self.try_all();
                return Poll::Ready(ended);
            }
            if !self.try_all() {
                return Poll::Pending;
            }
        }
    }

    /// Polls each new call once. Returns false if there was none.
    fn try_all(&self) -> bool {
        let calls = std::mem::take(&mut self.0.lock().arrived);
        let is_any = !calls.is_empty();
        for (mut call, pace) in calls {
            // A pending call is polled again by its task, so no waker is needed. A panic ends only its
            // own call, as in a task.
            let mut context = Context::from_waker(Waker::noop());
            let tried = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context)));
            if let Ok(Poll::Pending) = tried {
                let task = tokio::spawn(call);
                if let Some(pace) = pace {
                    self.0.lock().waiting.follow(&pace, task.abort_handle());
                }
            }
        }
        is_any
    }
}
