//! Calls that are read from the bytes of a connection and responded to at once, without the HTTP library.
//!
//! A connection begins here. Its first call that is not plain, or did not arrive whole, goes to the library, and with it
//! everything that follows on that connection.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Peer;
use super::activity::Noticing;
use super::shutdown::Shutdown;

/// How many header fields a plain call has at most.
pub(crate) const MAX_FIELDS: usize = 16;
/// How many bytes are read at a time. A call that is longer is not plain.
const READ_CAPACITY: usize = 8 << 10;
/// How large a buffer for responses may stay while a connection is idle.
const MAX_KEPT_BYTES: usize = 16 << 10;

type RespondPlainly = dyn Fn(&[u8], Peer, &mut Vec<u8>) -> Option<usize> + Send + Sync;

/// Responds to plain calls.
#[derive(Clone)]
pub(crate) struct PlainCalls(Arc<RespondPlainly>);

/// How a connection goes on after its plain calls.
#[derive(Debug)]
pub(super) enum PlainEnd {
    /// The client has closed it.
    Closed,
    /// By the HTTP library, which gets these bytes first.
    HandOver(Vec<u8>),
}

impl PlainCalls {
    /// `respond` writes the response to the plain call that the bytes begin with, and returns how many of them it takes;
    /// `None`: that is not a plain call, and nothing was done.
    pub(crate) fn new(
        respond: impl Fn(&[u8], Peer, &mut Vec<u8>) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(respond))
    }

    /// Responds to plain calls until there is another one. Responses to calls that arrive together are written together.
    pub(super) async fn serve(
        &self,
        stream: &mut Noticing,
        peer: Peer,
        shutdown: &Shutdown,
    ) -> PlainEnd {
        let mut asked_to_end = pin!(shutdown.requested());
        let (mut unread, mut responses) = (Vec::new(), Vec::new());
        loop {
            unread.reserve(READ_CAPACITY);
            let read = tokio::select! {
                biased;
                read = stream.read_buf(&mut unread) => read,
                () = asked_to_end.as_mut() => return PlainEnd::HandOver(unread),
            };
            if !matches!(read, Ok(1..)) {
                return PlainEnd::Closed;
            }
            let mut taken = 0;
            // While the server shuts down, responses say that the connection is closed.
            while !shutdown.is_announced()
                && let Some(bytes) = (self.0)(&unread[taken..], peer, &mut responses)
            {
                taken += bytes;
                stream.count_call(taken < unread.len());
            }
            if !responses.is_empty() && stream.write_all(&responses).await.is_err() {
                return PlainEnd::Closed;
            }
            if taken < unread.len() {
                unread.drain(..taken);
                return PlainEnd::HandOver(unread);
            }
            unread.clear();
            responses.clear();
            responses.shrink_to(MAX_KEPT_BYTES);
        }
    }
}

impl fmt::Debug for PlainCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainCalls")
    }
}
