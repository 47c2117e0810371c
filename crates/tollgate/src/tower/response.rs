//! Builds the response to a refused request: HTTP or gRPC.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::request::Parts;
use ::http::{Response, StatusCode};
use bytes::Bytes;
use serde_json::json;

use super::grpc::{self, GrpcCode};
use super::observed::NotChecked;
use crate::decision::Decision;
use crate::http::{
    HeaderFamilies, PROBLEM_JSON, PathProblem, RefusalFormat, content_fields, write_fields,
};
use crate::identity::CredentialProblem;

/// The id of the refusal, by which it can be found in the server's log.
const DECISION: HeaderName = HeaderName::from_static("x-tollgate-decision");

/// A response built by the program.
type CustomResponse = Arc<dyn Fn(&Decision, &Parts) -> Response<Bytes> + Send + Sync>;

/// How responses are built.
#[derive(Clone, Default)]
pub(super) struct ResponseBuilder {
    pub(super) families: HeaderFamilies,
    pub(super) format: RefusalFormat,
    pub(super) own: Option<CustomResponse>,
    ids: Arc<Ids>,
}

impl ResponseBuilder {
    /// The response to a refused request, with the id that the observer gave it.
    pub(super) fn refusal(
        &self,
        decision: &Decision,
        parts: &Parts,
        name: Option<String>,
    ) -> Response<Bytes> {
        let id = name.unwrap_or_else(|| self.ids.next());
        let mut response = match &self.own {
            Some(own) => own(decision, parts),
            None if grpc::is_call(parts) => grpc::refusal(decision),
            None => {
                let mut body = Vec::with_capacity(512);
                let (status, content_type) = self.format.write(decision, &id, &mut body);
                with_body(status, content_type, body)
            }
        };
        let fields = response.headers_mut();
        write_fields(decision, self.families, fields);
        if let Ok(id) = HeaderValue::try_from(id) {
            fields.insert(DECISION, id);
        }
        response
    }
}

/// The response to a request that is refused for its credentials. The reason is in its extensions, for metrics.
pub(super) fn bad_credentials(parts: &Parts, why: CredentialProblem) -> Response<Bytes> {
    let mut response = not_checked(parts, why.status(), why.code(), &why.detail());
    response.extensions_mut().insert(why);
    let fields = response.headers_mut();
    if let Some(challenge) = why.challenge() {
        fields.insert(WWW_AUTHENTICATE, challenge);
    }
    if why.status() == StatusCode::SERVICE_UNAVAILABLE {
        fields.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The response to a request whose path is ambiguous.
pub(super) fn bad_path(parts: &Parts, why: PathProblem) -> Response<Bytes> {
    not_checked(parts, StatusCode::BAD_REQUEST, PathProblem::CODE, &why.to_string())
}

/// The response to a request that was refused before any rule was checked.
fn not_checked(parts: &Parts, status: StatusCode, code: &str, detail: &str) -> Response<Bytes> {
    let mut response = if grpc::is_call(parts) {
        let code = match status {
            StatusCode::UNAUTHORIZED => GrpcCode::Unauthenticated,
            StatusCode::SERVICE_UNAVAILABLE => GrpcCode::Unavailable,
            _ => GrpcCode::InvalidArgument,
        };
        grpc::failure(code, detail, None)
    } else {
        let body = json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "code": code,
            "detail": detail,
        });
        problem(status, body.to_string().into())
    };
    response.extensions_mut().insert(NotChecked);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn problem(status: StatusCode, body: Vec<u8>) -> Response<Bytes> {
    with_body(status, HeaderValue::from_static(PROBLEM_JSON), body)
}

fn with_body(status: StatusCode, content_type: HeaderValue, body: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().extend(content_fields(content_type));
    response
}

/// Ids of refusals, unique across processes.
struct Ids {
    process: u32,
    next: AtomicU64,
}

impl Default for Ids {
    fn default() -> Self {
        let [a, b, c, d, ..] = RandomState::new().hash_one(()).to_ne_bytes();
        Self { process: u32::from_ne_bytes([a, b, c, d]), next: AtomicU64::new(0) }
    }
}

impl Ids {
    fn next(&self) -> String {
        format!("l{:08x}-r{:x}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
