//! What lists, clients and overrides have in common: pages of entries, one that is put, one that goes.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, Uri, header};
use serde_json::value::RawValue;
use tollgate::rules::{Client, Listed, PolicyDocument, Problem as Flaw, SECRET_DIGEST};
use tollgate_catalog::{
    Catalog, Edit, Entry, Expect, Filter, Intent, Kind, Stored, client_name, listed_name,
    override_name,
};
use utoipa::IntoResponses;

use super::rules::status_of;
use crate::admin::{dry_run_answer, expectation, field, invalid, refusal, shown, tag, write};
use crate::extract::Session;
use crate::paging::{Parameters, link_next};
use crate::problem::{Problem, ProblemBody};
use crate::rulebook::Rulebook;
use crate::state::ServerState;

/// Why a page of entries is not shown.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "describes answers that problems make")]
pub(crate) enum PageProblems {
    /// The query cannot be read
    #[response(status = 400, content_type = "application/problem+json")]
    Query(ProblemBody<'static>),
    /// The catalog cannot be asked
    #[response(status = 503, content_type = "application/problem+json")]
    Catalog(ProblemBody<'static>),
}

/// The parameters of every page of entries.
const PAGE: [&str; 5] = ["limit", "after", "detail", "identifier_type", "identifier"];

/// What entries of a kind are called together.
const fn list_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Rule => "rules",
        Kind::Tier => "tiers",
        Kind::Client => "clients",
        Kind::Override => "overrides",
        Kind::Whitelist => "whitelist",
        Kind::Blacklist => "blacklist",
        Kind::ApiKey => "api_keys",
        Kind::Token => "tokens",
        Kind::Ban => "bans",
    }
}

/// A page of entries, of which a query may want those that fit `filters`.
pub(crate) async fn page(
    app: &ServerState,
    session: Session,
    uri: &Uri,
    kind: Kind,
    filters: &[&str],
) -> Result<Response, Problem> {
    let parameters = Parameters::read(uri, &[&PAGE, filters].concat())?;
    let (limit, after) = (parameters.limit()?, parameters.one("after")?);
    let detail = parameters.flag("detail")?;
    let filter = filter(&parameters, kind, session.tenant())?;
    let mut fields = session.fields;
    let (entries, next) = match &app.rulebook {
        Rulebook::Catalog(follower) => {
            let page = follower.catalog.page(kind, &filter, after, limit).await;
            let page = page.map_err(|error| refusal(&error))?;
            (page.entries.iter().map(|stored| shown(stored, detail)).collect(), page.next)
        }
        Rulebook::File(source) => {
            page_of_file(&source.loaded.load().document, kind, &filter, after, limit)
        }
    };
    link_next(&mut fields, uri, "after", next.as_deref());
    Ok((fields, Json(BTreeMap::from([(list_name(kind), entries)]))).into_response())
}

/// Which entries a query wants. Whoever is named is found however it is written.
fn filter(parameters: &Parameters, kind: Kind, tenant: Option<String>) -> Result<Filter, Problem> {
    let (types, values) = identifiers(parameters);
    if types.is_empty() || values.is_empty() {
        return parameters.filter(tenant);
    }
    let (identifier_type, identifier) = columns(kind, &types, &values).map_err(|it| wrong(&it))?;
    Ok(Filter {
        tenant: tenant.map_or_else(|| parameters.owned("tenant"), |own| Ok(Some(own)))?,
        rule_id: parameters.owned("rule_id")?,
        tier: parameters.owned("tier")?,
        identifier_type: Some(identifier_type),
        identifier: Some(identifier),
        enabled: None,
    })
}

/// Who is named, in the form that catalogs look for: plain if it is by one identifier.
fn columns(kind: Kind, types: &[String], values: &[String]) -> Result<(String, String), Flaw> {
    let names = if matches!(kind, Kind::Whitelist | Kind::Blacklist) {
        Listed::new(types, values)?.names()
    } else {
        Client::new(types, values)?.names()
    };
    let (types, values): (Vec<String>, Vec<String>) = names.into_iter().unzip();
    let joined = |parts: &[String]| match parts {
        [one] => one.clone(),
        parts => serde_json::to_string(parts).unwrap_or_default(),
    };
    Ok((joined(&types), joined(&values)))
}

fn page_of_file(
    document: &PolicyDocument,
    kind: Kind,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
) -> (Vec<Box<RawValue>>, Option<String>) {
    let found = entries_of(document, kind)
        .into_iter()
        .filter(|entry| is_wanted(entry, filter, document))
        .filter_map(|entry| Some((entry.name().ok()?, entry)));
    let (entries, next) = page_of(found, after, limit);
    let bodies = entries.iter().map(Entry::body);
    (bodies.filter_map(|body| RawValue::from_string(body).ok()).collect(), next)
}

