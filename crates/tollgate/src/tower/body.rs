//! The body of a response: that of the inner service, or the few bytes of a refusal.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of responses of a [`RateLimit`](super::RateLimit).
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        content: LayerContent<B>,
    }
}

pin_project! {
    #[project = Projected]
    #[derive(Debug)]
    enum LayerContent<B> {
        Inner { #[pin] body: B },
        Own { bytes: Bytes },
    }
}

impl<B> ResponseBody<B> {
    /// The body of the inner service.
    pub(super) const fn inner(body: B) -> Self {
        Self { content: LayerContent::Inner { body } }
    }

    /// The body of a refusal.
    pub(super) const fn own(bytes: Bytes) -> Self {
        Self { content: LayerContent::Own { bytes } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().content.project() {
            Projected::Inner { body } => body.poll_frame(context),
            Projected::Own { bytes } if bytes.is_empty() => Poll::Ready(None),
            Projected::Own { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            LayerContent::Inner { body } => body.is_end_stream(),
            LayerContent::Own { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            LayerContent::Inner { body } => body.size_hint(),
            LayerContent::Own { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
