//! Rules: listed, shown, made, changed and removed, where they are in a catalog; shown, where they come
//! from a file.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Serialize;
use serde_json::Value as JsonValue;
use serde_json::value::{RawValue, to_raw_value};
use tollgate_catalog::{Edit, Entry, Expect, Intent, Kind, Stored, Update};
use utoipa::ToSchema;

use super::entries;
use crate::admin::{ChangesAnswer, dry_run_answer, expectation, field, refusal, shown, tag, write};
use crate::extract::{JsonBody, PathName, RuleEditor, RuleViewer, Session, read_name};
use crate::openapi::{AdminProblems, BodyProblems, WriteProblems};
use crate::paging::{Parameters, link_next};
use crate::problem::{Problem, ProblemBody};
use crate::rulebook::Rulebook;
use crate::state::ServerState;
use crate::wire::check::unknown_rule;
use crate::wire::time::rfc_3339;

/// What became of a rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleWritten {
    /// The rule.
    rule_id: String,
    /// `active`, or `disabled` if it applies to nothing.
    status: &'static str,
    /// When it was made, in RFC 3339.
    #[schema(format = DateTime)]
    created_at: String,
    /// Its version, which is also its `ETag`.
    version: u64,
}

/// What became of a rule, or what would.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes answers of two shapes")]
pub(crate) enum RuleOrTrial {
    /// What became of it.
    Written(RuleWritten),
    /// With `dry_run`: what would change.
    Trial(ChangesAnswer),
}

