//! `POST /api/v1/rate-limit/check/batch`: many checks in one call, each judged on its own.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use tollgate::{Attributes, Stopwatch};
use utoipa::ToSchema;

use super::check::{IDEMPOTENCY_KEY, decide, judge_once, record};
use crate::auth::Principal;
use crate::extract::{Caller, JsonBody};
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;
use crate::wire::answer::CheckAnswer;
use crate::wire::check::{CheckBody, Subject};
use crate::wire::decode::{Object, decode};

/// Checks to be answered in order.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody<'a> {
    /// Up to 1,000, unless the server is set otherwise.
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<CheckBody<'static>>)]
    checks: Vec<Object<CheckBody<'a>>>,
}

/// The answers, in the order of the checks.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written piece by piece")]
pub(crate) struct BatchAnswer<'a> {
    /// One for each check.
    results: Vec<BatchItem<'a>>,
}

/// The answer to one check of a batch.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what is written piece by piece")]
pub(crate) enum BatchItem<'a> {
    /// Judged.
    Answer(Box<CheckAnswer<'a>>),
    /// Not judged, and not charged.
    Error {
        /// Why.
        error: ProblemBody<'a>,
    },
}

/// Judges up to 1,000 checks, each on its own, in order.
///
/// A check whose fields make no sense fails the whole call, before anything is charged. One that turns
/// out later to be impossible (its idempotency key was used with another body, its rule is gone) is
/// answered by `{"error": {...}}` in its place.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/check/batch", tag = "check", security((), ("token" = [])), request_body = BatchBody<'_>,
    responses(
        (status = 200, description = "Judged", body = BatchAnswer<'_>),
        (status = 400, description = "The body cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large, or holds too many checks", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 415, description = "The body is not JSON", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields of a check do not belong together, or there is none", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 429, description = "This server is called too often", body = ProblemBody<'_>, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn check_batch(
    State(app): State<ServerState>,
    Caller(principal): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "in a batch each check has a key of its own: idempotency_key";
        return Err(Problem::bad_request("invalid_idempotency_key", detail));
    }
    let BatchBody { checks } = decode(&body)?;
    let checks: Vec<CheckBody<'_>> = checks.into_iter().map(|Object(check)| check).collect();
    let most = app.batch_size;
    let detail =
        || format!("checks: a batch has 1 to {most} checks, this one has {}", checks.len());
    if checks.is_empty() {
        return Err(Problem::unprocessable("batch_size", detail()));
    }
    if checks.len() > most {
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "batch_size", detail()));
    }
    let policy = app.limiter.policy();
    let mut subjects = Vec::with_capacity(checks.len());
    for (place, check) in checks.iter().enumerate() {
        let subject = check
            .subject(|| policy.clone())
            .map_err(|problem| problem.at(&format!("checks[{place}]")))?;
        subjects.push(subject);
    }
    let answer = judge_all(&app, principal, &checks, &subjects).await;
    let mut response = answer.into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Judges runs of plain checks together, and the others one by one.
async fn judge_all(
    app: &ServerState,
    principal: Principal,
    checks: &[CheckBody<'_>],
    subjects: &[Subject<'_>],
) -> Vec<u8> {
    let mut answer = Vec::with_capacity(16 + checks.len() * 160);
    answer.extend_from_slice(b"{\"results\":[");
    let mut place = 0;
    while place < checks.len() {
        let is_plain = |place: &usize| {
            checks[*place].idempotency_key.is_none() && subjects[*place] == Subject::Request
        };
        let end = (place..checks.len()).find(|place| !is_plain(place)).unwrap_or(checks.len());
        if end > place {
            let stopwatch = Stopwatch::start();
            let judged = {
                let requests: Vec<&dyn Attributes> =
                    checks[place..end].iter().map(|check| check as &dyn Attributes).collect();
                app.limiter.check_batch(&requests)
            };
            let decisions = judged.await;
            app.metrics.checks.observe(stopwatch.elapsed());
            for (decision, check) in decisions.into_iter().zip(&checks[place..end]) {
                let one = record(app, decision, check.detail.unwrap_or(false));
                append(&mut answer, &one);
            }
            place = end;
            continue;
        }
        let check = &checks[place];
        match &check.idempotency_key {
            Some(key) => match judge_once(app, principal, key, check, false).await {
                Ok((one, _)) => append(&mut answer, &one.body),
                Err(problem) => append(&mut answer, &problem.as_item()),
            },
            None => match decide(app, subjects[place], check).await {
                Ok(decision) => {
                    append(&mut answer, &record(app, decision, check.detail.unwrap_or(false)));
                }
                Err(problem) => append(&mut answer, &problem.as_item()),
            },
        }
        place += 1;
    }
    answer.extend_from_slice(b"]}");
    answer
}

fn append(answer: &mut Vec<u8>, one: &[u8]) {
    if answer.last() != Some(&b'[') {
        answer.push(b',');
    }
    answer.extend_from_slice(one);
}
