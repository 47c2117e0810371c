//! Bans: clients that a rule refuses for a while, listed and lifted.

use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tollgate::rules::Subject;
use tollgate_catalog::{Filter, Kind, ban_name};

use super::entries::{PageProblems, find, page_of, wrong};
use crate::admin::{field, refusal, shown};
use crate::extract::{RuleEditor, RuleViewer};
use crate::openapi::{AdminProblems, PageParameters, WriteProblems};
use crate::paging::{Parameters, link_next};
use crate::penalty;
use crate::problem::{Problem, ProblemBody};
use crate::rulebook::Rulebook;
use crate::state::{ServerState, Shared};

/// Lists the clients that rules have banned.
///
/// API keys and values of headers are told as their SHA-256 digests.
#[utoipa::path(
    get, path = "/api/v1/bans", tag = "rules", security(("token" = [])),
    params(
        PageParameters,
        ("rule_id" = Option<String>, Query, description = "Only bans by this rule"),
        ("tenant" = Option<String>, Query, description = "Only bans by rules of this tenant"),
        ("detail" = Option<bool>, Query, description = "Also tell version, created_at and created_by"),
    ),
    responses(
        (status = 200, description = "The bans, in the order of their names", body = Object),
        PageProblems,
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let known = ["limit", "after", "detail", "rule_id", "tenant"];
    let parameters = Parameters::read(&uri, &known)?;
    let (limit, after) = (parameters.limit()?, parameters.one("after")?);
    let (detail, filter) = (parameters.flag("detail")?, parameters.filter(session.tenant())?);
    let mut fields = session.fields;
    let (bans, next) = match &app.rulebook {
        Rulebook::Catalog(follower) => {
            let page = follower.catalog.page(Kind::Ban, &filter, after, limit).await;
            let page = page.map_err(|error| refusal(&error))?;
            let now = app.now();
            let is_in_force = |end: Option<&str>| {
                end.and_then(tollgate::rules::parse_time).is_some_and(|end| end > now)
            };
            let entries = page.entries.iter();
            let bans = entries.filter(|it| is_in_force(field(it, "expires_at").as_str()));
            (bans.map(|stored| shown(stored, detail)).collect(), page.next)
        }
        Rulebook::File(_) => page_of_memory(&app, &filter, after, limit),
    };
    link_next(&mut fields, &uri, "after", next.as_deref());
    Ok((fields, Json(json!({ "bans": bans }))).into_response())
}

/// The bans of this node, where there is no catalog.
fn page_of_memory(
    app: &Shared,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
) -> (Vec<Box<RawValue>>, Option<String>) {
    let (policy, now) = (app.limiter.policy(), app.now());
    let tenant = |rule_id: &str| policy.rules().find(rule_id)?.tenant.as_deref().map(str::to_owned);
    let bans = app.limiter.own_bans(usize::MAX).into_iter().filter(|ban| ban.until > now);
    let found = bans
        .map(|ban| penalty::entry_of(&ban, tenant(&ban.rule_id)))
        .filter(|ban| filter.rule_id.as_ref().is_none_or(|rule_id| ban.rule_id == *rule_id))
        .filter(|ban| filter.tenant.is_none() || ban.tenant == filter.tenant)
        .map(|ban| (ban_name(&ban.rule_id, &ban.identifier), ban));
    let (page, next) = page_of(found, after, limit);
    (page.iter().filter_map(|ban| to_raw_value(ban).ok()).collect(), next)
}

/// Lifts a ban, on all nodes, and forgets the refusals that led to it.
#[utoipa::path(
    delete, path = "/api/v1/bans", tag = "rules", security(("token" = [])),
    params(
        ("rule_id" = String, Query, description = "The rule", example = "login"),
        ("identifier" = Vec<String>, Query, description = "The client: one value for each identifier of the rule, in the same order; a secret as itself or as the digest that is listed", example = json!(["203.0.113.9"])),
    ),
    responses(
        (status = 204, description = "Lifted"),
        (status = 404, description = "There is no such ban", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["rule_id", "identifier"])?;
    let missing = |name: &str, advice: &str| {
        Problem::bad_request("invalid_query", format!("`{name}` is missing: {advice}"))
    };
    let rule_id = parameters.one("rule_id")?;
    let rule_id = rule_id.ok_or_else(|| missing("rule_id", "name the rule of the ban"))?;
    let values: Vec<&str> = parameters.all("identifier").collect();
    if values.is_empty() {
        return Err(missing("identifier", "name the client, as GET lists it"));
    }
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
    let lifted = penalty::lift(&app, session.author(), vec![(Arc::from(rule_id), subject)]).await;
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
    let catalog = &app.rulebook.catalog()?.catalog;
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
