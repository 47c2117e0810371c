//! `POST /api/v1/rate-limit/check/batch`: many independent checks in one call.

use std::fmt;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tollgate::Decision;
use tollgate_api::{BatchRequest, BatchResponse, Object};

use super::check::{IDEMPOTENCY_KEY, check_idempotent};
use crate::admin::auth::Principal;
use crate::app::state::ServerState;
use crate::check::decision_id::IdText;
use crate::edge::http::extract::{CheckCaller, JsonBody};
use crate::edge::http::openapi::CallProblems;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::check::{CheckBody, CheckSubject};
use crate::edge::http::wire::decode::decode;
use crate::edge::http::wire::plain::read_batch;
use crate::edge::http::wire::response::{response, write};
use crate::observe::metrics::{EntryPoint, RequestOutcome};

/// A [`BatchRequest`] as the limiter sees it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow, deserialize_with = "read_checks")]
    checks: Vec<CheckBody<'a>>,
}

/// Reads checks, each of which has to be an object.
fn read_checks<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<CheckBody<'de>>, D::Error> {
    struct Checks;

    impl<'de> Visitor<'de> for Checks {
        type Value = Vec<CheckBody<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of checks")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut checks = Vec::new();
            while let Some(Object(check)) = list.next_element()? {
                checks.push(check);
            }
            Ok(checks)
        }
    }

    deserializer.deserialize_seq(Checks)
}

/// Makes up to 1,000 checks, each independently, in order.
///
/// A check whose fields do not belong together fails the whole call, before anything is charged. A check
/// that fails later (its idempotency key was used with another body, its rule was removed) has the
/// result `{"error": {...}}` in its place.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/check/batch", tag = "check", security((), ("token" = [])), request_body = BatchRequest<'_>,
    responses(
        (status = 200, description = "Checked", body = BatchResponse<'_>),
        (status = 400, description = "The body cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large, or holds too many checks", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 415, description = "The body is not JSON", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields of a check do not belong together, or there is none", body = ProblemBody<'_>, content_type = "application/problem+json"),
        CallProblems,
    )
)]
pub(crate) async fn check_batch(
    State(app): State<ServerState>,
    CheckCaller(principal): CheckCaller,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "in a batch each check has its own key: idempotency_key";
        return Err(Problem::bad_request("invalid_idempotency_key", detail));
    }
    let state = app.clone();
    app.finish(async move { respond(&state, &principal, &body).await }).await
}

async fn respond(
    app: &ServerState,
    principal: &Principal,
    body: &Bytes,
) -> Result<Response, Problem> {
    let checks = match read_batch(body) {
        Some(checks) => checks,
        None => decode::<BatchBody<'_>>(body)?.checks,
    };
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
        let subject =
            check.subject(|| &policy).map_err(|problem| problem.at(&format!("checks[{place}]")))?;
        subjects.push(subject);
    }
    let answer = check_all(app, principal, &checks, &subjects).await;
    let mut response = answer.into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Makes runs of plain checks together, and those with an idempotency key one by one.
async fn check_all(
    app: &ServerState,
    principal: &Principal,
    checks: &[CheckBody<'_>],
    subjects: &[CheckSubject<'_>],
) -> Vec<u8> {
    let mut answer = Vec::with_capacity(16 + checks.len() * 160);
    answer.extend_from_slice(b"{\"results\":[");
    let mut place = 0;
    while let Some(check) = checks.get(place) {
        if let Some(key) = &check.idempotency_key {
            separate(&mut answer);
            // On the heap: it is large and rare, and the future of every batch would have to hold it.
            let checked = Box::pin(check_idempotent(app, principal, key, check, false)).await;
            match checked {
                Ok((one, _)) => answer.extend_from_slice(&one.body),
                Err(problem) => {
                    app.metrics.requests.count(EntryPoint::Http, RequestOutcome::Error);
                    answer.extend_from_slice(&problem.as_item());
                }
            }
            place += 1;
            continue;
        }
        let run = checks[place..].iter().take_while(|check| check.idempotency_key.is_none());
        let end = place + run.count();
        let run = &checks[place..end];
        let respond = |number: usize, decision: &Decision, id: Option<&IdText>| {
            separate(&mut answer);
            let detail = run.get(number).and_then(|check| check.detail).unwrap_or(false);
            let id = id.map(IdText::as_bytes);
            write(&response(decision, None, detail), id, &mut answer);
        };
        app.checker.check_batch(EntryPoint::Http, run, &subjects[place..end], respond).await;
        place = end;
    }
    answer.extend_from_slice(b"]}");
    answer
}

fn separate(answer: &mut Vec<u8>) {
    if answer.last() != Some(&b'[') {
        answer.push(b',');
    }
}
