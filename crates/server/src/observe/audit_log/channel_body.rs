//! A response body whose pieces come from a channel.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc;

/// How many pieces wait for the client to read them.
const PIECES_CAPACITY: usize = 4;

/// The sender of pieces. An error cuts the connection, so that a client does not take a part for the
/// whole.
pub(crate) type BodySender = mpsc::Sender<io::Result<Bytes>>;

/// A body, and the sender of its pieces. The body ends when the sender is dropped; the sender is closed
/// when the client disconnects.
pub(crate) fn pieces() -> (BodySender, Body) {
    let (sender, receiver) = mpsc::channel(PIECES_CAPACITY);
    (sender, Body::new(InPieces(receiver)))
}

struct InPieces(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for InPieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
