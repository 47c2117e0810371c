//! Creates, replaces, patches and removes entries.

use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use serde_json::Value as JsonValue;
use tollgate_catalog::{
    Catalog, CatalogError, Edit, Entry, Expect, Intent, Kind, Stored, Update, client_name,
    listed_name, override_name,
};
use tollgate_document::{Format, position_of, read_as, segments};

use super::call::AdminCall;
use super::read::{find, identifiers};
use super::resources::{EntryKey, Resource};
use super::response::{
    RuleWritten, dry_run_response, invalid, missing, refusal, shown, tag, wrong,
};
use crate::app::state::ServerState;
use crate::edge::http::extract::Session;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::Problem;

/// The largest patch whose problems get a place: it is read again for that, on a thread that checks wait for.
const MAX_PLACED_BYTES: usize = 64 * 1024;

/// Creates or replaces an entry.
pub(crate) async fn put(
    mut call: AdminCall,
    resource: &'static Resource,
) -> Result<Response, Problem> {
    let body = call.json().await?;
    let AdminCall { app, session, parts, .. } = call;
    let entry = parse(&app, &session, resource.kind, move || body).await?;
    put_entry(&app, session, &parts.uri, &parts.headers, resource, entry).await
}

/// Creates or replaces an entry at the path of its id, which the body may leave out.
pub(crate) async fn put_item(
    mut call: AdminCall,
    resource: &'static Resource,
    field: &'static str,
) -> Result<Response, Problem> {
    let body = call.json().await?;
    call.app.policy_source.catalog()?;
    let id = call.id().await?;
    let AdminCall { app, session, parts, .. } = call;
    let name = id.clone();
    let body = move || with_field(&body, field, &name);
    let entry = parse(&app, &session, resource.kind, body).await?;
    if entry.name().as_deref().ok() != Some(id.as_str()) {
        let detail = format!("the {field} in the body is another one than in the path");
        return Err(Problem::unprocessable("invalid_document", detail));
    }
    put_entry(&app, session, &parts.uri, &parts.headers, resource, entry).await
}

/// Changes some fields of an entry by a JSON merge patch.
pub(crate) async fn patch(
    mut call: AdminCall,
    resource: &'static Resource,
) -> Result<Response, Problem> {
    let body = call.json().await?;
    let catalog = Arc::clone(&call.app.policy_source.catalog()?.catalog);
    let (kind, name) = (resource.kind, call.id().await?);
    let AdminCall { app, session, parts, .. } = call;
    let sent = body.clone();
    let reading = async move { serde_json::from_slice(&body).ok().filter(JsonValue::is_object) };
    let fields = app.queues.parsing.run(&session.caller(), reading).await?;
    let fields = fields
        .ok_or_else(|| Problem::bad_request("invalid_body", "send a JSON object of fields"))?;
    let dry_run = is_dry_run(&parts.uri)?;
    let expect = expectation(&parts.headers, Expect::Present)?;
    if let Some(tenant) = session.tenant() {
        let stored = find_visible(&catalog, &session, kind, &name).await?;
        let stored = stored.ok_or_else(|| missing(kind, &name))?;
        // The log keeps the whole entry, however short the patch is.
        app.guard.tenant_write(&tenant, stored.body.len())?;
    }
    let patch = Edit::Patch { kind, name: name.clone(), fields, expect };
    write_entry(&app, session, (kind, &name), patch, dry_run, Some(&sent)).await
}

/// Removes an entry.
pub(crate) async fn delete(
    mut call: AdminCall,
    resource: &'static Resource,
    key: &'static EntryKey,
) -> Result<Response, Problem> {
    let kind = resource.kind;
    let (name, dry_run) = match key {
        EntryKey::Id(_) => (call.id().await?, is_dry_run(&call.parts.uri)?),
        EntryKey::Client { rule, .. } => {
            let mut known = vec!["identifier_type", "identifier", "dry_run"];
            if rule.is_some() {
                known.insert(0, "rule_id");
            }
            let parameters = Parameters::read(&call.parts.uri, &known)?;
            let (types, values) = identifiers(&parameters);
            let name = match kind {
                Kind::Override => override_name(rule_of(&parameters)?, &types, &values),
                Kind::Client => client_name(&types, &values),
                _ => listed_name(&types, &values),
            };
            (name.map_err(|flaw| wrong(&flaw))?, parameters.flag("dry_run")?)
        }
    };
    let AdminCall { app, session, parts, .. } = call;
    remove(&app, session, &parts.headers, (kind, name), dry_run).await
}

