//! The whole policy at once: exports the catalog as a document, and applies a document in one
//! transaction.

use axum::Json;
use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tollgate::rules::{Format, PolicyDocument, Source};
use tollgate_catalog::{Expect, Filter, Intent, Kind};

use super::read::mark_stale;
use super::response::{ChangesAnswer, invalid, refusal, shown, tag};
use super::write::{expectation, text_of, write};
use crate::app::state::ServerState;
use crate::edge::http::extract::{RuleEditor, RuleViewer, Session, accept_body, read_json};
use crate::edge::http::openapi::{AdminProblems, BodyProblems, WriteProblems};
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::policy::source::PolicySource;

/// How many entries are read at a time.
const PAGE: usize = 1_000;

/// Shows the whole policy: a document that can be put into a file, or back.
#[utoipa::path(
    get, path = "/api/v1/policy", tag = "rules", security(("token" = [])),
    responses(
        (status = 200, description = "The policy; the revision is the ETag", body = Object),
        (status = 503, description = "The catalog is unavailable", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn get(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let tenant = session.tenant();
    let mut fields = session.fields;
    fields.insert(header::ETAG, tag(app.policy_source.in_force().revision.number));
    let document = match &app.policy_source {
        PolicySource::Catalog(catalog_sync) => {
            let (catalog, stale_since) = catalog_sync.for_reading().await;
            mark_stale(&mut fields, stale_since);
            let mut document = PolicyAnswer::new();
            for kind in Kind::POLICY {
                let filter = Filter { tenant: tenant.clone(), ..Filter::default() };
                let mut entries = Vec::new();
                let mut after = None;
                loop {
                    let page = catalog.page(kind, &filter, after.as_deref(), PAGE).await;
                    let page = page.map_err(|error| refusal(&error))?;
                    entries.extend(page.entries.iter().map(|stored| shown(stored, false)));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                if !entries.is_empty() || kind == Kind::Rule {
                    document.push((kind.plural(), entries));
                }
            }
            document
        }
        PolicySource::File(source) => {
            let loaded = source.loaded.load();
            let Some(tenant) = tenant else {
                // As it is, so that fields have the order that they have in a catalog.
                return Ok((fields, Json(&loaded.document)).into_response());
            };
            let rules = loaded.document.rules.iter();
            let own = rules.filter(|rule| rule.tenant.as_deref() == Some(&tenant));
            vec![("rules", own.filter_map(|rule| to_raw_value(rule).ok()).collect())]
        }
    };
    Ok((fields, Json(in_order(document))).into_response())
}

/// Applies a policy document to the catalog, in one transaction.
///
/// Entries that the document does not mention stay, unless their list is named in `prune`. `If-Match`
/// with the `ETag` of a dry run makes sure that exactly the changes it showed are made.
#[utoipa::path(
    put, path = "/api/v1/policy", tag = "rules", security(("token" = [])),
    request_body(content = Object, description = "The policy document"),
    params(
        ("prune" = Option<String>, Query, description = "Lists from which entries that the document does not have are removed: rules, tiers, clients, overrides, whitelist, blacklist, separated by commas"),
        ("dry_run" = Option<bool>, Query, description = "Change nothing, return what would change"),
        ("If-Match" = Option<String>, Header, description = "The revision that the catalog has to be at, as an ETag"),
    ),
    responses(
        (status = 200, description = "What was changed, or would be; the revision is the ETag", body = ChangesAnswer),
        BodyProblems,
        WriteProblems,
        AdminProblems,
    )
)]
pub(crate) async fn put(
    State(app): State<ServerState>,
    RuleEditor(session): RuleEditor,
    OriginalUri(uri): OriginalUri,
    request: Request<Body>,
) -> Result<Response, Problem> {
    app.policy_source.catalog()?;
    let parameters = Parameters::read(&uri, &["prune", "dry_run"])?;
    let dry_run = parameters.flag("dry_run")?;
    let prune = parameters.one("prune")?.map_or_else(|| Ok(Vec::new()), kinds)?;
    let (parts, body) = request.into_parts();
    let revision = expected_revision(&parts.headers)?;
    // Before the body is read: a caller that sends several documents at once holds few in memory.
    let ticket = app.queues.documents.enter(&session.caller())?;
    let bound = match session.tenant() {
        Some(_) => app.tenant_document_bound,
        None => app.document_bound,
    };
    let body = read_json(&parts.headers, body, bound, app.request_timeout).await?;
    accept_body(&app, &parts, body.len())?;
    let document = ticket.run(async move { read_document(&body) }).await??;
    let intent = Intent::Apply { document: Box::new(document), prune, revision };
    let written = write(&app, &session, intent, dry_run).await?;
    let Session { mut fields, .. } = session;
    fields.insert(header::ETAG, tag(written.version.revision.number));
    let answer = async move { Json(ChangesAnswer::new(&written, dry_run)).into_response() };
    Ok((fields, ticket.run(answer).await?).into_response())
}

/// Parses a body as a policy document.
pub(super) fn read_document(body: &[u8]) -> Result<PolicyDocument, Problem> {
    let source = Source::parse_as(text_of(body)?, Format::Json);
    if !source.problems.is_empty() {
        return Err(invalid(&source.problems));
    }
    Ok(source.document)
}

/// The revision that the catalog has to be at for the change to be made.
pub(super) fn expected_revision(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    match expectation(headers, Expect::Anything)? {
        Expect::Anything | Expect::Present => Ok(None),
        Expect::Version(revision) => Ok(Some(revision)),
        Expect::Absent => Err(Problem::bad_request(
            "invalid_condition",
            "there always is a policy: write `If-Match` with the ETag of a dry run",
        )),
    }
}

/// The lists of a document that are not empty, in their order.
pub(super) type PolicyAnswer = Vec<(&'static str, Vec<Box<RawValue>>)>;

/// An object with these fields, in this order.
pub(super) fn in_order(lists: PolicyAnswer) -> impl Serialize {
    struct Lists(PolicyAnswer);

    impl Serialize for Lists {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(list, entries)| (list, entries)))
        }
    }

    Lists(lists)
}

fn kinds(lists: &str) -> Result<Vec<Kind>, Problem> {
    let names = lists.split(',').map(str::trim).filter(|name| !name.is_empty());
    let kind = |name: &str| {
        Kind::POLICY.into_iter().find(|kind| kind.plural() == name).ok_or_else(|| {
            let lists = Kind::POLICY.map(Kind::plural).join(", ");
            Problem::bad_request("invalid_query", format!("`prune` takes lists: {lists}"))
        })
    };
    names.map(kind).collect()
}
