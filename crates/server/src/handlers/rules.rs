//! The rules in force, for reading. They come from a file or are built in, so they are changed there.

use axum::Json;
use axum::extract::State;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use tollgate::rules::document::RuleDocument;

use crate::auth::Right;
use crate::extract::{PathName, Peer, Viewer, read_name};
use crate::openapi::AdminProblems;
use crate::problem::{Problem, ProblemBody};
use crate::state::ServerState;
use crate::wire::check::unknown_rule;

/// The rules in force, in a form that can be put into a file.
#[derive(Serialize)]
pub(crate) struct RulesAnswer {
    rules: Vec<RuleDocument>,
}

/// Lists the rules in force.
#[utoipa::path(
    get, path = "/api/v1/rules", tag = "rules", security(("token" = [])),
    responses(
        (status = 200, description = "The rules, in the order of the document", body = Object),
        AdminProblems,
    )
)]
pub(crate) async fn list(
    State(app): State<ServerState>,
    Viewer(mut fields): Viewer,
) -> Result<(HeaderMap, Json<RulesAnswer>), Problem> {
    let loaded = app.policy_source.loaded.load();
    let rules = loaded.document.rules.clone();
    // A number in quotes is a header value.
    if let Ok(revision) = HeaderValue::from_str(&format!("\"{}\"", loaded.revision.number)) {
        fields.insert(header::ETAG, revision);
    }
    Ok((fields, Json(RulesAnswer { rules })))
}

/// Shows one rule.
#[utoipa::path(
    get, path = "/api/v1/rules/{rule_id}", tag = "rules", security(("token" = [])),
    params(("rule_id" = String, Path, description = "The rule", example = "default_per_ip")),
    responses(
        (status = 200, description = "The rule, as the document has it", body = Object),
        (status = 400, description = "The path cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    Viewer(fields): Viewer,
    rule_id: PathName,
) -> Result<(HeaderMap, Json<RuleDocument>), Problem> {
    let rule_id = read_name(rule_id)?;
    let loaded = app.policy_source.loaded.load();
    let rule = loaded.document.rules.iter().find(|rule| rule.rule_id == rule_id);
    let rule = rule.ok_or_else(|| unknown_rule(&rule_id))?;
    Ok((fields, Json(rule.clone())))
}

/// What every attempt to change a rule is told.
pub(crate) async fn refuse_write(
    State(app): State<ServerState>,
    peer: Peer,
    headers: HeaderMap,
) -> Problem {
    if let Err(problem) = app.admit_admin(&headers, peer, Right::Operator, true) {
        return problem;
    }
    let detail = match app.policy_source.file() {
        Some(file) => format!(
            "the rules come from {}: change that file, and they are in force within seconds",
            file.display()
        ),
        None => "the rules are built in: start the server with --rules FILE to bring your own"
            .to_owned(),
    };
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "rules_from_file", detail)
        .with_header(header::ALLOW, HeaderValue::from_static("GET, HEAD"))
}
