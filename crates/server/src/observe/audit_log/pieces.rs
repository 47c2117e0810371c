//! A body that is sent piece by piece, as somebody else makes the pieces.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc;

/// How many pieces wait for the client to read them.
const AHEAD: usize = 4;

/// Makes the pieces. An error cuts the connection, so that nobody takes a part for the whole.
pub(super) type Pieces = mpsc::Sender<io::Result<Bytes>>;

/// A body, and what its pieces are handed to. It ends when that is dropped; that is closed when the
/// client is gone.
pub(super) fn pieces() -> (Pieces, Body) {
    let (sender, receiver) = mpsc::channel(AHEAD);
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
