//! Lists entries of the catalog or of the rules file, and shows one of them.

use std::collections::BTreeMap;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::value::{RawValue, to_raw_value};
use tollgate::Timestamp;
use tollgate::rules::{Client, Listed, PolicyDocument, Problem as Flaw, SECRET_DIGEST, parse_time};
use tollgate_catalog::{Catalog, CatalogError, Entry, Filter, Kind, Stored, ban_name};

use super::call::AdminCall;
use super::resources::{ListCall, Resource};
use super::response::{as_shown, missing, refusal, shown, tag, wrong};
use crate::app::state::Shared;
use crate::edge::http::paging::{Parameters, link_next};
use crate::edge::http::problem::Problem;
use crate::edge::http::wire::time::rfc_3339_past;
use crate::policy::bans;
use crate::policy::catalog_sync::CatalogSync;
use crate::policy::source::PolicySource;

/// The header field of responses that were read while the catalog was unavailable.
const STALE_SINCE: HeaderName = HeaderName::from_static("x-tollgate-stale-since");

/// A page of entries as JSON, and the name after which the next page begins.
type Entries = (Vec<Box<RawValue>>, Option<String>);

/// Lists entries, page by page.
pub(crate) async fn list(
    call: AdminCall,
    resource: &'static Resource,
    list: &'static ListCall,
) -> Result<Response, Problem> {
    let AdminCall { app, session, parts, .. } = call;
    let query = list.query.iter().map(|(name, _)| *name);
    let known: Vec<&str> = ["limit", "after"].into_iter().chain(query).collect();
    let parameters = Parameters::read(&parts.uri, &known)?;
    let (limit, after) = (parameters.limit()?, parameters.one("after")?);
    let detail = parameters.flag("detail")?;
    let filter = filter(&parameters, resource.kind, session.tenant())?;
    let mut fields = session.fields;
    let (entries, next) = match (&app.policy_source, resource.kind) {
        (PolicySource::Catalog(catalog_sync), kind) => {
            let (catalog, stale_since) = catalog_sync.for_reading().await;
            mark_stale(&mut fields, stale_since);
            let detail = detail && stale_since.is_none();
            match catalog.page(kind, &filter, after, limit).await {
                Ok(page) => {
                    let entries = page.entries.iter().filter(|it| is_in_force(it, app.now()));
                    (entries.map(|stored| shown(stored, detail)).collect(), page.next)
                }
                // There is no copy of them either: this node started without the catalog.
                Err(CatalogError::Away(_)) if kind == Kind::Rule => {
                    mark_stale(&mut fields, Some(catalog_sync.stale_since()));
                    entries_of_file(&rules_in_force(catalog_sync), kind, &filter, after, limit)
                }
                Err(error) => return Err(refusal(&error)),
            }
        }
        (PolicySource::File(_), Kind::Ban) => bans_of_node(&app, &filter, after, limit),
        (PolicySource::File(source), kind) => {
            entries_of_file(&source.loaded.load().document, kind, &filter, after, limit)
        }
    };
    link_next(&mut fields, &parts.uri, "after", next.as_deref());
    if resource.kind == Kind::Rule {
        fields.insert(header::ETAG, tag(app.policy_source.in_force().revision.number));
    }
    Ok((fields, Json(BTreeMap::from([(resource.kind.plural(), entries)]))).into_response())
}

/// Shows one entry.
pub(crate) async fn get(
    mut call: AdminCall,
    resource: &'static Resource,
) -> Result<Response, Problem> {
    let name = call.id().await?;
    let AdminCall { app, session, parts, .. } = call;
    let detail = Parameters::read(&parts.uri, &["detail"])?.flag("detail")?;
    let tenant = session.tenant();
    let is_visible = |of: Option<&str>| tenant.is_none() || of == tenant.as_deref();
    let mut fields = session.fields;
    let entry = match &app.policy_source {
        PolicySource::Catalog(catalog_sync) => {
            let (catalog, stale_since) = catalog_sync.for_reading().await;
            mark_stale(&mut fields, stale_since);
            let found = match catalog.find(resource.kind, &name).await {
                Err(CatalogError::Away(_)) if resource.kind == Kind::Rule => {
                    mark_stale(&mut fields, Some(catalog_sync.stale_since()));
                    let view = catalog_sync.view();
                    let rule =
                        view.rules().get(&name).filter(|it| is_visible(it.tenant.as_deref()));
                    let rule = rule.ok_or_else(|| missing(resource.kind, &name))?;
                    return Ok((fields, Json(rule)).into_response());
                }
                found => found.map_err(|error| refusal(&error))?,
            };
            found.filter(|it| is_visible(it.tenant.as_deref())).map(|stored| {
                // The copy does not know the versions of entries, nor who wrote them.
                if stale_since.is_none() {
                    fields.insert(header::ETAG, tag(stored.version));
                }
                shown(&stored, detail && stale_since.is_none())
            })
        }
        PolicySource::File(source) => {
            let loaded = source.loaded.load();
            let mut entries = entries_of(&loaded.document, resource.kind).into_iter();
            let found = entries.find(|entry| entry.name().is_ok_and(|it| it == name));
            let found = found.filter(|entry| is_visible(entry.tenant()));
            found.and_then(|entry| to_raw_value(&entry).ok())
        }
    };
    let entry = entry.ok_or_else(|| missing(resource.kind, &name))?;
    Ok((fields, Json(entry)).into_response())
}