/// At most `limit` of those behind `after`, in the order of their names, and where more begin.
pub(crate) fn page_of<T>(
    all: impl Iterator<Item = (String, T)>,
    after: Option<&str>,
    limit: usize,
) -> (Vec<T>, Option<String>) {
    let behind = |name: &str| after.is_none_or(|after| name > after);
    let mut found: Vec<(String, T)> = all.filter(|(name, _)| behind(name)).collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|(name, _)| name.clone());
    (found.into_iter().map(|(_, it)| it).collect(), next)
}

fn entries_of(document: &PolicyDocument, kind: Kind) -> Vec<Entry> {
    let PolicyDocument { clients, overrides, whitelist, blacklist, .. } = document;
    match kind {
        Kind::Client => clients.iter().cloned().map(Entry::Client).collect(),
        Kind::Override => overrides.iter().cloned().map(Entry::Override).collect(),
        Kind::Whitelist => whitelist.iter().cloned().map(Entry::Whitelist).collect(),
        Kind::Blacklist => blacklist.iter().cloned().map(Entry::Blacklist).collect(),
        _ => Vec::new(),
    }
}

fn is_wanted(entry: &Entry, filter: &Filter, document: &PolicyDocument) -> bool {
    let (rule_id, tier, types, values) = match entry {
        Entry::Client(it) => (None, Some(&it.tier), &it.identifier_type, &it.identifier),
        Entry::Override(it) => (Some(&it.rule_id), None, &it.identifier_type, &it.identifier),
        Entry::Whitelist(it) | Entry::Blacklist(it) => {
            (None, None, &it.identifier_type, &it.identifier)
        }
        _ => return false,
    };
    let rule = rule_id.and_then(|id| document.rules.iter().find(|rule| rule.rule_id == *id));
    let tenant = rule.map_or_else(|| entry.tenant(), |rule| rule.tenant.as_deref());
    let Ok((types, values)) = columns(entry.kind(), types, values) else { return false };
    let fits = |wanted: &Option<String>, is: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
    };
    fits(&filter.tenant, tenant)
        && fits(&filter.rule_id, rule_id.map(String::as_str))
        && fits(&filter.tier, tier.map(String::as_str))
        && fits(&filter.identifier_type, Some(&types))
        && (fits(&filter.identifier, Some(&values)) || is_key(filter, &values))
}

/// Whether a query names a client by an API key alone, without its type, and these values are its digest.
fn is_key(filter: &Filter, values: &str) -> bool {
    let key = filter.identifier.as_deref().filter(|_| filter.identifier_type.is_none());
    key.is_some_and(|key| (SECRET_DIGEST.of)(key) == values)
}

/// The entry that a body describes, where entries can be written. `body` may have to be made first,
/// which is done where no check waits for it.
pub(crate) async fn read<B: AsRef<[u8]>>(
    app: &ServerState,
    session: &Session,
    kind: Kind,
    body: impl FnOnce() -> B + Send + 'static,
) -> Result<Entry, Problem> {
    app.rulebook.catalog()?;
    let reading = async move {
        Entry::parse(kind, text_of(body().as_ref())?).map_err(|problems| invalid(&problems))
    };
    app.queues.parsing.run(&session.caller(), reading).await?
}

/// A body as the text that it has to be.
pub(crate) fn text_of(body: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(body)
        .map_err(|_| Problem::bad_request("invalid_body", "the body is not UTF-8"))
}

/// Whether a call only wants to know what would change; its query says nothing else.
pub(crate) fn is_dry_run(uri: &Uri) -> Result<bool, Problem> {
    Parameters::read(uri, &["dry_run"])?.flag("dry_run")
}

/// Makes an entry or changes it, and answers with what it is now.
pub(crate) async fn put(
    app: &ServerState,
    session: Session,
    uri: &Uri,
    headers: &HeaderMap,
    entry: Entry,
) -> Result<Response, Problem> {
    let dry_run = is_dry_run(uri)?;
    let expect = expectation(headers, Expect::Anything)?;
    let (kind, name) = (entry.kind(), entry.name().map_err(|flaw| invalid(&[flaw]))?);
    let catalog = &app.rulebook.catalog()?.catalog;
    if let Some(own) = session.tenant()
        && owner(catalog, &entry).await?.as_deref() != Some(&own)
    {
        return Err(other_tenant(kind, &own));
    }
    let intent = Intent::Edits(vec![Edit::Put { entry, expect }]);
    let written = write(app, &session, intent, dry_run).await?;
    if dry_run {
        return Ok(dry_run_answer(session, &written));
    }
    let stored = find_kept(catalog, kind, &name).await?;
    let mut fields = session.fields;
    fields.insert(header::ETAG, tag(stored.version));
    Ok((status_of(&written), fields, Json(shown(&stored, true))).into_response())
}

