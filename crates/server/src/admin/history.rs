//! The history of the policy: revisions, the policy at one of them, what differs between two, and the way back.

use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use serde::Serialize;
use serde_json::value::RawValue;
use tollgate_catalog::{CatalogError, Intent, Kind, RevisionRecord};
use utoipa::{IntoResponses, ToSchema};

use super::policy::{PolicyAnswer, expected_revision, in_order};
use super::response::{ChangeAnswer, ChangesAnswer, refusal, tag};
use super::write::write;
use crate::app::state::ServerState;
use crate::edge::http::extract::{PathName, RuleEditor, RuleViewer, Session, read_name};
use crate::edge::http::openapi::{AdminProblems, PageProblems, WriteParameters, WriteProblems};
use crate::edge::http::paging::{Parameters, link_next};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_past;

/// Revisions that changed the policy, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct RevisionsAnswer {
    /// The revisions.
    revisions: Vec<RevisionAnswer>,
}

/// A revision that changed the policy.
#[derive(Serialize, ToSchema)]
pub(crate) struct RevisionAnswer {
    /// Its number.
    revision: u64,
    /// When it was made, in RFC 3339.
    #[schema(format = DateTime)]
    at: String,
    /// The token, or the part of the program, that made it.
    actor: String,
    /// The name of the token, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_name: Option<String>,
    /// The role of the actor.
    role: String,
    /// What it was for, if it was a rollback.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// How many entries it changed.
    changes: u64,
    /// What it changed, in one line.
    #[schema(example = "rule search updated (limit 10 -> 20)")]
    summary: String,
}

/// What differs between two revisions.
#[derive(Serialize, ToSchema)]
pub(crate) struct DiffAnswer {
    /// The revision before.
    from: u64,
    /// The revision after.
    to: u64,
    /// Every entry that differs.
    changes: Vec<ChangeAnswer>,
}

/// Why a revision is not shown.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes responses that `Problem` makes")]
pub(crate) enum RevisionProblems {
    /// The path or the query cannot be read
    #[response(status = 400, content_type = "application/problem+json")]
    Query(ProblemBody<'static>),
    /// There is no such revision yet
    #[response(status = 404, content_type = "application/problem+json")]
    Unknown(ProblemBody<'static>),
    /// The rules come from a file, and have no history here
    #[response(status = 405, content_type = "application/problem+json")]
    File(ProblemBody<'static>),
    /// The audit log does not go back to this revision; the detail names the oldest one
    #[response(status = 410, content_type = "application/problem+json")]
    NotKept(ProblemBody<'static>),
    /// Too many entries have changed since
    #[response(status = 422, content_type = "application/problem+json")]
    TooMany(ProblemBody<'static>),
    /// The catalog is unavailable, or too many such calls are in progress
    #[response(status = 503, content_type = "application/problem+json")]
    Catalog(ProblemBody<'static>),
}

impl From<RevisionRecord> for RevisionAnswer {
    fn from(record: RevisionRecord) -> Self {
        let RevisionRecord { revision, at, actor, actor_name, role, note, changes, summary } =
            record;
        Self { revision, at: rfc_3339_past(at), actor, actor_name, role, note, changes, summary }
    }
}

/// Lists the revisions that changed the policy, the newest first.
///
/// Revisions that changed only API keys, tokens or bans are in the audit log, not here.
#[utoipa::path(
    get, path = "/api/v1/policy/revisions", tag = "rules", security(("token" = [])),
    params(
        ("limit" = Option<u16>, Query, description = "How many at most; 100 if not given", minimum = 1, maximum = 1000),
        ("before" = Option<u64>, Query, description = "Continue before this revision; the `Link` header of a page says where"),
    ),
    responses(
        (status = 200, description = "The revisions", body = RevisionsAnswer),
        (status = 405, description = "The rules come from a file, and have no history here", body = ProblemBody<'_>, content_type = "application/problem+json"),
        PageProblems,
        AdminProblems,
    )
)]
pub(crate) async fn list(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let catalog = &app.policy_source.catalog()?.catalog;
    let parameters = Parameters::read(&uri, &["limit", "before"])?;
    let before = parameters.one("before")?.map(|text| number("before", text)).transpose()?;
    let tenant = session.tenant();
    let found = catalog.revisions(tenant.as_deref(), before, parameters.limit()?).await;
    let (records, has_more) = found.map_err(|error| refusal(&error))?;
    let next = records.last().filter(|_| has_more).map(|last| last.revision.to_string());
    let mut fields = session.fields;
    link_next(&mut fields, &uri, "before", next.as_deref());
    let revisions = records.into_iter().map(RevisionAnswer::from).collect();
    Ok((fields, Json(RevisionsAnswer { revisions })).into_response())
}

/// Shows the policy as it was at a revision: a document that can be put into a file, or back.
#[utoipa::path(
    get, path = "/api/v1/policy/revisions/{revision}", tag = "rules", security(("token" = [])),
    params(("revision" = u64, Path, description = "The revision", example = 1)),
    responses(
        (status = 200, description = "The policy", body = Object),
        RevisionProblems,
        AdminProblems,
    )
)]
pub(crate) async fn show(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
    revision: PathName,
) -> Result<Response, Problem> {
    let catalog = Arc::clone(&app.policy_source.catalog()?.catalog);
    let revision = number("the revision", &read_name(revision)?)?;
    Parameters::read(&uri, &[])?;
    let tenant = session.tenant();
    read(&app, session, async move {
        let policy = catalog.policy_at(tenant.as_deref(), revision).await?;
        let mut document = PolicyAnswer::new();
        for (kind, bodies) in policy {
            if !bodies.is_empty() || kind == Kind::Rule {
                // Bodies are stored as JSON, so all of them are kept.
                let entries = bodies.into_iter().filter_map(|it| RawValue::from_string(it).ok());
                document.push((kind.plural(), entries.collect()));
            }
        }
        Ok(in_order(document))
    })
    .await
}

/// Shows what differs between two revisions, in the direction from the first to the second.
#[utoipa::path(
    get, path = "/api/v1/policy/revisions/{revision}/diff", tag = "rules", security(("token" = [])),
    params(
        ("revision" = u64, Path, description = "The revision before", example = 1),
        ("to" = Option<u64>, Query, description = "The revision after; the one in force if not given"),
    ),
    responses(
        (status = 200, description = "Every entry that differs", body = DiffAnswer),
        RevisionProblems,
        AdminProblems,
    )
)]
pub(crate) async fn diff(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
    revision: PathName,
) -> Result<Response, Problem> {
    let catalog = Arc::clone(&app.policy_source.catalog()?.catalog);
    let from = number("the revision", &read_name(revision)?)?;
    let parameters = Parameters::read(&uri, &["to"])?;
    let to = parameters.one("to")?.map(|text| number("to", text)).transpose()?;
    let tenant = session.tenant();
    read(&app, session, async move {
        let to = match to {
            Some(to) => to,
            None => catalog.version().await?.revision.number,
        };
        let changes = catalog.changes_between(tenant.as_deref(), from, to).await?;
        let changes = changes.iter().map(ChangeAnswer::from).collect();
        Ok(DiffAnswer { from, to, changes })
    })
    .await
}

/// Responds with what is read from the catalog, in the queue of large documents.
async fn read<T: Serialize + Send + 'static>(
    app: &ServerState,
    session: Session,
    reading: impl Future<Output = Result<T, CatalogError>> + Send + 'static,
) -> Result<Response, Problem> {
    let found = app.queues.documents.run(&session.caller(), reading).await?;
    let found = found.map_err(|error| refusal(&error))?;
    Ok((session.fields, Json(found)).into_response())
}

