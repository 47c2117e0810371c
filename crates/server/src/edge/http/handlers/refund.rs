//! `refund` and `reset`: how operators correct what should not have been counted.

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use tollgate::Peek;
use tollgate::store::{StoreError, StoreErrorKind};
use tollgate_api::{Changed, CheckRequest, DecisionBody};
use tollgate_catalog::{Author, ResetRecord};
use utoipa::ToSchema;

use super::check::IDEMPOTENCY_KEY;
use crate::admin::refusal;
use crate::app::state::{ServerState, Shared};
use crate::check::journal::{DecisionId, Missing};
use crate::edge::http::extract::{JsonBody, Operator};
use crate::edge::http::openapi::{AdminProblems, BodyProblems};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::check::CheckBody;
use crate::edge::http::wire::decode::decode;
use crate::observe::audit_log::resets::records_of;
use crate::policy::bans;
use crate::policy::source::PolicySource;

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
        (status = 409, description = "Refunded already, or nothing was charged", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The fields do not belong together", body = ProblemBody<'_>, content_type = "application/problem+json"),
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
    let refunding = async move {
        if names_decision(&body) {
            let DecisionBody { decision_id } = decode(&body)?;
            return refund_decision(&app, &decision_id).await;
        }
        let check: CheckBody<'_> = decode(&body)?;
        let subject = check.subject(|| app.limiter.policy())?;
        app.limiter.credit(subject.of(&check)).await.map_err(store_away)
    };
    let counters = to_the_end(refunding).await?;
    Ok((session.fields, Json(Changed { counters })))
}

/// Resets the counters of a request, under every rule that applies or under one rule, and lifts its bans
/// by these rules.
#[utoipa::path(
    post, path = "/api/v1/rate-limit/reset", tag = "operate", request_body = CheckRequest<'_>,
    security(("token" = [])),
    responses(
        (status = 200, description = "Reset", body = Changed),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
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
    let resetting = async move { reset_counters(&app, author, &decode(&body)?).await };
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

/// Resets the counters of a check, and lifts its bans; returns how many counters were reset.
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
    // A call that timed out may have been executed after all.
    if reset.as_ref().map_or_else(|error| error.kind() == StoreErrorKind::Timeout, |_| true) {
        let after = peek().await;
        note_reset(app, records_of(&author, &check.context(), &before, &after));
    }
    reset.map_err(store_away)
}

/// Records a reset in the audit log, or in the program log where there is no catalog.
fn note_reset(app: &Shared, records: Vec<ResetRecord>) {
    match &app.policy_source {
        PolicySource::Catalog(_) => app.audit_log.resets.note(records),
        PolicySource::File(_) => {
            let Some(ResetRecord { author, .. }) = records.first() else { return };
            let Author { actor, address, .. } = author;
            tracing::info!(actor, address, counters = records.len(), "counters were reset");
        }
    }
}

async fn refund_decision(app: &ServerState, id: &str) -> Result<usize, Problem> {
    let id = parse_id(id)?;
    let decision = app.journal.take(id).map_err(|missing| missing_decision(missing, id))?;
    let counters = decision.charged();
    if counters == 0 {
        app.journal.put_back(id, decision.receipt());
        let detail = "nothing was charged by this decision";
        return Err(Problem::new(StatusCode::CONFLICT, "nothing_charged", detail));
    }
    let receipt = decision.receipt();
    match app.limiter.refund(decision).await {
        Ok(()) => Ok(counters),
        Err(error) => {
            // A call that timed out may have been executed after all.
            if error.kind() != StoreErrorKind::Timeout {
                app.journal.put_back(id, receipt);
            }
            Err(store_away(error))
        }
    }
}

/// Whether a body has a `decision_id`, whatever its other fields are.
fn names_decision(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Names {
        decision_id: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Names>(body).is_ok_and(|names| names.decision_id.is_some())
}

pub(crate) fn parse_id(id: &str) -> Result<DecisionId, Problem> {
    id.parse().map_err(|()| {
        let shown: String = id.chars().take(64).collect();
        let detail = format!("`{shown}` is not a decision id; one looks like d1f00dbee-a2a");
        Problem::not_found("unknown_decision", detail)
    })
}

pub(crate) fn missing_decision(missing: Missing, id: DecisionId) -> Problem {
    match missing {
        Missing::OtherNode => Problem::not_found(
            "unknown_decision",
            format!("another node made decision {id}, or this one before it was restarted"),
        ),
        Missing::Unknown => Problem::not_found(
            "unknown_decision",
            format!("decision {id} is not known here any more; recent ones are (decisions_kept)"),
        ),
        Missing::GivenBack => {
            let detail = format!("decision {id} was refunded already");
            Problem::new(StatusCode::CONFLICT, "already_given_back", detail)
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
fn store_away(error: StoreError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", error.to_string())
}
