//! How many concurrent streams an upstream allows on an HTTP/2 connection.
//!
//! Requests beyond that wait in a queue, where they look like requests to a slow upstream. So a connection is used
//! only after the upstream's first SETTINGS frame.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

use crate::request_body::RequestBody;

/// A connection whose tasks notify when they may have read something.
pub(crate) type UpstreamConnection<S> =
    http2::Connection<TokioIo<S>, RequestBody, NotifyingExecutor>;

/// How many concurrent streams the upstream allows. It may change.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaxStreams(Arc<AtomicUsize>);

impl MaxStreams {
    pub(crate) fn streams(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Runs a connection to its end, and follows the number that its upstream allows.
    pub(crate) async fn follow<S>(&self, mut connection: UpstreamConnection<S>) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        poll_fn(|context| {
            let polled = Pin::new(&mut connection).poll(context);
            self.0.store(connection.current_max_send_streams(), Relaxed);
            polled
        })
        .await
    }
}

/// Runs the tasks of a connection, and notifies whenever one of them may have read something from the upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotifyingExecutor(Arc<Notify>);

impl NotifyingExecutor {
    /// Waits for the first SETTINGS frame of an upstream. The connection must begin with no streams allowed.
    pub(crate) async fn first_settings<S>(
        &self,
        connection: &mut UpstreamConnection<S>,
    ) -> io::Result<MaxStreams>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        loop {
            match connection.current_max_send_streams() {
                0 => {}
                streams => return Ok(MaxStreams(Arc::new(AtomicUsize::new(streams)))),
            }
            tokio::select! {
                ended = &mut *connection => {
                    let why = ended.err().map_or_else(|| "the connection ended at once".into(), Into::into);
                    return Err(io::Error::other::<crate::BodyError>(why));
                }
                () = self.0.notified() => {}
            }
        }
    }
}

impl<F> Executor<F> for NotifyingExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let heard = Arc::clone(&self.0);
        tokio::spawn(async move {
            let mut task = pin!(task);
            poll_fn(|context| {
                let polled = task.as_mut().poll(context);
                heard.notify_one();
                polled
            })
            .await;
        });
    }
}