/// Brings the policy back to a revision, in one transaction that makes a new revision.
///
/// API keys, tokens and bans stay as they are; with `only=rules` also tiers, clients, overrides and lists. A tenant-admin brings back what tenant-admins of its tenant wrote or removed
/// last; changes by operators stay. `If-Match` with the `ETag` of a dry run makes sure that exactly the changes it showed
/// are made.
#[utoipa::path(
    post, path = "/api/v1/policy/revisions/{revision}/rollback", tag = "rules", security(("token" = [])),
    params(
        ("revision" = u64, Path, description = "The revision", example = 1),
        ("only" = Option<String>, Query, description = "`rules`: only rules are brought back, and other entries stay"),
        WriteParameters,
    ),
    responses(
        (status = 200, description = "What was changed, or would be; the revision is the ETag", body = ChangesAnswer),
        RevisionProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn rollback(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    revision: PathName,
) -> Result<Response, Problem> {
    app.policy_source.catalog()?;
    let to = number("the revision", &read_name(revision)?)?;
    let query = Parameters::read(&uri, &["dry_run", "only"])?;
    let dry_run = query.flag("dry_run")?;
    let only = match query.one("only")? {
        None => None,
        Some("rules") => Some(Kind::Rule),
        Some(_) => {
            let detail = "`only` is rules; without it, tiers, clients, overrides and lists are brought back too";
            return Err(Problem::bad_request("invalid_query", detail));
        }
    };
    let revision = expected_revision(&headers)?;
    if let Some(tenant) = session.tenant() {
        // The log keeps every entry that comes back, however short the call is.
        let trial = write(&app, &session, Intent::Rollback { to, only, revision }, true).await?;
        let entries = trial.changes.iter().filter_map(|change| change.after.as_ref());
        app.guard.tenant_write(&tenant, entries.map(|entry| entry.body().len()).sum())?;
    }
    let written = write(&app, &session, Intent::Rollback { to, only, revision }, dry_run).await?;
    let Session { mut fields, .. } = session;
    fields.insert(header::ETAG, tag(written.version.revision.number));
    Ok((fields, Json(ChangesAnswer::new(&written, dry_run))).into_response())
}

/// The number of a revision.
fn number(what: &str, text: &str) -> Result<u64, Problem> {
    // Databases have no larger numbers.
    let number = text.parse().ok().filter(|number| *number <= i64::MAX.unsigned_abs());
    number.ok_or_else(|| {
        let text: String = text.chars().take(50).collect();
        let detail = format!("{what} is a number like 12, not `{}`", text.escape_debug());
        Problem::bad_request("invalid_revision", detail)
    })
}
