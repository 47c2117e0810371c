//! `POST /api/v1/rate-limit/check`: check and charge. The call that has to be fast.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tollgate::http::{HeaderFamilies, for_each_field, write_fields};
use tollgate::{Decision, Promise};
use tollgate_api::{CheckRequest, CheckResponse};

use crate::admin::auth::Principal;
use crate::app::state::{ServerState, SharedStore};
use crate::check::checker::Recording;
use crate::check::decision_id::IdText;
use crate::check::idempotency::Remembered;
use crate::edge::envoy::or_of_file;
use crate::edge::http::extract::{CheckCaller, JsonBody};
use crate::edge::http::openapi::{BodyProblems, CallProblems};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::check::CheckBody;
use crate::edge::http::wire::decode::decode;
use crate::edge::http::wire::plain::read_check;
use crate::edge::http::wire::plain_call::{begin_response, finish_response, write_field};
use crate::edge::http::wire::response;
use crate::observe::metrics::EntryPoint;

/// The idempotency key of a call.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");
/// Marks a response that is replayed.
const REPLAYED: HeaderName = HeaderName::from_static("x-idempotency-replayed");
/// Enough for the body of a response without details.
const BODY_CAPACITY: usize = 256;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Checks a request and charges it to every rule that applies, or to none.
///
/// Always 200 when checked: `allowed` says whether the request may pass.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/check", tag = "check", security((), ("token" = [])), request_body = CheckRequest<'_>,
    params(("x-idempotency-key" = Option<String>, Header, min_length = 1, max_length = 255,
        description = "A call repeated within five minutes with the same key and body gets the same response and is charged once.")),
    responses(
        (status = 200, description = "Checked", body = CheckResponse<'_>),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together, or the key was used with another body", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        CallProblems,
    )
)]
pub(crate) async fn check(
    State(app): State<ServerState>,
    CheckCaller(principal): CheckCaller,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let (state, key) = (app.clone(), headers.get(IDEMPOTENCY_KEY).cloned());
    app.finish(async move { respond(&state, &principal, key.as_ref(), &body).await }).await
}

/// Checks what the body of a call describes; `key` is the field of its idempotency key. With counters in memory, the
/// response is ready unless there is such a key: the future of a call is moved several times, and does not have to hold
/// what a check needs.
pub(crate) fn respond<'a>(
    app: &'a ServerState,
    principal: &'a Principal,
    key: Option<&HeaderValue>,
    body: &'a Bytes,
) -> Promise<'a, Result<Response, Problem>, SharedStore> {
    let check = match read_check(body).map_or_else(|| decode(body), Ok) {
        Ok(check) => check,
        Err(problem) => return Promise::Ready(Err(problem)),
    };
    match idempotency_key(key, &check).map(|key| key.map(str::to_owned)) {
        Ok(None) => Promise::run(app.limiter.store(), charge(app, check)),
        Ok(Some(key)) => Promise::pending(replay_or_charge(app, principal, key, check)),
        Err(problem) => Promise::Ready(Err(problem)),
    }
}

/// Checks what the body of a plain call describes, and writes the response. `false`: nothing was charged or written, and
/// the call goes its usual way, as it does if it has an idempotency key, or there is anything wrong with it.
pub(crate) fn respond_plainly(app: &ServerState, body: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(check) = read_check(body).filter(|check| check.idempotency_key.is_none()) else {
        return false;
    };
    let Ok(subject) = check.subject(|| app.limiter.policy()) else { return false };
    // Last, since a call that goes its usual way is counted there.
    if app.guard.check_call().is_err() {
        return false;
    }
    let checked = app.checker.check(
        subject.of(&check),
        Recording::of(EntryPoint::Http, &check),
        |_| Some(check.context()),
        |decision, id| {
            let mut body = Vec::with_capacity(BODY_CAPACITY);
            let detail = check.detail.unwrap_or(true);
            let id = id.map(IdText::as_bytes);
            response::write(&response::response(decision, None, detail), id, &mut body);
            begin_response(out);
            for_each_field(decision, app.families, |name, value| {
                write_field(out, name.as_str(), value);
            });
            finish_response(out, decision.now(), &body);
        },
    );
    matches!(checked, Promise::Ready(()))
}

async fn charge(app: &ServerState, check: CheckBody<'_>) -> Result<Response, Problem> {
    let subject = check.subject(|| app.limiter.policy());
    let subject = subject.map_err(|problem| or_of_file(app, check.rule_id.as_deref(), problem))?;
    let detail = check.detail.unwrap_or(true);
    let checked = app.checker.check(
        subject.of(&check),
        Recording::of(EntryPoint::Http, &check),
        |_| Some(check.context()),
        |decision, id| {
            let Remembered { body, headers } = write(app.families, decision, id, detail);
            response_of(body, headers)
        },
    );
    Ok(checked.await)
}

async fn replay_or_charge(
    app: &ServerState,
    principal: &Principal,
    key: String,
    check: CheckBody<'_>,
) -> Result<Response, Problem> {
    let (Remembered { body, headers }, is_copy) =
        check_idempotent(app, principal, &key, &check, true).await?;
    let mut response = response_of(body, headers);
    if is_copy {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Checks a request with an idempotency key, or replays the response that it got before. Returns whether
/// it is a replay.
pub(crate) async fn check_idempotent(
    app: &ServerState,
    principal: &Principal,
    key: &str,
    check: &CheckBody<'_>,
    detail: bool,
) -> Result<(Remembered, bool), Problem> {
    let detail = check.detail.unwrap_or(detail);
    let respond =
        |decision: &Decision, id: Option<&IdText>| write(app.families, decision, id, detail);
    app.checker.check_idempotent(EntryPoint::Http, (principal, "", key), check, respond).await
}

fn write(
    families: HeaderFamilies,
    decision: &Decision,
    id: Option<&IdText>,
    detail: bool,
) -> Remembered {
    let mut headers = HeaderMap::with_capacity(8);
    write_fields(decision, families, &mut headers);
    let mut body = Vec::with_capacity(BODY_CAPACITY);
    let id = id.map(IdText::as_bytes);
    response::write(&response::response(decision, None, detail), id, &mut body);
    Remembered { body: body.into(), headers }
}

fn response_of(body: Bytes, headers: HeaderMap) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.headers_mut() = headers;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// The key of a single check: in its header, or in the body as in a batch, but not in both.
fn idempotency_key<'a>(
    field: Option<&'a HeaderValue>,
    check: &'a CheckBody<'_>,
) -> Result<Option<&'a str>, Problem> {
    let refuse = |detail: &str| Err(Problem::bad_request("invalid_idempotency_key", detail));
    match (field, check.idempotency_key.as_deref()) {
        (None, key) => Ok(key),
        (Some(_), Some(_)) => refuse("X-Idempotency-Key and idempotency_key: give one of them"),
        (Some(key), None) => match key.to_str() {
            Ok(key) => Ok(Some(key)),
            Err(_) => refuse("X-Idempotency-Key is not visible ASCII"),
        },
    }
}