/// The rules that are in force on this node.
fn rules_in_force(catalog_sync: &CatalogSync) -> PolicyDocument {
    let rules = catalog_sync.view().rules().values().cloned().collect();
    PolicyDocument { rules, ..PolicyDocument::default() }
}

/// Marks a response that was read while the catalog was unavailable: when the catalog last responded.
pub(crate) fn mark_stale(fields: &mut HeaderMap, since: Option<Timestamp>) {
    if let Some(since) = since
        && let Ok(value) = HeaderValue::from_str(&rfc_3339_past(since))
    {
        fields.insert(STALE_SINCE, value);
    }
}

/// The entry of that name.
pub(crate) async fn find(
    catalog: &Catalog,
    kind: Kind,
    name: &str,
) -> Result<Option<Stored>, Problem> {
    catalog.find(kind, name).await.map_err(|error| refusal(&error))
}

/// The filter of a query. A client is found however its identifiers are written.
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

/// The types and identifiers that name a client in a query.
pub(crate) fn identifiers(parameters: &Parameters) -> (Vec<String>, Vec<String>) {
    let all = |name: &str| parameters.all(name).map(str::to_owned).collect();
    (all("identifier_type"), all("identifier"))
}

/// A client as the columns of the catalog name it: plain if it has one identifier.
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

/// False for a ban that has expired and is not removed yet.
fn is_in_force(stored: &Stored, now: Timestamp) -> bool {
    stored.kind != Kind::Ban
        || matches!(stored.parse(), Ok(Entry::Ban(ban))
            if parse_time(&ban.expires_at).is_some_and(|end| end > now))
}

/// The bans of this node, where there is no catalog.
fn bans_of_node(app: &Shared, filter: &Filter, after: Option<&str>, limit: usize) -> Entries {
    let (policy, now) = (app.limiter.policy(), app.now());
    let tenant = |rule_id: &str| policy.rules().find(rule_id)?.tenant.as_deref().map(str::to_owned);
    let bans = app.limiter.own_bans(usize::MAX).into_iter().filter(|ban| ban.until > now);
    let found = bans
        .map(|ban| bans::entry_of(&ban, tenant(&ban.rule_id)))
        .filter(|ban| filter.rule_id.as_ref().is_none_or(|rule_id| ban.rule_id == *rule_id))
        .filter(|ban| filter.tenant.is_none() || ban.tenant == filter.tenant)
        .map(|ban| (ban_name(&ban.rule_id, &ban.identifier), Entry::Ban(ban)));
    page_of(found.collect(), after, limit)
}

/// The entries of a rules file. Rules are all shown, in the order of the file.
fn entries_of_file(
    document: &PolicyDocument,
    kind: Kind,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
) -> Entries {
    let found = entries_of(document, kind).into_iter();
    let found = found.filter(|entry| is_wanted(entry, filter, document));
    if kind == Kind::Rule {
        return (found.filter_map(|rule| to_raw_value(&rule).ok()).collect(), None);
    }
    page_of(found.filter_map(|entry| Some((entry.name().ok()?, entry))).collect(), after, limit)
}

/// At most `limit` entries after the one called `after`, in the order of their names.
fn page_of(mut found: Vec<(String, Entry)>, after: Option<&str>, limit: usize) -> Entries {
    found.retain(|(name, _)| after.is_none_or(|after| name.as_str() > after));
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|(name, _)| name.clone());
    (found.iter().map(|(_, entry)| as_shown(entry)).collect(), next)
}

fn entries_of(document: &PolicyDocument, kind: Kind) -> Vec<Entry> {
    let PolicyDocument { rules, clients, overrides, whitelist, blacklist, .. } = document;
    match kind {
        Kind::Rule => rules.iter().cloned().map(Box::new).map(Entry::Rule).collect(),
        Kind::Client => clients.iter().cloned().map(Entry::Client).collect(),
        Kind::Override => overrides.iter().cloned().map(Entry::Override).collect(),
        Kind::Whitelist => whitelist.iter().cloned().map(Entry::Whitelist).collect(),
        Kind::Blacklist => blacklist.iter().cloned().map(Entry::Blacklist).collect(),
        _ => Vec::new(),
    }
}

fn is_wanted(entry: &Entry, filter: &Filter, document: &PolicyDocument) -> bool {
    let is = |wanted: &Option<String>, value: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| value == Some(wanted))
    };
    let (rule_id, tier, types, values) = match entry {
        Entry::Rule(rule) => {
            return is(&filter.tenant, rule.tenant.as_deref())
                && filter.enabled.is_none_or(|enabled| rule.enabled == enabled);
        }
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
    is(&filter.tenant, tenant)
        && is(&filter.rule_id, rule_id.map(String::as_str))
        && is(&filter.tier, tier.map(String::as_str))
        && is(&filter.identifier_type, Some(&types))
        && (is(&filter.identifier, Some(&values)) || is_key(filter, &values))
}

/// Whether a query names a client by an API key alone, without its type, and these values are its digest.
fn is_key(filter: &Filter, values: &str) -> bool {
    let key = filter.identifier.as_deref().filter(|_| filter.identifier_type.is_none());
    key.is_some_and(|key| (SECRET_DIGEST.of)(key) == values)
}
