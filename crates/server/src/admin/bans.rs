//! Lifts bans: one, or all bans by some rules.

use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use tollgate::rules::{Identifier, Subject};
use tollgate_catalog::Kind;
use utoipa::ToSchema;

use super::read::find;
use super::response::{refusal, wrong};
use crate::app::state::{ServerState, Shared};
use crate::edge::http::extract::{RuleEditor, Session};
use crate::edge::http::openapi::{AdminProblems, WriteProblems};
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::policy::bans;

/// How many bans were lifted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiftedAnswer {
    /// How many.
    lifted: usize,
}

/// Lifts a ban, or all bans by some rules, on all nodes, and forgets the refusals that led to them.
///
/// With `rule_id` and `identifier` it lifts one ban. Without `identifier` it lifts all bans by the rules
/// that the other parameters name: at least one of `rule_id`, `identifier_type` and `tenant`. The
/// administrator of a tenant lifts bans by rules of that tenant only.
#[utoipa::path(
    delete, path = "/api/v1/bans", tag = "rules", security(("token" = [])),
    params(
        ("rule_id" = Option<String>, Query, description = "The rule", example = "login"),
        ("identifier" = Option<Vec<String>>, Query, description = "The client: one value for each identifier of the rule, in the same order; a secret as itself or as the digest that is listed", example = json!(["203.0.113.9"])),
        ("identifier_type" = Option<String>, Query, description = "All bans by rules that count by this", example = "ip"),
        ("tenant" = Option<String>, Query, description = "All bans by rules of this tenant"),
    ),
    responses(
        (status = 200, description = "All bans by these rules are lifted", body = LiftedAnswer),
        (status = 204, description = "The ban of that client is lifted"),
        (status = 404, description = "There is no such ban, or no such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let known = ["rule_id", "identifier", "identifier_type", "tenant"];
    let parameters = Parameters::read(&uri, &known)?;
    if parameters.all("identifier").next().is_none() {
        return delete_all(&app, session, &parameters).await;
    }
    let bad = |detail: &str| Problem::bad_request("invalid_query", detail);
    let rule_id = parameters.one("rule_id")?;
    let rule_id = rule_id.ok_or_else(|| bad("`rule_id` is missing: name the rule of the ban"))?;
    for name in ["identifier_type", "tenant"] {
        if parameters.one(name)?.is_some() {
            let detail =
                format!("`{name}` is for all bans: leave it out, or leave out `identifier`");
            return Err(bad(&detail));
        }
    }
    let values: Vec<&str> = parameters.all("identifier").collect();
    let policy = app.limiter.policy();
    let own = session.tenant();
    if let Some(own) = &own {
        check_rule(&app, own, rule_id).await?;
    }
    let subject = match policy.rules().find(rule_id) {
        Some(rule) => {
            policy.directory().parse_subject(rule, &values).map_err(|flaw| wrong(&flaw))?
        }
        // The rule is gone, and its bans are still there.
        None => Subject::new(&values),
    };
    let lifted = bans::lift(&app, session.author(), vec![(Arc::from(rule_id), subject)]).await;
    match lifted.map_err(|error| refusal(&error))? {
        0 => Err(unknown()),
        _ => Ok((StatusCode::NO_CONTENT, session.fields).into_response()),
    }
}

fn unknown() -> Problem {
    Problem::not_found("unknown_ban", "there is no such ban")
}

/// Refuses to lift bans of rules that administrators of the tenant did not write. Bans of rules that they
/// cannot see do not exist for them.
async fn check_rule(app: &Shared, own: &str, rule_id: &str) -> Result<(), Problem> {
    let catalog = &app.policy_source.catalog()?.catalog;
    let rule = find(catalog, Kind::Rule, rule_id).await?;
    let rule = rule.filter(|rule| rule.tenant.as_deref() == Some(own)).ok_or_else(unknown)?;
    if rule.author_tenant.as_deref() == Some(own) {
        return Ok(());
    }
    let detail = format!(
        "the rule {rule_id} belongs to operators: administrators of the tenant {own} cannot lift its bans"
    );
    Err(Problem::new(StatusCode::FORBIDDEN, "read_only", detail))
}

/// Lifts all bans by the rules that the query names.
async fn delete_all(
    app: &ServerState,
    session: Session,
    parameters: &Parameters,
) -> Result<Response, Problem> {
    let (rule_id, tenant) = (parameters.one("rule_id")?, parameters.one("tenant")?);
    let identifier_type = parameters.one("identifier_type")?;
    if rule_id.is_none() && tenant.is_none() && identifier_type.is_none() {
        let detail = "name what to lift: `rule_id` and `identifier` for one ban; `rule_id`, \
                      `identifier_type` or `tenant` for all bans by such rules";
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let identifier = identifier_type.map(str::parse::<Identifier>).transpose();
    let identifier = identifier.map_err(|problem| {
        Problem::bad_request("invalid_query", format!("`identifier_type`: {problem}"))
    })?;
    let (policy, own) = (app.limiter.policy(), session.tenant());
    let rules = policy.rules().iter().filter(|rule| {
        !rule.is_candidate()
            && own.as_deref().is_none_or(|own| rule.tenant.as_deref() == Some(own))
            && rule_id.is_none_or(|rule_id| &*rule.id == rule_id)
            && tenant.is_none_or(|tenant| rule.tenant.as_deref() == Some(tenant))
            && identifier.as_ref().is_none_or(|it| rule.identifiers.contains(it))
    });
    let rules: Vec<Arc<str>> = rules.map(|rule| Arc::clone(&rule.id)).collect();
    if let Some(rule_id) = rule_id
        && rules.is_empty()
    {
        let rule_id: String = rule_id.chars().take(100).collect();
        let detail = format!("there is no such rule `{rule_id}`");
        return Err(Problem::not_found("unknown_rule", detail));
    }
    if let (Some(own), Some(rule_id)) = (&own, rule_id) {
        check_rule(app, own, rule_id).await?;
    }
    let mut banning = Vec::new();
    for rule_id in rules {
        let has_bans = policy.directory().bans_of_rule(&rule_id) > 0;
        let is_own = match &own {
            // Of several rules, those that operators wrote are left out.
            Some(own) if has_bans => check_rule(app, own, &rule_id).await.is_ok(),
            _ => true,
        };
        if has_bans && is_own {
            banning.push(rule_id);
        }
    }
    let lifted = bans::lift_all(app, session.author(), banning).await;
    let lifted = lifted.map_err(|error| refusal(&error))?;
    Ok((session.fields, Json(LiftedAnswer { lifted })).into_response())
}
