//! The HTTP API.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full, Limited};
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_api::{
    BatchRequest, BatchResponse, BatchResult, Changed, CheckResponse, DecisionBody, ProblemBody,
    RuleResult,
};

use super::address::ServerAddress;
use super::builder::BuildError;
use super::check::Check;
use super::connection::{HttpPool, connector, pool, unreachable};
use super::decision::{Decision, Source};
use super::error::{Error, RefusalKind};
use super::transport::{Decisions, DetachedCall};

/// A batch of ten thousand checks fits.
const MAX_CHECK_RESPONSE_BYTES: usize = 8 << 20;
/// A hundred thousand rules fit.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("tollgate-client/", env!("CARGO_PKG_VERSION")));

/// A server over HTTP.
#[derive(Debug)]
pub(super) struct Http {
    address: ServerAddress,
    authorization: Option<HeaderValue>,
    check: Uri,
    batch: Uri,
    peek: Uri,
    refund: Uri,
    pool: HttpPool<Full<Bytes>>,
}

impl Http {
    pub(super) fn new(
        address: ServerAddress,
        authorization: Option<HeaderValue>,
        settings: ClientConfig,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            authorization,
            check: address.join("/api/v1/rate-limit/check")?,
            batch: address.join("/api/v1/rate-limit/check/batch")?,
            peek: address.join("/api/v1/rate-limit/peek")?,
            refund: address.join("/api/v1/rate-limit/refund")?,
            pool: pool().build(connector(settings, false)),
            address,
        })
    }

    pub(super) fn check(self: Arc<Self>, check: &Check) -> DetachedCall<Decision> {
        let request = self.request(&self.check, &check.0);
        Box::pin(async move { Ok(self.post::<CheckResponse<'_>>(request).await?.into()) })
    }

    pub(super) fn peek(self: Arc<Self>, check: &Check) -> DetachedCall<Decision> {
        let request = self.request(&self.peek, &check.0);
        Box::pin(async move { Ok(self.post::<CheckResponse<'_>>(request).await?.into()) })
    }

    pub(super) fn check_batch(self: Arc<Self>, checks: &[Check]) -> DetachedCall<Decisions> {
        let batch = BatchRequest { checks: checks.iter().map(|check| check.0.clone()).collect() };
        let request = self.request(&self.batch, &batch);
        Box::pin(async move {
            let response: BatchResponse<'_> = self.post(request).await?;
            let results = response.results.into_iter().map(|result| match result {
                BatchResult::Response(response) => Ok((*response).into()),
                BatchResult::Error { error } => Err(error.into()),
            });
            Ok(results.collect())
        })
    }

    pub(super) fn refund(self: Arc<Self>, decision_id: &str) -> DetachedCall<u64> {
        let body = DecisionBody { decision_id: decision_id.into() };
        let request = self.request(&self.refund, &body);
        Box::pin(async move { Ok(self.post::<Changed>(request).await?.counters as u64) })
    }

    /// Sends any request, whose URI is a path of the API, and returns any response.
    pub(super) fn call(self: Arc<Self>, request: Request<Bytes>) -> DetachedCall<Response<Bytes>> {
        let mut request = request.map(Full::new);
        Box::pin(async move {
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            *request.uri_mut() = self.address.join(path).map_err(|error| Error::Refused {
                kind: RefusalKind::Invalid,
                code: "invalid_path".to_owned(),
                detail: error.to_string(),
            })?;
            self.add_headers(&mut request);
            self.send(request, MAX_RESPONSE_BYTES).await
        })
    }

    fn request(&self, uri: &Uri, body: &impl Serialize) -> Request<Full<Bytes>> {
        // Texts and numbers always serialise.
        let body = serde_json::to_vec(body).unwrap_or_default();
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        self.add_headers(&mut request);
        request
    }

    fn add_headers(&self, request: &mut Request<Full<Bytes>>) {
        let has_body = !request.body().is_end_stream();
        let headers = request.headers_mut();
        if has_body {
            headers.insert(CONTENT_TYPE, JSON);
        }
        headers.insert(ACCEPT, JSON);
        headers.entry(USER_AGENT).or_insert(AGENT);
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
    }

    async fn post<T: DeserializeOwned>(&self, request: Request<Full<Bytes>>) -> Result<T, Error> {
        let response = self.send(request, MAX_CHECK_RESPONSE_BYTES).await?;
        if !response.status().is_success() {
            return Err(self.refused(response.status(), response.body()));
        }
        serde_json::from_slice(response.body()).map_err(|error| self.unreadable(error.to_string()))
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, Error> {
        let server = self.address.as_str();
        let response = self.pool.request(request).await;
        let response = response.map_err(|error| unreachable(server, &error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max_bytes).collect().await;
        let body = body.map_err(|error| unreachable(server, &*error))?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable { server: self.address.to_string(), reason }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        match serde_json::from_slice::<ProblemBody<'_>>(body) {
            Ok(problem) => problem.into(),
            // The response of a proxy in front of the server.
            Err(_) => self.unreadable(format!("the status is {status}")),
        }
    }
}

impl From<ProblemBody<'_>> for Error {
    fn from(problem: ProblemBody<'_>) -> Self {
        let kind = match problem.status {
            401 | 403 => RefusalKind::Unauthorized,
            404 => RefusalKind::Unknown,
            429 => RefusalKind::TooManyCalls,
            408 | 500.. => RefusalKind::Unavailable,
            _ => RefusalKind::Invalid,
        };
        let (code, detail) = (problem.code.into_owned(), problem.detail.into_owned());
        Self::Refused { kind, code, detail }
    }
}

impl From<CheckResponse<'_>> for Decision {
    fn from(response: CheckResponse<'_>) -> Self {
        Self {
            allowed: response.allowed,
            limit: response.limit,
            remaining: response.remaining,
            reset_at: response.reset_at,
            retry_after: response.retry_after.flatten().map(Duration::from_secs),
            rule_id: response.rule_id.map(Cow::into_owned),
            state: response.state,
            reason: response.reason,
            delay: response.delay_ms.map(Duration::from_millis),
            decision_id: response.decision_id.map(Cow::into_owned),
            degraded: response.degraded,
            rules: response.rules.into_iter().flatten().map(RuleResult::into_owned).collect(),
            source: Source::Server,
        }
    }
}
