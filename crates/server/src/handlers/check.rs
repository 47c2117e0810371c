//! `POST /api/v1/rate-limit/check`: judge and charge. The call that has to be fast.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tollgate::http::write_fields;
use tollgate::{Attributes as _, Decision, OnceAnswer, Stopwatch};

use crate::auth::Principal;
use crate::extract::{Caller, JsonBody};
use crate::idempotency::{Remembered, Turn, key_reused};
use crate::journal::DecisionId;
use crate::metrics::Entry;
use crate::openapi::{BodyProblems, CallProblems};
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;
use crate::traces::note_decision;
use crate::wire::answer::CheckAnswer;
use crate::wire::check::{CheckBody, Subject};
use crate::wire::decode::decode;

/// The header by which a repeated call is known.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");
/// Says that an answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("x-idempotency-replayed");
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
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together, or the key was used with another body", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        CallProblems,
    )
)]
pub(crate) async fn check(
    State(app): State<ServerState>,
    Caller(principal): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    answer(&app, &principal, &headers, &body).await
}

/// The same, for whoever has taken the request apart already.
pub(crate) async fn answer(
    app: &ServerState,
    principal: &Principal,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let check: CheckBody<'_> = decode(body)?;
    // What may have to wait is kept on the heap: it is large, and this is moved about.
    if let Some(key) = idempotency_key(headers, &check)? {
        let once = Box::pin(judge_once(app, principal, key, &check, true));
        let (answer, is_replayed) = once.await?;
        let mut response = respond(answer.body, answer.headers);
        if is_replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        return Ok(response);
    }
    let mut headers = HeaderMap::with_capacity(8);
    let judging = Judging::new(app, &check, true)?;
    let (_, answer) = match judging.at_once(&mut headers) {
        Some(answered) => answered,
        None => Box::pin(judging.in_time(&mut headers)).await,
    };
    Ok(respond(answer.into(), headers))
}

/// Judges a check, or finds the answer that the same check with the same key was given.
pub(crate) async fn judge_once(
    app: &ServerState,
    principal: &Principal,
    key: &str,
    check: &CheckBody<'_>,
    detail: bool,
) -> Result<(Remembered, bool), Problem> {
    let turn = app.idempotency.turn(principal, key, check, app.now()).await?;
    if let Some(answer) = turn.answered() {
        return Ok((answer.clone(), true));
    }
    let mut headers = HeaderMap::new();
    let judging = Judging::new(app, check, detail)?;
    let ((is_allowed, body), is_replayed) = match judging.at_once(&mut headers) {
        Some(answered) => (answered, false),
        None => judging.once(&turn, &mut headers).await?,
    };
    let answer = Remembered { body: body.into(), headers };
    if is_allowed {
        turn.remember(answer.clone());
    }
    Ok((answer, is_replayed))
}

/// A check that is being judged.
struct Judging<'a> {
    app: &'a ServerState,
    check: &'a CheckBody<'a>,
    subject: Subject<'a>,
    detail: bool,
    stopwatch: Stopwatch,
}

impl<'a> Judging<'a> {
    fn new(app: &'a ServerState, check: &'a CheckBody<'a>, detail: bool) -> Result<Self, Problem> {
        let subject = check.subject(|| app.limiter.policy())?;
        let detail = check.detail.unwrap_or(detail);
        Ok(Self { app, check, subject, detail, stopwatch: Stopwatch::start() })
    }

    /// Judges with counters in memory, which do not wait: nothing has to be kept for later.
    fn at_once(&self, headers: &mut HeaderMap) -> Option<(bool, Vec<u8>)> {
        let decision = self.app.limiter.answer_at_once(self.subject.of(self.check))?;
        Some(self.answer(&decision, headers))
    }

    /// Judges with counters elsewhere.
    async fn in_time(&self, headers: &mut HeaderMap) -> (bool, Vec<u8>) {
        let decision = self.app.limiter.answer(self.subject.of(self.check));
        self.answer(&decision.await, headers)
    }