/// Creates or replaces an entry, and responds with what is stored.
pub(crate) async fn put_entry(
    app: &ServerState,
    session: Session,
    uri: &Uri,
    headers: &HeaderMap,
    resource: &Resource,
    entry: Entry,
) -> Result<Response, Problem> {
    let dry_run = is_dry_run(uri)?;
    let expect = expectation(headers, Expect::Anything)?;
    let (kind, name) = (entry.kind(), entry.name().map_err(|flaw| invalid(&[flaw]))?);
    let advice = resource.put.as_ref().and_then(|put| put.advice);
    if let (Some(own), Some(advice)) = (session.tenant(), advice)
        && owner(&app.policy_source.catalog()?.catalog, &entry).await?.as_deref() != Some(&own)
    {
        let list = kind.plural();
        let detail = format!("{list}: this is no entry of the tenant {own}; {advice}");
        return Err(Problem::new(StatusCode::FORBIDDEN, "other_tenant", detail));
    }
    write_entry(app, session, (kind, &name), Edit::Put { entry, expect }, dry_run, None).await
}

/// Removes an entry. To a tenant's administrator, entries of others do not exist.
pub(crate) async fn remove(
    app: &ServerState,
    session: Session,
    headers: &HeaderMap,
    (kind, name): (Kind, String),
    dry_run: bool,
) -> Result<Response, Problem> {
    let expect = expectation(headers, Expect::Present)?;
    let catalog = &app.policy_source.catalog()?.catalog;
    // For operators, the catalog reports an unknown rule.
    if (kind != Kind::Rule || session.tenant().is_some())
        && find_visible(catalog, &session, kind, &name).await?.is_none()
    {
        return Err(missing(kind, &name));
    }
    // An admin token in the settings is always valid, so the last one of the catalog may go.
    let removal = if kind == Kind::Token && !app.has_admin_in_settings() {
        Intent::RevokeToken { token_id: name, expect, now: app.now() }
    } else {
        Intent::Edits(vec![Edit::Remove { kind, name, expect }])
    };
    let update = write(app, &session, removal, dry_run).await?;
    if dry_run {
        return Ok(dry_run_response(session, &update));
    }
    Ok((StatusCode::NO_CONTENT, session.fields).into_response())
}

/// Writes one entry, and responds with what is stored. `sent` is the text that problems of a patch are placed in.
async fn write_entry(
    app: &ServerState,
    session: Session,
    (kind, name): (Kind, &str),
    edit: Edit,
    dry_run: bool,
    sent: Option<&[u8]>,
) -> Result<Response, Problem> {
    let update = try_write(app, &session, Intent::Edits(vec![edit]), dry_run).await?;
    let update = update.map_err(|error| refusal(&place_in(sent, error)))?;
    if dry_run {
        return Ok(dry_run_response(session, &update));
    }
    let stored = find(&app.policy_source.catalog()?.catalog, kind, name).await?;
    let stored = stored.ok_or_else(|| missing(kind, name))?;
    let mut fields = session.fields;
    fields.insert(header::ETAG, tag(stored.version));
    let is_new = update.changes.iter().any(|change| change.before.is_none());
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    // An unchanged entry is only known as text.
    let after =
        update.changes.iter().find(|change| change.kind == kind).and_then(|it| it.after.clone());
    Ok(match after.map_or_else(|| stored.parse().ok().map(Arc::new), Some).as_deref() {
        Some(Entry::Rule(rule)) => {
            (status, fields, Json(RuleWritten::new(&stored, rule.enabled))).into_response()
        }
        _ => (status, fields, Json(shown(&stored, true))).into_response(),
    })
}

/// Writes to the catalog; the change is in force on this node when this returns. It is completed even if the caller
/// disconnects.
pub(crate) async fn write(
    app: &ServerState,
    session: &Session,
    intent: Intent,
    dry_run: bool,
) -> Result<Update, Problem> {
    try_write(app, session, intent, dry_run).await?.map_err(|error| refusal(&error))
}

/// Writes like [`write`]. The inner error is the catalog's.
async fn try_write(
    app: &ServerState,
    session: &Session,
    intent: Intent,
    dry_run: bool,
) -> Result<Result<Update, CatalogError>, Problem> {
    let catalog = Arc::clone(&app.policy_source.catalog()?.catalog);
    // The body may have waited for its turn.
    app.confirm(&session.principal)?;
    let (author, now) = (session.author(), app.now());
    let writing = async move { Box::pin(catalog.write(&author, intent, now, dry_run)).await };
    let update = match app.queues.writes.run(&session.caller(), writing).await? {
        Ok(update) => update,
        Err(error) => return Ok(Err(error)),
    };
    if !dry_run && !update.changes.is_empty() {
        // `sync` logs a failure; the next sync then puts the change into force.
        let _ = app.sync().await;
        if let Ok(catalog_sync) = app.policy_source.catalog() {
            catalog_sync.written.notify_one();
        }
        if update.changes.iter().any(|change| matches!(change.kind, Kind::Rule | Kind::Tier)) {
            let app = app.clone();
            tokio::spawn(async move {
                if let Ok(catalog_sync) = app.policy_source.catalog() {
                    catalog_sync.announce().await;
                }
            });
        }
    }
    Ok(Ok(update))
}

