//! `GET /api/v1/audit` and `/api/v1/audit/decisions`: who changed what, and who was refused; in pages,
//! or all of it as JSON lines.

use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Uri, header};
use serde::Serialize;
use serde_json::value::RawValue;
use tollgate_catalog::{
    AuditFilter, AuditKind, Catalog, ClientFilter, DecisionAction, DecisionFilter, Kind,
};
use utoipa::{IntoResponses, ToSchema};

use crate::admin::auth::Right;
use crate::admin::refusal;
use crate::app::state::ServerState;
use crate::edge::http::extract::{RuleViewer, Session};
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::{Parameters, link_next};
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::observe::audit_log::log::{ChangeEntry, DecisionEntry, Log, LogQuery};
use crate::observe::audit_log::{recorded, shortened};
use crate::policy::source::PolicySource;

const LINES: &str = "application/x-ndjson";

/// Changes of the catalog, the newest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written record by record")]
pub(crate) struct ChangesPage {
    /// The changes.
    records: Vec<ChangeEntry>,
}

/// Decisions, the newest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written record by record")]
pub(crate) struct DecisionsPage {
    /// The decisions.
    records: Vec<DecisionEntry>,
}

/// Why a log is not shown.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes responses that `Problem` makes")]
pub(crate) enum LogProblems {
    /// The query cannot be read
    #[response(status = 400, content_type = "application/problem+json")]
    Query(ProblemBody<'static>),
    /// The rules come from a file, so there is no log; or no token has that id or name
    #[response(status = 404, content_type = "application/problem+json")]
    NoLog(ProblemBody<'static>),
    /// The catalog is unavailable, or too many exports are running
    #[response(status = 503, content_type = "application/problem+json")]
    Catalog(ProblemBody<'static>),
}

#[derive(Serialize)]
struct Records {
    records: Vec<Box<RawValue>>,
}

/// Lists who changed what and reset which counters, when and from where, the newest first.
///
/// Changes of tokens are shown to administrators only. With `Accept: application/x-ndjson` all of it is sent, one
/// record a line.
#[utoipa::path(
    get, path = "/api/v1/audit", tag = "audit", security(("token" = [])),
    params(
        ("actor" = Option<String>, Query, description = "Only changes by this token, by its id or its name, or part of the program"),
        ("kind" = Option<String>, Query, description = "Only changes of entries of this kind: rule, tier, client, override, whitelist, blacklist, api_key, token, ban; or `counters` for resets"),
        ("entry" = Option<String>, Query, description = "Only changes of the entry of this name"),
        ("tenant" = Option<String>, Query, description = "Only changes of entries of this tenant"),
        ("since" = Option<String>, Query, description = "Only changes from then on, in RFC 3339"),
        ("until" = Option<String>, Query, description = "Only changes before then, in RFC 3339"),
        ("limit" = Option<u16>, Query, description = "How many at most; 100 if not given, never more than 1000", minimum = 1, maximum = 1000),
        ("before" = Option<String>, Query, description = "Continue before this change; the `Link` header of a page says where"),
    ),
    responses(
        (status = 200, description = "The changes", content((ChangesPage = "application/json"), (String = "application/x-ndjson"))),
        LogProblems,
        AdminProblems,
    )
)]
pub(crate) async fn changes(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let known = ["actor", "kind", "entry", "tenant", "since", "until", "limit", "before"];
    let query = Parameters::read(&uri, &known)?;
    let kinds: Vec<_> = AuditKind::all().map(|kind| (kind.name(), kind)).collect();
    let kind = one_of(&query, "kind", &kinds)?;
    let without_tokens = !session.may(Right::Admin);
    if without_tokens && kind == Some(Kind::Token.into()) {
        return Err(session.lacks(Right::Admin));
    }
    let span = query.span()?;
    let filter = AuditFilter {
        // A tenant's administrator gets the changes of that tenant only.
        tenant: session.tenant().map_or_else(|| query.owned("tenant"), |own| Ok(Some(own)))?,
        actors: actors(&app, &session, query.one("actor")?).await?,
        kind,
        without_tokens,
        entry: query.owned("entry")?,
        since: span.since,
        until: span.until,
    };
    let wanted = LogQuery::Changes(filter, place(&query)?);
    answer(&app, session, &uri, &headers, &query, wanted).await
}

/// Lists decisions that were kept, the newest first: all refused, denied and throttled ones, and a
/// sample of the others.
///
/// They are written within seconds. Administrators of a tenant see those about its requests, without rules of others. With `Accept: application/x-ndjson` all of it is sent, one record a
/// line.
#[utoipa::path(
    get, path = "/api/v1/audit/decisions", tag = "audit", security(("token" = [])),
    params(
        ("client" = Option<String>, Query, description = "Only decisions about this client, by any of its identifiers: its user, its address, its API key or the digest of that"),
        ("client_type" = Option<String>, Query, description = "Which identifier `client` is: user_id, api_key, ip, tenant, or another that rules count by"),
        ("rule_id" = Option<String>, Query, description = "Only decisions that this rule made, or would have made as a shadow rule or candidate"),
        ("action" = Option<String>, Query, description = "Only those that ended like this: refused, denied (on the deny list or banned), throttled, allowed, would_refuse; several are separated by commas"),
        ("tenant" = Option<String>, Query, description = "Only decisions about requests of this tenant"),
        ("since" = Option<String>, Query, description = "Only decisions from then on, in RFC 3339"),
        ("until" = Option<String>, Query, description = "Only decisions before then, in RFC 3339"),
        ("limit" = Option<u16>, Query, description = "How many at most; 100 if not given, never more than 1000", minimum = 1, maximum = 1000),
        ("before" = Option<String>, Query, description = "Continue before this decision; the `Link` header of a page says where"),
    ),
    responses(
        (status = 200, description = "The decisions", content((DecisionsPage = "application/json"), (String = "application/x-ndjson"))),
        LogProblems,
        AdminProblems,
    )
)]
pub(crate) async fn decisions(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let known = [
        "client",
        "client_type",
        "rule_id",
        "action",
        "tenant",
        "since",
        "until",
        "limit",
        "before",
    ];
    let query = Parameters::read(&uri, &known)?;
    let actions = DecisionAction::ALL.map(|action| (action.name(), action));
    let span = query.span()?;
    let filter = DecisionFilter {
        decision_id: None,
        client: client(&query)?,
        rule_id: query.owned("rule_id")?.map(|rule_id| {
            let is_seen = app.is_rule_of(&rule_id, session.tenant().as_deref());
            // No rule has an empty id: by a rule of others nothing is found, as by one that does not exist.
            if is_seen { rule_id } else { String::new() }
        }),
        actions: any_of(&query, "action", &actions)?,
        // A tenant's administrator gets the decisions about that tenant only.
        tenant: session
            .tenant()
            .map_or_else(|| query.owned("tenant"), |own| Ok(Some(own)))?
            .map(|tenant| shortened(&tenant).to_owned()),
        since: span.since,
        until: span.until,
    };
    let wanted = LogQuery::Decisions(filter, place(&query)?);
    answer(&app, session, &uri, &headers, &query, wanted).await
}