    /// The same, unless another node has answered it. Says whether one has.
    async fn once(
        &self,
        turn: &Turn,
        headers: &mut HeaderMap,
    ) -> Result<((bool, Vec<u8>), bool), Problem> {
        // Taken before it is known whether it is needed, so that all nodes give the same.
        let id = self.app.journal.next_id(true);
        let note = id.text();
        let once = turn.once(&note);
        let answer = self.app.limiter.answer_once(self.subject.of(self.check), &once);
        match Box::pin(answer).await {
            OnceAnswer::First(decision) => {
                Ok((self.answer_as(Name::Taken(id), &decision, headers), false))
            }
            OnceAnswer::Again { decision, note } => {
                // Redis holds what any of its clients wrote: only an id is repeated as one.
                let name = Name::Given(note.parse().ok());
                Ok((self.answer_as(name, &decision, headers), true))
            }
            OnceAnswer::Conflict => Err(key_reused()),
        }
    }

    /// Whether it was allowed, and the answer.
    fn answer(&self, decision: &Decision, headers: &mut HeaderMap) -> (bool, Vec<u8>) {
        self.answer_as(Name::New, decision, headers)
    }

    fn answer_as(
        &self,
        name: Name,
        decision: &Decision,
        headers: &mut HeaderMap,
    ) -> (bool, Vec<u8>) {
        self.app.metrics.checks.observe(self.stopwatch.elapsed());
        write_fields(decision, self.app.families, headers);
        let mut answer = Vec::with_capacity(256);
        record_as(self.app, name, (Some(self.check), decision), self.detail, &mut answer);
        (decision.is_allowed(), answer)
    }
}

/// What a decision is called.
#[derive(Clone, Copy, Debug)]
enum Name {
    /// Whatever comes next.
    New,
    /// That, if it is allowed.
    Taken(DecisionId),
    /// The id from the node that made it; none if what the store holds is no id.
    Given(Option<DecisionId>),
}

/// Writes the answer to a decision and enters it into the journal, unless it was only a look: those
/// have nothing to give back, and would push out others. The check is missing if it is not to be logged.
pub(crate) fn record(
    app: &ServerState,
    judged: (Option<&CheckBody<'_>>, &Decision),
    detail: bool,
    answer: &mut Vec<u8>,
) {
    record_as(app, Name::New, judged, detail, answer);
}

fn record_as(
    app: &ServerState,
    name: Name,
    (check, decision): (Option<&CheckBody<'_>>, &Decision),
    detail: bool,
    answer: &mut Vec<u8>,
) {
    let is_replay = matches!(name, Name::Given(_));
    if check.is_some_and(|check| check.cost() > 0) && !is_replay {
        app.metrics.requests.count_decision(Entry::Http, decision);
    }
    let mut write = |text: Option<&str>| {
        note_decision(decision, text);
        CheckAnswer::new(decision, text, detail).write(answer);
    };
    if decision.is_allowed() && decision.charged() == 0 && decision.would_refuse().is_none() {
        return write(None);
    }
    let id = match name {
        Name::Given(id) => return write(id.map(DecisionId::text).as_deref()),
        Name::Taken(id) if decision.is_allowed() => id,
        Name::Taken(_) | Name::New => app.journal.next_id(decision.is_allowed()),
    };
    let text = id.text();
    write(Some(&text));
    app.journal.record(id, decision);
    if let Some(check) = check {
        app.audit_trail.note(decision, text, || check.about());
    }
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
    match (headers.get(&IDEMPOTENCY_KEY), check.idempotency_key.as_deref()) {
        (None, key) => Ok(key),
        (Some(_), Some(_)) => refuse("X-Idempotency-Key and idempotency_key: give one of them"),
        (Some(key), None) => match key.to_str() {
            Ok(key) => Ok(Some(key)),
            Err(_) => refuse("X-Idempotency-Key is not visible ASCII"),
        },
    }
}