/// Gives problems of a merged entry their places in the patch, if its fields are what is wrong.
fn place_in(sent: Option<&[u8]>, error: CatalogError) -> CatalogError {
    let sent = sent.filter(|sent| sent.len() <= MAX_PLACED_BYTES);
    let root = sent.and_then(|sent| read_as(std::str::from_utf8(sent).ok()?, Format::Json).ok());
    match (error, root) {
        (CatalogError::Invalid(mut problems), Some(root)) => {
            for problem in &mut problems {
                let place = || position_of(&root, &segments(&problem.path));
                problem.position = problem.position.or_else(place);
            }
            CatalogError::Invalid(problems)
        }
        (error, _) => error,
    }
}

/// Parses the entry in a body, where entries can be written, on a thread that no check waits for.
pub(crate) async fn parse<B: AsRef<[u8]>>(
    app: &ServerState,
    session: &Session,
    kind: Kind,
    body: impl FnOnce() -> B + Send + 'static,
) -> Result<Entry, Problem> {
    app.policy_source.catalog()?;
    let parsing = async move {
        Entry::parse(kind, text_of(body().as_ref())?).map_err(|problems| invalid(&problems))
    };
    app.queues.parsing.run(&session.caller(), parsing).await?
}

/// A body as text.
pub(crate) fn text_of(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|_| Problem::bad_request("invalid_body", "the body is not UTF-8"))
}

/// Whether a call is a dry run; its query has no other parameter.
pub(crate) fn is_dry_run(uri: &Uri) -> Result<bool, Problem> {
    Parameters::read(uri, &["dry_run"])?.flag("dry_run")
}

/// The condition of a write, by `If-Match` and `If-None-Match`.
pub(crate) fn expectation(headers: &HeaderMap, otherwise: Expect) -> Result<Expect, Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(otherwise),
        (None, Some("*")) => Ok(Expect::Absent),
        (Some("*"), None) => Ok(Expect::Present),
        (Some(tag), None) => {
            let version = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let version = version.and_then(|version| version.parse().ok());
            // An unknown tag matches no entry.
            Ok(Expect::Version(version.unwrap_or(u64::MAX)))
        }
        (_, Some(_)) => Err(Problem::bad_request(
            "invalid_condition",
            "write `If-Match` with the ETag of what is to be changed, or `If-None-Match: *` for what \
             must not be there yet",
        )),
    }
}

/// The rule of an override, in a query.
pub(crate) fn rule_of(parameters: &Parameters) -> Result<&str, Problem> {
    let detail = "`rule_id` is missing: name the rule of the override";
    let rule_id = parameters.one("rule_id")?;
    rule_id.ok_or_else(|| Problem::bad_request("invalid_query", detail))
}

/// The entry of that name, unless the caller administers another tenant.
async fn find_visible(
    catalog: &Catalog,
    session: &Session,
    kind: Kind,
    name: &str,
) -> Result<Option<Stored>, Problem> {
    let tenant = session.tenant();
    let found = find(catalog, kind, name).await?;
    Ok(found.filter(|stored| tenant.is_none() || stored.tenant == tenant))
}

/// The tenant of an entry: an override belongs to that of its rule.
async fn owner(catalog: &Catalog, entry: &Entry) -> Result<Option<String>, Problem> {
    let Entry::Override(exception) = entry else { return Ok(entry.tenant().map(str::to_owned)) };
    let rule = find(catalog, Kind::Rule, &exception.rule_id).await?;
    Ok(rule.and_then(|rule| rule.tenant))
}

/// The body with the id of the path in it, if it is an object without one.
fn with_field(body: &[u8], field: &str, id: &str) -> Vec<u8> {
    match serde_json::from_slice::<JsonValue>(body) {
        Ok(JsonValue::Object(fields)) if fields.contains_key(field) => body.to_vec(),
        _ => with_members(body, &[(field, id)]),
    }
}

/// Adds members to a JSON object, after all that was sent, so that positions of problems are those of the text as it
/// was sent. Anything else is returned as it is.
pub(crate) fn with_members(body: &[u8], members: &[(&str, &str)]) -> Vec<u8> {
    let Ok(JsonValue::Object(fields)) = serde_json::from_slice(body) else { return body.to_vec() };
    let mut text = body.trim_ascii_end().to_vec();
    text.pop();
    let mut comma = if fields.is_empty() { "" } else { "," };
    for (name, value) in members {
        let (name, value) = (JsonValue::from(*name), JsonValue::from(*value));
        text.extend_from_slice(format!("{comma}{name}:{value}").as_bytes());
        comma = ",";
    }
    text.push(b'}');
    text
}
