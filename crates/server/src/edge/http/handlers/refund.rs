//! `refund` and `reset`: how operators correct what should not have been counted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use serde::de::IgnoredAny;
use tollgate::{Attributes as _, Decision, Peek, RuleOutcome};
use tollgate_api::{Changed, CheckRequest, DecisionBody};
use tollgate_catalog::Author;
use utoipa::ToSchema;

use super::check::IDEMPOTENCY_KEY;
use super::envoy_json::EnvoyRequest;
use crate::admin::refusal;
use crate::app::state::ServerState;
use crate::check::refund::{is_maybe_done, refund_decision, store_away};
use crate::edge::envoy;
use crate::edge::http::extract::{JsonBody, Operator};
use crate::edge::http::openapi::{AdminProblems, BodyProblems};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::check::CheckBody;
use crate::edge::http::wire::decode::decode;
use crate::observe::audit_log::resets::{CounterChange, note, records_of};
use crate::policy::bans;

/// What to refund: a decision, or the cost of a check.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what is decoded in two steps, for better messages")]
pub(crate) enum RefundBody<'a> {
    /// Refunds what that decision charged, once.
    Decision(DecisionBody<'a>),
    /// Refunds the cost of such a check, without knowing when it was charged.
    Check(Box<CheckRequest<'a>>),
}

/// What to reset: the counters of a check, or of a request of Envoy.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what is decoded in two steps, for better messages")]
pub(crate) enum ResetBody<'a> {
    /// Resets the counters of such a check.
    Check(Box<CheckRequest<'a>>),
    /// Resets the counters of such a request of Envoy, by the limits of files of envoyproxy/ratelimit.
    Envoy(EnvoyRequest<'a>),
}

/// Refunds what was charged.
///
/// With a `decision_id`: exactly what that decision charged, and only once. With a check: what such a
/// check costs, to the newest window of every rule that applies.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/refund", tag = "operate", request_body = RefundBody<'_>,
    security(("token" = [])),
    responses(
        (status = 200, description = "Refunded", body = Changed),
        (status = 404, description = "No such decision or rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 409, description = "Refunded already, nothing was charged, or its windows have ended", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together, or the decision id was changed", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 503, description = "The store is unavailable", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        AdminProblems,
    )
)]
pub(crate) async fn refund(
    State(app): State<ServerState>,
    Operator(session): Operator,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<(HeaderMap, Json<Changed>), Problem> {
    if headers.contains_key(IDEMPOTENCY_KEY) {
        let detail = "a refund by decision_id happens once anyway; other refunds know no such key";
        return Err(Problem::bad_request("invalid_idempotency_key", detail));
    }
    let author = session.author();
    let refunding = async move {
        if fields_of(&body).is_some_and(|fields| fields.contains_key("decision_id")) {
            let DecisionBody { decision_id } = decode(&body)?;
            return refund_decision(&app, &author, &decision_id).await;
        }
        refund_check(&app, &author, &read_check(&body)?).await
    };
    let counters = to_the_end(refunding).await?;
    Ok((session.fields, Json(Changed { counters })))
}

/// Resets the counters of a request, under every rule that applies or under one rule, and lifts its bans
/// by these rules. A body as of `POST /json` resets the counters of limits in files of envoyproxy/ratelimit.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/reset", tag = "operate", request_body = ResetBody<'_>,
    security(("token" = [])),
    responses(
        (status = 200, description = "Reset", body = Changed),
        (status = 404, description = "No such rule, or no such domain in a file", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 503, description = "The store is unavailable", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        AdminProblems,
    )
)]
pub(crate) async fn reset(
    State(app): State<ServerState>,
    Operator(session): Operator,
    JsonBody(body): JsonBody,
) -> Result<(HeaderMap, Json<Changed>), Problem> {
    let author = session.author();
    let resetting = async move {
        if names(&body, "descriptors") {
            let request: EnvoyRequest<'_> = decode(&body)?;
            return envoy::reset(&app, &author, &request.ask()).await;
        }
        reset_counters(&app, author, &decode(&body)?).await
    };
    let counters = to_the_end(resetting).await?;
    Ok((session.fields, Json(Changed { counters })))
}

/// Completes the work even if the caller disconnects meanwhile, so that every reset is recorded, and a refund is made
/// once, not lost.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let lost = |_| Err(Problem::internal("it is not known what was done: see the log"));
    tokio::spawn(work).await.unwrap_or_else(lost)
}

/// Refunds what a check costs; returns to how many counters.
pub(crate) async fn refund_check(
    app: &ServerState,
    author: &Author,
    check: &CheckBody<'_>,
) -> Result<usize, Problem> {
    let subject = check.subject(|| app.limiter.policy())?;
    let peek = || app.limiter.check(subject.of(&Peek(check)));
    let before = peek().await;
    let refunded = app.limiter.credit(subject.of(check)).await;
    if is_maybe_done(&refunded) {
        let after = peek().await;
        let units = Some(check.cost());
        note(
            app,
            CounterChange::Refund,
            records_of(author, &check.context(), units, &before, &after),
        );
    }
    refunded.map_err(store_away)
}

/// Resets the counters of a check, and lifts its bans; returns how many counters there were.
pub(crate) async fn reset_counters(
    app: &ServerState,
    author: Author,
    check: &CheckBody<'_>,
) -> Result<usize, Problem> {
    let subject = check.subject(|| app.limiter.policy())?;
    let bans = app.limiter.bans_of(subject.of(check));
    let clients = bans.into_iter().map(|ban| (ban.rule_id, ban.subject)).collect();
    bans::lift(app, author.clone(), clients).await.map_err(|error| refusal(&error))?;
    let peek = || app.limiter.check(subject.of(&Peek(check)));
    let before = peek().await;
    let reset = app.limiter.reset(subject.of(check)).await;
    if is_maybe_done(&reset) {
        let after = peek().await;
        note(
            app,
            CounterChange::Reset,
            records_of(&author, &check.context(), None, &before, &after),
        );
    }
    reset.map_err(store_away)?;
    Ok(used_counters(&before))
}

/// How many counters a peek found in use. Any other is as good as absent.
pub(crate) fn used_counters(peek: &Decision) -> usize {
    let is_used = |outcome: &RuleOutcome<'_>| outcome.outcome.report.next_after.is_some();
    peek.outcomes().filter(is_used).count()
}

/// The check whose cost is to be refunded. A body without it may have been meant to name a decision.
fn read_check(body: &[u8]) -> Result<CheckBody<'_>, Problem> {
    match fields_of(body) {
        None => decode(body),
        Some(fields) if fields.is_empty() => {
            let detail = "missing field `decision_id`, or the check whose cost is to be refunded";
            Err(Problem::bad_request("invalid_body", detail))
        }
        Some(_) => decode(body).map_err(|problem: Problem| {
            let detail = format!("{}; or `decision_id` alone", problem.detail());
            Problem::bad_request("invalid_body", detail)
        }),
    }
}

/// The fields of a body, if it is an object, and whether each has a value.
fn fields_of(body: &[u8]) -> Option<BTreeMap<Cow<'_, str>, Option<IgnoredAny>>> {
    serde_json::from_slice(body).ok()
}

/// Whether a body has a field, whatever the other fields are. Null counts as absent.
fn names(body: &[u8], field: &str) -> bool {
    fields_of(body).is_some_and(|fields| fields.get(field).is_some_and(Option::is_some))
}
