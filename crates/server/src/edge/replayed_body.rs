//! The body of a request of which some frames were read, for a reader that reads it from the start.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};

/// Frames that were read, in order.
pub(crate) type ReadFrames<B> = VecDeque<Result<Frame<Bytes>, <B as Body>::Error>>;

/// A body of which some frames were read.
pub(crate) struct ReplayedBody<B: Body> {
    pub(crate) frames: ReadFrames<B>,
    pub(crate) rest: B,
}

impl<B: Body> ReplayedBody<B> {
    /// A body of which nothing was read.
    pub(crate) fn unread(rest: B) -> Self {
        Self { frames: VecDeque::new(), rest }
    }
}

impl<B: Body<Data = Bytes, Error: Unpin> + Unpin> Body for ReplayedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.frames.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.is_end_stream()
    }
}
