//! The check API over HTTP.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use rustls::ClientConfig;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::builder::BuildError;
use super::check::Check;
use super::connection::{Pool, connector, pool, reason};
use super::error::{Error, RefusalKind};
use super::transport::{Call, Verdicts};
use super::verdict::{Reason, Source, State, Verdict};

/// No answer is larger: a batch of ten thousand fits.
const LARGEST_ANSWER: usize = 8 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("tollgate-client/", env!("CARGO_PKG_VERSION")));

/// Asks a server over HTTP.
#[derive(Debug)]
pub(super) struct Http {
    server: String,
    authorization: Option<HeaderValue>,
    check: Uri,
    batch: Uri,
    peek: Uri,
    refund: Uri,
    pool: Pool<Full<Bytes>>,
}

/// A check as it is sent: the same alone and in a batch, or its idempotency key would be said to be
/// used for something else.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(flatten)]
    check: &'a Check,
    /// What each rule says is not asked for: a verdict does not hold it.
    detail: bool,
}

#[derive(Serialize)]
struct Batch<'a> {
    checks: Vec<Body<'a>>,
}

#[derive(Serialize)]
struct Refund<'a> {
    decision_id: &'a str,
}

impl<'a> Body<'a> {
    const fn new(check: &'a Check) -> Self {
        Self { check, detail: false }
    }
}

#[derive(Deserialize)]
struct Answer {
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_at: Option<u64>,
    rule_id: Option<String>,
    state: String,
    decision_id: Option<String>,
    retry_after: Option<u64>,
    reason: Option<String>,
    delay_ms: Option<u64>,
    degraded: Option<String>,
}

#[derive(Deserialize)]
struct Answers {
    results: Vec<BatchAnswer>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BatchAnswer {
    Failed { error: Problem },
    Judged(Answer),
}

#[derive(Deserialize)]
struct Problem {
    status: u16,
    code: String,
    detail: String,
}

#[derive(Deserialize)]
struct Changed {
    counters: u64,
}

impl Http {
    pub(super) fn new(
        address: &Address,
        authorization: Option<HeaderValue>,
        settings: ClientConfig,
    ) -> Result<Self, BuildError> {
        Ok(Self {
            server: address.to_string(),
            authorization,
            check: address.join("/api/v1/rate-limit/check")?,
            batch: address.join("/api/v1/rate-limit/check/batch")?,
            peek: address.join("/api/v1/rate-limit/peek")?,
            refund: address.join("/api/v1/rate-limit/refund")?,
            pool: pool().build(connector(settings, false)),
        })
    }

    pub(super) fn check(self: Arc<Self>, check: &Check) -> Call<Verdict> {
        let request = self.request(&self.check, &Body::new(check));
        Box::pin(async move { Ok(self.ask::<Answer>(request).await?.into()) })
    }

    pub(super) fn peek(self: Arc<Self>, check: &Check) -> Call<Verdict> {
        let request = self.request(&self.peek, &Body::new(check));
        Box::pin(async move { Ok(self.ask::<Answer>(request).await?.into()) })
    }

    pub(super) fn check_batch(self: Arc<Self>, checks: &[Check]) -> Call<Verdicts> {
        let batch = Batch { checks: checks.iter().map(Body::new).collect() };
        let request = self.request(&self.batch, &batch);
        Box::pin(async move {
            let answers: Answers = self.ask(request).await?;
            let results = answers.results.into_iter().map(|answer| match answer {
                BatchAnswer::Judged(answer) => Ok(answer.into()),
                BatchAnswer::Failed { error } => Err(error.into()),
            });
            Ok(results.collect())
        })
    }

    pub(super) fn refund(self: Arc<Self>, decision_id: &str) -> Call<u64> {
        let request = self.request(&self.refund, &Refund { decision_id });
        Box::pin(async move { Ok(self.ask::<Changed>(request).await?.counters) })
    }

    fn request(&self, uri: &Uri, body: &impl Serialize) -> Request<Full<Bytes>> {
        // Texts and numbers always serialise.
        let body = serde_json::to_vec(body).unwrap_or_default();
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        let fields = request.headers_mut();
        fields.insert(CONTENT_TYPE, JSON);
        fields.insert(ACCEPT, JSON);
        fields.insert(USER_AGENT, AGENT);
        if let Some(authorization) = &self.authorization {
            fields.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request<Full<Bytes>>) -> Result<T, Error> {
        let response = self.pool.request(request).await.map_err(|error| self.lost(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| self.lost(&*error))?.to_bytes();
        if !head.status.is_success() {
            return Err(self.refused(head.status, &body));
        }
        serde_json::from_slice(&body).map_err(|error| self.unreadable(error.to_string()))
    }

    fn lost(&self, error: &(dyn StdError + 'static)) -> Error {
        Error::Unreachable { server: self.server.clone(), reason: reason(error) }
    }

    fn unreadable(&self, reason: String) -> Error {
        Error::Unreadable { server: self.server.clone(), reason }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Error {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => problem.into(),
            // Something in front of the server answered.
            Err(_) => self.unreadable(format!("the status is {status}")),
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let kind = match problem.status {
            401 | 403 => RefusalKind::Unauthorized,
            404 => RefusalKind::Unknown,
            429 => RefusalKind::TooManyCalls,
            408 | 500.. => RefusalKind::Unavailable,
            _ => RefusalKind::Invalid,
        };
        Self::Refused { kind, code: problem.code, detail: problem.detail }
    }
}

impl From<Answer> for Verdict {
    fn from(answer: Answer) -> Self {
        Self {
            allowed: answer.allowed,
            limit: answer.limit,
            remaining: answer.remaining,
            reset_at: answer.reset_at,
            retry_after: answer.retry_after.map(Duration::from_secs),
            rule_id: answer.rule_id,
            state: State::from_word(&answer.state),
            reason: answer.reason.as_deref().map(Reason::from_word),
            delay: answer.delay_ms.map(Duration::from_millis),
            decision_id: answer.decision_id,
            degraded: answer.degraded,
            source: Source::Answered,
        }
    }
}
