//! Calls of the API for a page. The dashboard reads and changes entries through the API, in the same process, as the
//! person who is signed in: permissions, tenants, limits, bounds and the audit log are those of the API.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value as JsonValue;
use tollgate_api::ProblemBody;
use tower::ServiceExt as _;

use super::page_problem::PageProblem;
use super::visit::Visit;
use crate::edge::http::extract::SignedIn;

/// The largest response that a page reads.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// What a segment of a path has as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Parameters of a query.
pub(super) type Query<'a> = &'a [(&'a str, &'a str)];

/// A response of the API that is no problem.
#[derive(Debug)]
pub(super) struct ApiResponse {
    headers: HeaderMap,
    body: Bytes,
}

impl ApiResponse {
    /// Reads the body. The server has written it a moment ago.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, PageProblem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            tracing::error!(%error, "the dashboard cannot read a response of the API");
            PageProblem::internal("the response of the API cannot be read: see the log")
        })
    }

    /// The version of an entry, or the revision of the policy.
    pub(super) fn tag(&self) -> Option<u64> {
        let tag = self.headers.get(header::ETAG)?.to_str().ok()?;
        tag.trim_matches('"').parse().ok()
    }

    /// Where the next page of a list begins: the value of a parameter in the link to it.
    pub(super) fn next(&self, parameter: &str) -> Option<String> {
        let link = self.headers.get(header::LINK)?.to_str().ok()?;
        let query = link.strip_prefix('<')?.split_once('>')?.0.split_once('?')?.1;
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == parameter).map(|(_, value)| value.into_owned())
    }
}

impl Visit {
    /// Calls the API and reads its response.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        query: Query<'_>,
    ) -> Result<T, PageProblem> {
        self.get(path, query).await?.json()
    }

    /// Calls the API.
    pub(super) async fn get(
        &self,
        path: &str,
        query: Query<'_>,
    ) -> Result<ApiResponse, PageProblem> {
        self.call(Method::GET, path, query, &[], None).await
    }

    /// Calls the API with a body.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        body: &JsonValue,
    ) -> Result<ApiResponse, PageProblem> {
        self.call(method, path, query, &[], Some(body.to_string())).await
    }

    /// Removes an entry through the API.
    pub(super) async fn delete(
        &self,
        path: &str,
        query: Query<'_>,
    ) -> Result<ApiResponse, PageProblem> {
        self.call(Method::DELETE, path, query, &[], None).await
    }

    /// Calls the API with header fields.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        query: Query<'_>,
        fields: &[(HeaderName, HeaderValue)],
        body: Option<String>,
    ) -> Result<ApiResponse, PageProblem> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = Request::builder().method(method).uri(format!("{path}{mark}{query}"));
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        for (name, value) in fields {
            request = request.header(name, value);
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from));
        let mut request = request.map_err(|_| PageProblem::internal("the call cannot be made"))?;
        request.extensions_mut().insert(self.peer);
        let (principal, is_refresh) = (self.principal.clone(), self.is_refresh);
        request.extensions_mut().insert(SignedIn { principal, is_refresh });
        let response = match self.ui.api.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, MAX_RESPONSE_BYTES).await;
        let body = body.map_err(|_| PageProblem::internal("the response is too large"))?;
        if parts.status.is_success() {
            return Ok(ApiResponse { headers: parts.headers, body });
        }
        let problem: Option<ProblemBody<'_>> = serde_json::from_slice(&body).ok();
        Err(PageProblem::of_api(parts.status, problem))
    }
}

/// A name as a segment of a path.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

/// The condition that an entry has this version.
pub(super) fn if_match(version: u64) -> (HeaderName, HeaderValue) {
    let tag = HeaderValue::from_str(&format!("\"{version}\""));
    (header::IF_MATCH, tag.unwrap_or(HeaderValue::from_static("\"0\"")))
}

/// The condition that an entry does not exist.
pub(super) fn if_absent() -> (HeaderName, HeaderValue) {
    (header::IF_NONE_MATCH, HeaderValue::from_static("*"))
}
