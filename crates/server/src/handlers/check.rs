//! `POST /api/v1/rate-limit/check`: judge and charge. The call that has to be fast.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use tollgate::http::write_fields;
use tollgate::{Attributes, Decision, Stopwatch};

use crate::auth::Principal;
use crate::extract::{Caller, JsonBody};
use crate::idempotency::Remembered;
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;
use crate::wire::answer::CheckAnswer;
use crate::wire::check::{CheckBody, Subject, unknown_rule};
use crate::wire::decode::decode;

/// The header by which a repeated call is known.
pub(crate) const IDEMPOTENCY_KEY: &str = "x-idempotency-key";
/// Says that an answer was given before.
const REPLAYED: http::HeaderName = http::HeaderName::from_static("x-idempotency-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Judges a request and charges it to every rule that applies, or to none.
///
/// Always 200 when judged: `allowed` says whether the request may pass.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/check", tag = "check", security((), ("token" = [])), request_body = CheckBody<'_>,
    params(("x-idempotency-key" = Option<String>, Header, min_length = 1, max_length = 255,
        description = "Repeated within five minutes with the same body, the call gets the same answer and is charged once.")),
    responses(
        (status = 200, description = "Judged", body = CheckAnswer<'_>),
        (status = 400, description = "The body cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 401, description = "A token is needed", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 408, description = "The body did not arrive in time", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 415, description = "The body is not JSON", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together, or the key was used with another body", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 429, description = "This server is called too often", body = ProblemBody<'_>, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn check(
    State(app): State<ServerState>,
    Caller(principal): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    answer(&app, principal, &headers, &body).await
}

/// The same, for whoever has taken the request apart already.
pub(crate) async fn answer(
    app: &ServerState,
    principal: Principal,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let check: CheckBody<'_> = decode(body)?;
    match idempotency_key(headers, &check)? {
        None => {
            let mut headers = HeaderMap::with_capacity(8);
            let answer = judge(app, &check, true, &mut headers).await?.1;
            Ok(respond(answer.into(), headers))
        }
        Some(key) => {
            let (answer, is_replayed) = judge_once(app, principal, key, &check, true).await?;
            let mut response = respond(answer.body, answer.headers);
            if is_replayed {
                response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            }
            Ok(response)
        }
    }
}

/// Judges a check, or finds the answer that the same check with the same key was given.
pub(crate) async fn judge_once(
    app: &ServerState,
    principal: Principal,
    key: &str,
    check: &CheckBody<'_>,
    detail: bool,
) -> Result<(Remembered, bool), Problem> {
    let turn = app.idempotency.turn(principal, key, check, app.now()).await?;
    if let Some(answer) = turn.answered() {
        return Ok((answer.clone(), true));
    }
    let mut headers = HeaderMap::new();
    let (is_allowed, body) = judge(app, check, detail, &mut headers).await?;
    let answer = Remembered { body: body.into(), headers };
    if is_allowed {
        turn.remember(answer.clone());
    }
    Ok((answer, false))
}

/// Judges a check and writes its answer; says whether it was allowed.
async fn judge(
    app: &ServerState,
    check: &CheckBody<'_>,
    detail: bool,
    headers: &mut HeaderMap,
) -> Result<(bool, Vec<u8>), Problem> {
    let subject = check.subject(|| app.limiter.policy())?;
    let stopwatch = Stopwatch::start();
    let decision = decide(app, subject, check).await?;
    app.metrics.checks.observe(stopwatch.elapsed());
    write_fields(&decision, app.families, headers);
    Ok((decision.is_allowed(), record(app, decision, check.detail.unwrap_or(detail))))
}

/// Asks the limiter.
pub(crate) async fn decide(
    app: &ServerState,
    subject: Subject<'_>,
    request: &(dyn Attributes + Sync),
) -> Result<Decision, Problem> {
    match subject {
        Subject::Request => Ok(app.limiter.check(request).await),
        Subject::Rule(rule_id) => match app.limiter.check_rule(rule_id, request) {
            Some(judged) => Ok(judged.await),
            None => Err(unknown_rule(rule_id)),
        },
    }
}

/// Writes the answer to a decision and enters it into the journal, unless it was only a look: those
/// have nothing to give back, and would push out others.
pub(crate) fn record(app: &ServerState, decision: Decision, detail: bool) -> Vec<u8> {
    let mut answer = Vec::with_capacity(256);
    if decision.is_allowed() && decision.charged() == 0 {
        CheckAnswer::new(&decision, None, detail).write(&mut answer);
        return answer;
    }
    let id = app.journal.next_id(decision.is_allowed());
    CheckAnswer::new(&decision, Some(&id.to_string()), detail).write(&mut answer);
    app.journal.record(id, decision);
    answer
}

fn respond(body: Bytes, headers: HeaderMap) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// The key of a single check: in its header, or in the body as in a batch, but not in both.
fn idempotency_key<'a>(
    headers: &'a HeaderMap,
    check: &'a CheckBody<'_>,
) -> Result<Option<&'a str>, Problem> {
    let refuse = |detail: &str| Err(Problem::bad_request("invalid_idempotency_key", detail));
    match (headers.get(IDEMPOTENCY_KEY), check.idempotency_key.as_deref()) {
        (None, key) => Ok(key),
        (Some(_), Some(_)) => refuse("X-Idempotency-Key and idempotency_key: give one of them"),
        (Some(key), None) => match key.to_str() {
            Ok(key) => Ok(Some(key)),
            Err(_) => refuse("X-Idempotency-Key is not visible ASCII"),
        },
    }
}