/// The client that a query names, as it is recorded.
fn client(query: &Parameters) -> Result<Option<ClientFilter>, Problem> {
    let kind = query.owned("client_type")?;
    let Some(value) = query.one("client")? else {
        return match kind {
            Some(_) => Err(Problem::bad_request(
                "invalid_query",
                "`client_type` says what `client` is: name the client, too",
            )),
            None => Ok(None),
        };
    };
    let value = recorded(kind.as_deref(), value);
    Ok(Some(ClientFilter { kind, value }))
}

/// The tokens or parts of the program that a filter names, by id or name; none for all.
async fn actors(
    app: &ServerState,
    session: &Session,
    named: Option<&str>,
) -> Result<Vec<String>, Problem> {
    let Some(named) = named else { return Ok(Vec::new()) };
    // Administrators of a tenant do not see the names of operators.
    if session.tenant().is_some() {
        return Ok(vec![named.to_owned()]);
    }
    let found = catalog(app)?.actors(named).await.map_err(|error| refusal(&error))?;
    if found.is_empty() {
        let detail = format!(
            "`actor`: no token has the id or the name `{named}`, and no part of the program of that name has changed anything"
        );
        return Err(Problem::not_found("unknown_actor", detail));
    }
    Ok(found)
}

/// A page of a log, or all of it if lines are wanted.
async fn answer(
    app: &ServerState,
    session: Session,
    uri: &Uri,
    headers: &HeaderMap,
    query: &Parameters,
    wanted: LogQuery,
) -> Result<Response, Problem> {
    let mut log =
        Log { app: app.clone(), catalog: catalog(app)?, tenant: session.tenant(), wanted };
    let mut fields = session.fields;
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let limit = query.limit()?;
    if accepts(headers, LINES) {
        let most = query.one("limit")?.map_or(usize::MAX, |_| limit);
        let body = app.audit_log.exports.begin(log, most).await?;
        return Ok((fields, [(header::CONTENT_TYPE, LINES)], body).into_response());
    }
    let page = log.page(limit).await.map_err(|error| refusal(&error))?;
    link_next(&mut fields, uri, "before", page.next.as_deref());
    Ok((fields, Json(Records { records: page.records })).into_response())
}

