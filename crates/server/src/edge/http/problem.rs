//! Error responses: `application/problem+json` with a stable code.

use std::path::Path;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tollgate::http::PathProblem;
use tollgate::identity::CredentialProblem;
use tollgate_api::DocumentProblem;
pub(crate) use tollgate_api::ProblemBody;

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error as a client sees it. Boxed, since hardly any call ends in one.
#[derive(Clone, Debug)]
pub(crate) struct Problem(Box<ProblemContent>);

#[derive(Clone, Debug)]
struct ProblemContent {
    status: StatusCode,
    code: &'static str,
    detail: String,
    headers: HeaderMap,
    /// The single problems of a document, if it has a list of them.
    problems: Vec<DocumentProblem>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let (detail, headers, problems) = (detail.into(), HeaderMap::new(), Vec::new());
        Self(Box::new(ProblemContent { status, code, detail, headers, problems }))
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn unprocessable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    pub(crate) fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// The problem of a call that needs a catalog, where the rules come from a file.
    pub(crate) fn not_here(file: Option<&Path>) -> Self {
        let detail = match file.map(Path::display) {
            Some(file) => format!(
                "the rules come from {file}: change that file, and they are in force within seconds; \
                 to change them here, start the server with a catalog instead (--catalog)"
            ),
            None => "this server has files of envoyproxy/ratelimit and no other rules; to change \
                     rules here, start it with a catalog (--catalog)"
                .to_owned(),
        };
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "rules_from_file", detail)
            .with_header(header::ALLOW, HeaderValue::from_static("GET, HEAD"))
    }

    /// The problem of a request with invalid credentials.
    pub(crate) fn of_credentials(why: CredentialProblem) -> Self {
        let mut problem = Self::new(why.status(), why.code(), why.detail());
        if let Some(challenge) = why.challenge() {
            problem = problem.with_header(header::WWW_AUTHENTICATE, challenge);
        }
        if why.status() == StatusCode::SERVICE_UNAVAILABLE {
            problem = problem.with_header(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        problem
    }

    /// The problem of a request with an ambiguous path.
    pub(crate) fn of_path(why: PathProblem) -> Self {
        Self::bad_request(PathProblem::CODE, why.to_string())
    }

    /// Adds the position within the body.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.0.detail = format!("{place}: {}", self.0.detail);
        self
    }

    pub(crate) fn with_header(
        mut self,
        name: header::HeaderName,
        value: impl Into<HeaderValue>,
    ) -> Self {
        self.0.headers.insert(name, value.into());
        self
    }

    /// Turns a problem into one of the proxy, not of its client: without header fields that a client
    /// would act upon, and without a challenge.
    pub(crate) fn for_a_proxy(mut self) -> Self {
        self.0.headers.clear();
        if self.0.status == StatusCode::TOO_MANY_REQUESTS {
            self.0.status = StatusCode::SERVICE_UNAVAILABLE;
            self.0.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.0.status == StatusCode::UNAUTHORIZED {
            self.0.detail = "the proxy has to show the check token in X-Tollgate-Token".to_owned();
        }
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self
    }

    pub(crate) fn with_problems(mut self, problems: Vec<DocumentProblem>) -> Self {
        self.0.problems = problems;
        self
    }

    pub(crate) fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.0.headers
    }

    pub(crate) fn code(&self) -> &'static str {
        self.0.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status
    }
}

impl Problem {
    fn body(&self) -> ProblemBody<'_> {
        let ProblemContent { status, code, detail, problems, .. } = &*self.0;
        ProblemBody {
            r#type: "about:blank".into(),
            title: status.canonical_reason().unwrap_or("Error").into(),
            status: status.as_u16(),
            code: (*code).into(),
            detail: detail.into(),
            problems: problems.into(),
        }
    }

    /// The problem of one check of a batch, as JSON.
    pub(crate) fn as_item(&self) -> Vec<u8> {
        serde_json::to_vec(&serde_json::json!({"error": self.body()})).unwrap_or_default()
    }
}

/// An extension of responses that are a problem: a check with such a response was not made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IsProblem;

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Text and numbers always serialise.
        let text = serde_json::to_vec(&self.body()).unwrap_or_default();
        let ProblemContent { status, headers, .. } = *self.0;
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(IsProblem);
        response
    }
}