/// Removes an entry. To a tenant's administrator, those of others are not there.
pub(crate) async fn remove(
    app: &ServerState,
    session: Session,
    headers: &HeaderMap,
    (kind, name): (Kind, String),
    dry_run: bool,
) -> Result<Response, Problem> {
    let expect = expectation(headers, Expect::Present)?;
    let catalog = &app.rulebook.catalog()?.catalog;
    let stored = find_kept(catalog, kind, &name).await?;
    if session.tenant().is_some_and(|own| stored.tenant.as_deref() != Some(&own)) {
        return Err(missing(kind));
    }
    remove_expected(app, session, Edit::Remove { kind, name, expect }, dry_run).await
}

/// Removes the entry of the client that a query names.
pub(crate) async fn remove_named(
    app: &ServerState,
    session: Session,
    uri: &Uri,
    headers: &HeaderMap,
    kind: Kind,
) -> Result<Response, Problem> {
    let known: &[&str] = match kind {
        Kind::Override => &["rule_id", "identifier_type", "identifier", "dry_run"],
        _ => &["identifier_type", "identifier", "dry_run"],
    };
    let parameters = Parameters::read(uri, known)?;
    let (types, values) = identifiers(&parameters);
    let name = match kind {
        Kind::Override => override_name(rule_of(&parameters)?, &types, &values),
        Kind::Client => client_name(&types, &values),
        _ => listed_name(&types, &values),
    };
    let name = name.map_err(|flaw| wrong(&flaw))?;
    remove(app, session, headers, (kind, name), parameters.flag("dry_run")?).await
}

/// Makes an edit that removes an entry, and says no more than that it is gone.
pub(crate) async fn remove_expected(
    app: &ServerState,
    session: Session,
    removal: Edit,
    dry_run: bool,
) -> Result<Response, Problem> {
    let written = write(app, &session, Intent::Edits(vec![removal]), dry_run).await?;
    if dry_run {
        return Ok(dry_run_answer(session, &written));
    }
    Ok((StatusCode::NO_CONTENT, session.fields).into_response())
}

/// The identifiers that a query names, each as often as it is there.
fn identifiers(parameters: &Parameters) -> (Vec<String>, Vec<String>) {
    let all = |name: &str| parameters.all(name).map(str::to_owned).collect();
    (all("identifier_type"), all("identifier"))
}

/// What is wrong with a client that a query names.
pub(crate) fn wrong(flaw: &Flaw) -> Problem {
    Problem::bad_request("invalid_query", flaw.to_string())
}

/// The rule that an override is an exception from, which has to be said.
pub(crate) fn rule_of(parameters: &Parameters) -> Result<&str, Problem> {
    let detail = "`rule_id` is missing: name the rule of the override";
    let rule_id = parameters.one("rule_id")?;
    rule_id.ok_or_else(|| Problem::bad_request("invalid_query", detail))
}

/// An entry that has to be there.
pub(crate) async fn find_kept(
    catalog: &Catalog,
    kind: Kind,
    name: &str,
) -> Result<Stored, Problem> {
    find(catalog, kind, name).await?.ok_or_else(|| missing(kind))
}

pub(crate) async fn find(
    catalog: &Catalog,
    kind: Kind,
    name: &str,
) -> Result<Option<Stored>, Problem> {
    catalog.find(kind, name).await.map_err(|error| refusal(&error))
}

/// The tenant that an entry belongs to: an override to that of its rule.
async fn owner(catalog: &Catalog, entry: &Entry) -> Result<Option<String>, Problem> {
    let Entry::Override(exception) = entry else { return Ok(entry.tenant().map(str::to_owned)) };
    let rule = find(catalog, Kind::Rule, &exception.rule_id).await?;
    Ok(rule.and_then(|rule| field(&rule, "tenant").as_str().map(str::to_owned)))
}

fn missing(kind: Kind) -> Problem {
    let (code, detail) = match kind {
        Kind::ApiKey => ("unknown_api_key", "there is no such API key"),
        Kind::Token => ("unknown_token", "there is no such token"),
        Kind::Override => ("unknown_entry", "there is no such override"),
        Kind::Client => ("unknown_entry", "this client is in no tier of its own"),
        _ => ("unknown_entry", "this client is not on the list"),
    };
    Problem::not_found(code, detail)
}

/// The same whether others have such an entry, or nobody.
fn other_tenant(kind: Kind, own: &str) -> Problem {
    let advice = match kind {
        Kind::Override => "name a rule of that tenant",
        _ => "add the identifier_type `tenant`, and the tenant to the identifier",
    };
    let list = list_name(kind);
    let detail = format!("{list}: this is no entry of the tenant {own}; {advice}");
    Problem::new(StatusCode::FORBIDDEN, "other_tenant", detail)
}
