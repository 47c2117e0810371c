//! Problems as gRPC statuses.

use http::{HeaderName, Response, StatusCode};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use crate::edge::http::problem::Problem;

/// The code of a call, in header fields or trailers.
pub(super) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// A problem as a gRPC status. Its header fields become metadata.
pub(super) fn of(mut problem: Problem) -> Status {
    let code = match problem.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::CONFLICT => Code::FailedPrecondition,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => Code::ResourceExhausted,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        status if status.is_client_error() => Code::InvalidArgument,
        _ => Code::Internal,
    };
    let headers = std::mem::take(problem.headers_mut());
    Status::with_metadata(code, problem.detail(), MetadataMap::from_headers(headers))
}

/// The code of a response. Only failures have it in the headers; a success has it in the trailers.
pub(crate) fn code_of<B>(response: &Response<B>) -> Code {
    let status = response.headers().get(GRPC_STATUS);
    status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()))
}
