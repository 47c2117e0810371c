//! Refusals over gRPC: a status in the header fields, with details that clients act upon.
//!
//! There are only two small messages, so they are encoded by hand: a code generator and its library would outweigh
//! the rest of the layer.

use ::http::Response;
use ::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use ::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;

use crate::decision::{Decision, DecisionReason, Refusal};
use crate::http::retry_after;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC: &str = "application/grpc";
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The gRPC status codes that a layer responds with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrpcCode {
    InvalidArgument = 3,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// Whether a request is a gRPC call, by its content type: `application/grpc`, maybe with a format.
pub(super) fn is_call(parts: &Parts) -> bool {
    let content_type = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let format = content_type.and_then(|content_type| content_type.strip_prefix(GRPC.as_bytes()));
    format.is_some_and(|format| matches!(format.first(), None | Some(b'+' | b';')))
}

/// The response to a refused call.
pub(super) fn refusal(decision: &Decision) -> Response<Bytes> {
    let code = match decision.refusal() {
        Some(Refusal::Denied) => GrpcCode::PermissionDenied,
        Some(Refusal::StoreUnavailable) => GrpcCode::Unavailable,
        Some(Refusal::RateLimited | Refusal::Banned) | None => GrpcCode::ResourceExhausted,
    };
    let refuser = decision.refuser().map_or("", |rule| &rule.id);
    let message = match (decision.reason(), decision.binding()) {
        (DecisionReason::MissingIdentifier { .. }, _) => {
            format!("rule {refuser} needs to know who is asking")
        }
        (DecisionReason::Banned { .. }, _) => format!("rule {refuser} has banned this client"),
        (DecisionReason::NoRule, _) => "no rule applies to this request".to_owned(),
        (DecisionReason::StoreUnavailable { .. }, _) => {
            "the limit cannot be checked at the moment".to_owned()
        }
        (_, Some(binding)) => format!("the limit of rule {} is reached", binding.rule.id),
        (_, None) => "this client is not allowed here".to_owned(),
    };
    failure(code, &message, retry_after(decision))
}

/// A trailers-only response: the status is in the header fields, and there is no body. The message has to be plain
/// ASCII without `%`, which would need escaping.
pub(super) fn failure(code: GrpcCode, message: &str, retry_after: Option<u64>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    fields.insert(STATUS, HeaderValue::from(code as u16));
    if let Ok(message) = HeaderValue::from_str(message) {
        fields.insert(MESSAGE, message);
    }
    let details = retry_after.map(|seconds| details(code, message, seconds));
    let details = details.map(|details| STANDARD_NO_PAD.encode(details));
    if let Some(details) = details.and_then(|details| HeaderValue::try_from(details).ok()) {
        fields.insert(DETAILS, details);
    }
    response
}

/// A `google.rpc.Status` with a `google.rpc.RetryInfo`.
fn details(code: GrpcCode, message: &str, seconds: u64) -> Vec<u8> {
    let delay = Message::default().number(1, seconds);
    let retry_info = Message::default().bytes(1, &delay.0);
    let any = Message::default().bytes(1, RETRY_INFO.as_bytes()).bytes(2, &retry_info.0);
    let status = Message::default().number(1, code as u64).bytes(2, message.as_bytes());
    status.bytes(3, &any.0).0
}

/// A Protocol Buffers message. Fields are numbered below 16.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u8, number: u64) -> Self {
        self.0.push(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u8, bytes: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Seven bits a byte, the lowest first; the eighth is set if more follow.
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }
}
