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

use super::pace::{Pace, Paces};

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The calls of one connection. Clones are one and the same.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// How the answer of the next call goes out.
    next: Option<Arc<Pace>>,
    /// Those that were not tried yet.
    arrived: Vec<(Call, Option<Arc<Pace>>)>,
    waiting: Paces,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Calls {
    fn execute(&self, call: F) {
        let mut state = self.0.lock();
        let pace = state.next.take();
        state.arrived.push((Box::pin(call), pace));
    }
}

impl Calls {
    /// Says how the answer of a call goes out. The library hands the call over before it takes another
    /// request; over HTTP/1.1 there is no pace, and nothing is handed over.
    pub(super) fn expect(&self, pace: Option<&Arc<Pace>>) {
        if let Some(pace) = pace {
            self.0.lock().next = Some(Arc::clone(pace));
        }
    }

    /// Ends those whose clients took nothing of their answers for more than so many looks, this one
    /// included.
    pub(super) fn end_stuck(&self, most_quiet: u32) {
        self.0.lock().waiting.look(most_quiet);
    }

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
        let calls = std::mem::take(&mut self.0.lock().arrived);
        let is_any = !calls.is_empty();
        for (mut call, pace) in calls {
            // A task asks again, so there is nobody to wake. And as with tasks, whoever panics takes
            // nobody else along.
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