/// Lists the rules, in the order of their ids.
#[utoipa::path(
    get, path = "/api/v1/rules", tag = "rules", security(("token" = [])),
    params(
        ("limit" = Option<u16>, Query, description = "How many at most; 100 if not given, never more than 1000", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "Continue after this rule; the `Link` header of a page says where"),
        ("tenant" = Option<String>, Query, description = "Only rules of this tenant"),
        ("enabled" = Option<bool>, Query, description = "Only rules that are switched on, or off"),
        ("detail" = Option<bool>, Query, description = "Also tell version, created_at, created_by, and written_by if a tenant-admin wrote it"),
    ),
    responses(
        (status = 200, description = "The rules, in a form that can be put into a file", body = Object),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn list(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let known = ["limit", "after", "tenant", "enabled", "detail"];
    let parameters = Parameters::read(&uri, &known)?;
    let (filter, limit) = (parameters.filter(session.tenant())?, parameters.limit()?);
    let (after, detail) = (parameters.one("after")?, parameters.flag("detail")?);
    let mut fields = session.fields;
    let rules: Vec<Box<RawValue>> = match &app.rulebook {
        Rulebook::Catalog(follower) => {
            let page = follower.catalog.page(Kind::Rule, &filter, after, limit).await;
            let page = page.map_err(|error| refusal(&error))?;
            link_next(&mut fields, &uri, "after", page.next.as_deref());
            page.entries.iter().map(|stored| shown(stored, detail)).collect()
        }
        Rulebook::File(source) => {
            let loaded = source.loaded.load();
            let rules = loaded.document.rules.iter();
            let rules = rules
                .filter(|rule| filter.tenant.is_none() || rule.tenant == filter.tenant)
                .filter(|rule| filter.enabled.is_none_or(|enabled| rule.enabled == enabled));
            rules.filter_map(|rule| to_raw_value(rule).ok()).collect()
        }
    };
    fields.insert(header::ETAG, tag(app.rulebook.in_force().revision.number));
    Ok((fields, Json(BTreeMap::from([("rules", rules)]))).into_response())
}

/// Shows one rule.
#[utoipa::path(
    get, path = "/api/v1/rules/{rule_id}", tag = "rules", security(("token" = [])),
    params(("rule_id" = String, Path, description = "The rule", example = "default_per_ip")),
    responses(
        (status = 200, description = "The rule, as it was written; its version is the ETag", body = Object),
        (status = 400, description = "The path cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    rule_id: PathName,
) -> Result<Response, Problem> {
    let rule_id = read_name(rule_id)?;
    let tenant = session.tenant();
    let mut fields = session.fields;
    let rule = match &app.rulebook {
        Rulebook::Catalog(follower) => {
            let found = entries::find(&follower.catalog, Kind::Rule, &rule_id).await?;
            let own = found.filter(|it| is_seen(field(it, "tenant").as_str(), tenant.as_deref()));
            own.map(|stored| {
                fields.insert(header::ETAG, tag(stored.version));
                shown(&stored, false)
            })
        }
        Rulebook::File(source) => {
            let loaded = source.loaded.load();
            let found = loaded.document.rules.iter().find(|rule| rule.rule_id == rule_id);
            let own = found.filter(|rule| is_seen(rule.tenant.as_deref(), tenant.as_deref()));
            own.and_then(|rule| to_raw_value(rule).ok())
        }
    };
    let rule = rule.ok_or_else(|| unknown_rule(&rule_id))?;
    Ok((fields, Json(rule)).into_response())
}

/// Makes a rule, or changes the one of that id.
///
/// `If-None-Match: *` makes sure that it is a new one; `If-Match` with an `ETag`, that nobody else has
/// changed it meanwhile.
#[utoipa::path(
    post, path = "/api/v1/rules", tag = "rules", security(("token" = [])),
    request_body(content = Object, description = "The rule", example = json!({"rule_id": "api_default", "limit": 1000, "window": "1h", "identifier_type": "user_id"})),
    params(("dry_run" = Option<bool>, Query, description = "Change nothing, tell what would change")),
    responses(
        (status = 201, description = "Made", body = RuleWritten),
        (status = 200, description = "Changed, or what would be", body = RuleOrTrial),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn post(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let entry = entries::read(&app, &session, Kind::Rule, move || body).await?;
    put_rule(&app, session, &uri, &headers, entry).await
}

/// Makes a rule of that id, or changes it.
#[utoipa::path(
    put, path = "/api/v1/rules/{rule_id}", tag = "rules", security(("token" = [])),
    request_body(content = Object, description = "The rule", example = json!({"rule_id": "api_default", "limit": 1000, "window": "1h", "identifier_type": "user_id"})),
    params(
        ("rule_id" = String, Path, description = "The rule", example = "api_default"),
        ("dry_run" = Option<bool>, Query, description = "Change nothing, tell what would change"),
    ),
    responses(
        (status = 201, description = "Made", body = RuleWritten),
        (status = 200, description = "Changed, or what would be", body = RuleOrTrial),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn put(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    rule_id: PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    app.rulebook.catalog()?;
    let rule_id = read_name(rule_id)?;
    let id = rule_id.clone();
    let body = move || with_rule_id(&body, &id);
    let entry = entries::read(&app, &session, Kind::Rule, body).await?;
    if entry.name().as_deref().ok() != Some(rule_id.as_str()) {
        let detail = "the rule_id in the body is another one than in the path";
        return Err(Problem::unprocessable("invalid_document", detail));
    }
    put_rule(&app, session, &uri, &headers, entry).await
}

/// Changes some fields of a rule: a JSON merge patch, in which null stands for what is to go.
#[utoipa::path(
    patch, path = "/api/v1/rules/{rule_id}", tag = "rules", security(("token" = [])),
    request_body(content = Object, description = "The fields to change", content_type = "application/merge-patch+json", example = json!({"limit": 2000})),
    params(
        ("rule_id" = String, Path, description = "The rule", example = "api_default"),
        ("dry_run" = Option<bool>, Query, description = "Change nothing, tell what would change"),
    ),
    responses(
        (status = 200, description = "Changed, or what would be", body = RuleOrTrial),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn patch(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    rule_id: PathName,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    app.rulebook.catalog()?;
    let rule_id = read_name(rule_id)?;
    let reading = async move { serde_json::from_slice(&body).ok().filter(JsonValue::is_object) };
    let fields = app.queues.parsing.run(&session.caller(), reading).await?;
    let fields = fields
        .ok_or_else(|| Problem::bad_request("invalid_body", "send a JSON object of fields"))?;
    let dry_run = entries::is_dry_run(&uri)?;
    let expect = expectation(&headers, Expect::Present)?;
    if let (Some(tenant), Some(rule)) =
        (session.tenant(), own_rule(&app, &session, &rule_id).await?)
    {
        // The log keeps the whole rule, however short the patch is.
        app.guard.tenant_write(&tenant, rule.body.len())?;
    }
    change(&app, session, Edit::Patch { kind: Kind::Rule, name: rule_id, fields, expect }, dry_run)
        .await
}

/// Removes a rule. What was counted under it is forgotten in time.
#[utoipa::path(
    delete, path = "/api/v1/rules/{rule_id}", tag = "rules", security(("token" = [])),
    params(
        ("rule_id" = String, Path, description = "The rule", example = "api_default"),
        ("dry_run" = Option<bool>, Query, description = "Change nothing, tell what would change"),
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 200, description = "What would change", body = ChangesAnswer),
        (status = 404, description = "No such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn delete(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    rule_id: PathName,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let name = read_name(rule_id)?;
    let dry_run = entries::is_dry_run(&uri)?;
    let expect = expectation(&headers, Expect::Present)?;
    own_rule(&app, &session, &name).await?;
    let removal = Edit::Remove { kind: Kind::Rule, name, expect };
    entries::remove_expected(&app, session, removal, dry_run).await
}

fn is_seen(tenant: Option<&str>, only: Option<&str>) -> bool {
    only.is_none() || tenant == only
}

/// The rule that a tenant's administrator names; none for others. Rules of other tenants do not exist for it,
/// whatever the condition.
async fn own_rule(
    app: &ServerState,
    session: &Session,
    rule_id: &str,
) -> Result<Option<Stored>, Problem> {
    let Some(own) = session.tenant() else { return Ok(None) };
    let catalog = &app.rulebook.catalog()?.catalog;
    let found = entries::find(catalog, Kind::Rule, rule_id).await?;
    let found = found.filter(|it| it.tenant.as_deref() == Some(&own));
    found.map(Some).ok_or_else(|| unknown_rule(rule_id))
}

async fn put_rule(
    app: &ServerState,
    session: Session,
    uri: &Uri,
    headers: &HeaderMap,
    entry: Entry,
) -> Result<Response, Problem> {
    let dry_run = entries::is_dry_run(uri)?;
    let expect = expectation(headers, Expect::Anything)?;
    change(app, session, Edit::Put { entry, expect }, dry_run).await
}

async fn change(
    app: &ServerState,
    session: Session,
    edit: Edit,
    dry_run: bool,
) -> Result<Response, Problem> {
    let rule_id = match &edit {
        Edit::Put { entry, .. } => entry.name().unwrap_or_default(),
        Edit::Patch { name, .. } | Edit::Remove { name, .. } => name.clone(),
        Edit::LiftBans { rule_id } => rule_id.clone(),
    };
    let written = write(app, &session, Intent::Edits(vec![edit]), dry_run).await?;
    if dry_run {
        return Ok(dry_run_answer(session, &written));
    }
    let catalog = &app.rulebook.catalog()?.catalog;
    let stored = entries::find(catalog, Kind::Rule, &rule_id).await?;
    let stored = stored.ok_or_else(|| unknown_rule(&rule_id))?;
    let mut fields = session.fields;
    fields.insert(header::ETAG, tag(stored.version));
    let is_enabled = field(&stored, "enabled").as_bool().unwrap_or(true);
    let created_at = rfc_3339(tollgate::Timestamp::from_micros(stored.created_at));
    let status = if is_enabled { "active" } else { "disabled" };
    let answer = RuleWritten { rule_id, status, created_at, version: stored.version };
    Ok((status_of(&written), fields, Json(answer)).into_response())
}

/// Created, if the entry was not there before.
pub(crate) fn status_of(written: &Update) -> StatusCode {
    let is_new = written.changes.iter().any(|change| change.before.is_none());
    if is_new { StatusCode::CREATED } else { StatusCode::OK }
}

/// The body with the rule's id in it, if it is an object that has none.
fn with_rule_id(body: &[u8], rule_id: &str) -> Vec<u8> {
    match serde_json::from_slice::<JsonValue>(body) {
        Ok(JsonValue::Object(mut fields)) if !fields.contains_key("rule_id") => {
            fields.insert("rule_id".to_owned(), rule_id.into());
            JsonValue::Object(fields).to_string().into_bytes()
        }
        // Positions of problems are those of the text as it was sent.
        _ => body.to_vec(),
    }
}
