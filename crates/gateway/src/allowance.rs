//! How many requests at a time an upstream allows for on a connection of HTTP/2.
//!
//! What is sent beyond that waits in a queue, where it looks like a request to a slow upstream. So nobody
//! uses a connection before its upstream has said how many, which is the first thing that it says.

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

use crate::upload::Upload;

/// A connection whose tasks say when they have heard something.
pub(crate) type Connection<S> = http2::Connection<TokioIo<S>, Upload, Hearing>;

/// How many requests at a time the upstream allows for. It may change its mind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowance(Arc<AtomicUsize>);

impl Allowance {
    pub(crate) fn streams(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Runs a connection to its end, and keeps up with what its upstream allows for.
    pub(crate) async fn follow<S>(&self, mut connection: Connection<S>) -> hyper::Result<()>
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

/// Runs the tasks of a connection, and notices whenever one of them may have heard from the upstream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hearing(Arc<Notify>);

impl Hearing {
    /// Waits for the first word of an upstream. The connection must begin with no streams allowed.
    pub(crate) async fn first_word<S>(
        &self,
        connection: &mut Connection<S>,
    ) -> io::Result<Allowance>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        loop {
            match connection.current_max_send_streams() {
                0 => {}
                streams => return Ok(Allowance(Arc::new(AtomicUsize::new(streams)))),
            }
            tokio::select! {
                ended = &mut *connection => {
                    let why = ended.err().map_or_else(|| "it ended at once".into(), Into::into);
                    return Err(io::Error::other::<crate::BodyError>(why));
                }
                () = self.0.notified() => {}
            }
        }
    }
}

impl<F> Executor<F> for Hearing
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
