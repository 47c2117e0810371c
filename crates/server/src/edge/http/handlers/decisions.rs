//! `GET /api/v1/decisions/{id}`: why a recent request was refused, or not.

use std::borrow::Cow;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use tollgate::{Decision, DecisionReason};
use tollgate_api::DecisionRecord;

use super::refund::{missing_decision, parse_id};
use crate::app::state::ServerState;
use crate::check::journal::DecisionId;
use crate::edge::http::extract::{PathName, Viewer, read_name};
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::response::{response, rule_results};
use crate::edge::http::wire::time::{rfc_3339, rfc_3339_past};

/// Explains a recent decision: its reason, and the figures of every rule at that moment.
#[utoipa::path(
    get, path = "/api/v1/decisions/{decision_id}", tag = "operate",
    params(("decision_id" = String, Path, description = "The id, as in the response to the check", example = "d1f00dbee-a2a")),
    security(("token" = [])),
    responses(
        (status = 200, description = "Explained", body = DecisionRecord<'_>),
        (status = 400, description = "The path cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such decision", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 409, description = "The decision was refunded", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn decision(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    id: PathName,
) -> Result<Response, Problem> {
    let id = parse_id(&read_name(id)?)?;
    let explained = app.journal.with(id, |decision| explain(id, decision));
    let explained = explained.map_err(|missing| missing_decision(missing, id))?;
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((session.fields, content_type, explained).into_response())
}

fn explain(id: DecisionId, decision: &Decision) -> String {
    let id = id.text();
    // Serialized while the decision is locked; it may be evicted when the response is sent.
    let record = DecisionRecord {
        decision_id: Cow::Borrowed(&id),
        at: rfc_3339_past(decision.now()),
        because: because(decision),
        tier: decision.tier().map(Cow::Borrowed),
        revision: decision.revision().number,
        answer: response(decision, Some(&id), false),
        rules: rule_results(decision),
    };
    serde_json::to_string(&record).unwrap_or_default()
}

fn because(decision: &Decision) -> String {
    let rule = |at: usize| {
        decision.policy().rules().get(at).map_or_else(String::new, |rule| rule.id.to_string())
    };
    let given = |reason: &Option<std::sync::Arc<str>>| {
        reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
    };
    match decision.reason() {
        DecisionReason::NoRule if !decision.is_allowed() => {
            "no rule applied, and unmatched is deny".to_owned()
        }
        DecisionReason::NoRule => "no rule applied".to_owned(),
        DecisionReason::AllowListed { reason } => {
            format!("the client is never limited{}", given(reason))
        }
        DecisionReason::DenyListed { reason, .. } => {
            format!("the client is on the deny list{}", given(reason))
        }
        DecisionReason::MissingIdentifier { rule: at } => {
            format!("rule {} refuses requests that lack its identifier", rule(*at))
        }
        DecisionReason::Banned { rule: at, until } => {
            format!(
                "rule {} has banned the client until {} by penalty",
                rule(*at),
                rfc_3339(*until)
            )
        }
        DecisionReason::StoreUnavailable { rule: at } => {
            format!("rule {} refuses requests while the store is away", rule(*at))
        }
        DecisionReason::Rules => match decision.binding() {
            Some(binding) if decision.is_allowed() => {
                format!("every rule admitted it; {} has the least left", binding.rule.id)
            }
            Some(binding) => format!("rule {} was exceeded and binds", binding.rule.id),
            None => "only rules in shadow mode applied".to_owned(),
        },
    }
}
