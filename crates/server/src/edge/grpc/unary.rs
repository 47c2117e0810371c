//! Calls of one message that are answered with one, as almost all are.
//!
//! The library reads every call as a stream: it copies the message into a buffer, and allocates another one for the
//! response. Here the message stays in the frame that it arrived in. A call that is not that simple (compressed, cut
//! short, too large, of several messages) is left to the library, with the frames that were read.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame};
use prost::Message;
use tonic::Status;
use tonic::body::Body;

use super::status::GRPC_STATUS;
use crate::edge::drain::SharedBody;
use crate::edge::replayed_body::ReadFrames;

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The only message of a call, with its prefix.
#[derive(Debug)]
pub(super) struct Framed(Bytes);

impl Framed {
    /// Reads the message of a call, of `most` bytes at most.
    ///
    /// # Errors
    /// The frames that were read, if the library has to read the call.
    pub(super) async fn read(
        body: &mut SharedBody,
        most: usize,
    ) -> Result<Self, ReadFrames<SharedBody>> {
        let Some(first) = body.frame().await else { return Err(VecDeque::new()) };
        let first = match first.map(Frame::into_data) {
            Ok(Ok(data)) => data,
            Ok(Err(trailers)) => return Err([Ok(trailers)].into()),
            Err(error) => return Err([Err(error)].into()),
        };
        match length(&first).filter(|length| *length <= most) {
            Some(length) if first.len() == PREFIX_BYTES + length && body.is_end_stream() => {
                Ok(Self(first))
            }
            Some(length) => Box::pin(Self::read_rest(body, first, PREFIX_BYTES + length)).await,
            None => Err([Ok(Frame::data(first))].into()),
        }
    }

    /// Reads further frames, up to the end of the call.
    async fn read_rest(
        body: &mut SharedBody,
        first: Bytes,
        whole: usize,
    ) -> Result<Self, ReadFrames<SharedBody>> {
        let mut message = BytesMut::from(&*first);
        let mut frames = VecDeque::from([Ok(Frame::data(first))]);
        while !body.is_end_stream() {
            let next = if message.len() < whole {
                body.frame().await
            } else {
                // Nothing but the end is missing. While it does, the library would check the message already.
                let at_once =
                    poll_fn(|context| Poll::Ready(Pin::new(&mut *body).poll_frame(context)));
                let Poll::Ready(next) = at_once.await else { return Err(frames) };
                next
            };
            let Some(frame) = next else { break };
            let data = frame.as_ref().ok().and_then(Frame::data_ref);
            let has_failed = frame.is_err();
            message.extend_from_slice(data.map_or(&[][..], |data| data));
            frames.push_back(frame);
            if has_failed || message.len() > whole {
                return Err(frames);
            }
        }
        if message.len() == whole { Ok(Self(message.freeze())) } else { Err(frames) }
    }

    /// The message.
    pub(super) fn message(&self) -> &[u8] {
        self.0.get(PREFIX_BYTES..).unwrap_or_default()
    }

    /// The frame that it was read from.
    pub(super) fn into_frames(self) -> ReadFrames<SharedBody> {
        [Ok(Frame::data(self.0))].into()
    }
}

/// The length of the message in its first frame, if it is not compressed.
fn length(frame: &[u8]) -> Option<usize> {
    match frame.first_chunk::<PREFIX_BYTES>()? {
        [0, length @ ..] => usize::try_from(u32::from_be_bytes(*length)).ok(),
        _ => None,
    }
}

/// A message to send, which is written after its prefix.
#[derive(Debug)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    /// An empty message, with room for one of this length.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        let mut message = Vec::with_capacity(PREFIX_BYTES + bytes);
        message.extend_from_slice(&[0; PREFIX_BYTES]);
        Self(message)
    }

    /// Where the message is written.
    pub(super) fn message_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The message.
    pub(super) fn message(&self) -> &[u8] {
        self.0.get(PREFIX_BYTES..).unwrap_or_default()
    }

    /// The message as a value, for the library to write.
    pub(super) fn decoded<T: Message + Default>(&self) -> Result<tonic::Response<T>, Status> {
        let message = T::decode(self.message()).map(tonic::Response::new);
        message.map_err(|_| Status::internal("a response cannot be read again"))
    }

    /// The response of a call that succeeded.
    pub(super) fn into_response(mut self) -> Response<Body> {
        let length = self.0.len() - PREFIX_BYTES;
        // No response comes near four gigabytes.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.0[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
        let body = ReplyBody { message: Some(Bytes::from(self.0)), is_over: false };
        let mut response = Response::new(Body::new(body));
        response.headers_mut().insert(header::CONTENT_TYPE, GRPC);
        response
    }
}

/// A message and the trailers of a call that succeeded.
struct ReplyBody {
    message: Option<Bytes>,
    is_over: bool,
}

impl HttpBody for ReplyBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = match self.message.take() {
            Some(message) => Some(Frame::data(message)),
            None if self.is_over => None,
            None => {
                self.is_over = true;
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(GRPC_STATUS, OK);
                Some(Frame::trailers(trailers))
            }
        };
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}