/// Whether the `Accept` header of a client names a type.
pub(crate) fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut types = lines.flat_map(|line| line.split(','));
    types.any(|one| one.split(';').next().unwrap_or("").trim().eq_ignore_ascii_case(wanted))
}

fn catalog(app: &ServerState) -> Result<Arc<Catalog>, Problem> {
    match &app.policy_source {
        PolicySource::Catalog(catalog_sync) => Ok(Arc::clone(&catalog_sync.catalog)),
        PolicySource::File(_) => Err(Problem::not_found(
            "no_log",
            "the rules come from a file, so changes and decisions are not kept; start the server with \
             a catalog instead (--catalog)",
        )),
    }
}

/// A parameter whose value is one of the given words.
fn one_of<T: Copy>(
    query: &Parameters,
    name: &str,
    words: &[(&str, T)],
) -> Result<Option<T>, Problem> {
    query.one(name)?.map(|text| meant(name, text, words)).transpose()
}

/// A parameter with one or several of the given words, separated by commas.
fn any_of<T: Copy>(query: &Parameters, name: &str, words: &[(&str, T)]) -> Result<Vec<T>, Problem> {
    let texts = query.one(name)?.into_iter().flat_map(|texts| texts.split(','));
    texts.map(|text| meant(name, text, words)).collect()
}

fn meant<T: Copy>(name: &str, text: &str, words: &[(&str, T)]) -> Result<T, Problem> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meant)| *meant);
    found.ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let detail = format!("`{name}` is one of {}", words.join(", "));
        Problem::bad_request("invalid_query", detail)
    })
}

fn place<T: FromStr>(query: &Parameters) -> Result<Option<T>, Problem> {
    let Some(text) = query.owned("before")? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let detail = "`before` is no place in this log; the `Link` header of a page names one";
        Problem::bad_request("invalid_query", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_are_sent_only_if_accept_names_them() {
        let check = |values: &[&str], expected: bool| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::ACCEPT, value.parse().expect("a header value"));
            }
            assert_eq!(accepts(&headers, LINES), expected, "{values:?}");
        };
        check(&["application/x-ndjson"], true);
        check(&["application/json, Application/X-NDJSON;q=0.9"], true);
        check(&["text/html", "application/x-ndjson"], true);
        check(&["application/json"], false);
        check(&["*/*"], false);
        check(&[""], false);
        check(&[], false);
    }
}
