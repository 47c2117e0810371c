//! The search for clients: by what was typed, among those that were seen lately and those that were put into a tier.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value as JsonValue;
use tollgate_catalog::digest_of;
use tollgate_dashboard::model::{ClientRef, Clients, FoundClient, Identifier, Paging, Section};
use tollgate_dashboard::path;

use super::client::API_KEY;
use super::client_decisions::DecisionsJson;
use super::client_key::{digits_of, known};
use crate::admin::auth::Right;
use crate::check::decision_id::GivenId;
use crate::edge::ui::convert::{Texts, identifiers, time_of};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
use crate::observe::audit_log::recorded;
use crate::observe::fleet_figures::FigureScope;
use crate::observe::recent_traffic::top::{RankedBy, TopAsk};

/// The types of identifiers that can be searched for.
pub(super) const TYPES: [&str; 4] = ["user_id", "api_key", "ip", "tenant"];
/// How many clients are listed.
const LISTED: usize = 100;
/// How far back clients count as seen lately, in seconds.
const WINDOW: u64 = 300;

/// Clients that were put into a tier.
#[derive(Debug, Deserialize)]
struct ClientsJson {
    clients: Vec<ClientJson>,
}

#[derive(Debug, Deserialize)]
struct ClientJson {
    identifier_type: Texts,
    identifier: Texts,
    tier: String,
}

/// The decision whose id was typed: customers send it, as every refusal has one.
pub(super) fn typed_decision(visit: &Visit) -> Option<String> {
    let typed = visit.parameter("q").filter(|_| visit.uri.path() == path::CLIENTS)?.trim();
    GivenId::parse(typed).is_ok().then(|| format!("{}{typed}", path::DECISIONS))
}

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<Clients, PageProblem> {
    visit.require(Right::Viewer)?;
    let query = visit.parameter("q").unwrap_or_default().trim().to_owned();
    let kind = visit.parameter("type").unwrap_or_default().to_owned();
    let mut found: Vec<FoundClient> = Vec::new();
    for client in typed(visit, &query, &kind) {
        found.push(known_of(visit, client).await);
    }
    let exact = found.len();
    for client in seen(visit).await.into_iter().chain(in_tiers(visit).await) {
        let is_found = query.is_empty() || is_in(&client, &query, &kind);
        // Rankings have names alone: of those that were typed, one that is known is meant before one that is not.
        let is_same = |it: &FoundClient| is_same(&it.client, &client.client);
        let known = found.iter().position(|it| is_same(it) && !it.known.is_empty());
        let same = known.or_else(|| found.iter().position(is_same));
        match same.and_then(|place| found.get_mut(place)) {
            Some(known) => merge(known, client),
            None if is_found => found.push(client),
            None => {}
        }
    }
    if let Some(others) = found.get_mut(exact..) {
        others.sort_by_key(|it| Reverse((it.refused, it.recorded)));
    }
    if let Some(typed) = found.get_mut(..exact) {
        typed.sort_by_key(|it| it.known.is_empty());
    }
    let total = found.len() as u64;
    found.truncate(LISTED);
    Ok(Clients {
        query,
        identifier_type: kind,
        identifier_types: TYPES.map(str::to_owned).to_vec(),
        window_seconds: WINDOW,
        found: Section::Ready(found),
        paging: Paging { total: Some(total), ..Paging::default() },
    })
}

/// The clients that have exactly what was typed as an identifier, whether they were seen or not. A digest is that of an API
/// key, and a network is a list of addresses.
fn typed(visit: &Visit, query: &str, kind: &str) -> Vec<ClientRef> {
    if query.is_empty() {
        return Vec::new();
    }
    if !kind.is_empty() {
        return vec![ClientRef::one(kind, query)];
    }
    if digits_of(query).is_some() {
        return vec![ClientRef::one(API_KEY, query)];
    }
    if query.parse::<IpAddr>().is_ok() || is_network(query) {
        return vec![ClientRef::one("ip", query)];
    }
    let mut kinds = vec!["user_id", "tenant"];
    if known(visit, &digest_of(query)).is_some() {
        kinds.insert(0, API_KEY);
    }
    kinds.into_iter().map(|kind| ClientRef::one(kind, query)).collect()
}

fn is_network(text: &str) -> bool {
    text.split_once('/').is_some_and(|(address, bits)| {
        address.parse::<IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
    })
}

/// A client that was typed, with what is known of it.
async fn known_of(visit: &Visit, client: ClientRef) -> FoundClient {
    let mut found = FoundClient::default();
    if let [it] = &*client.identifiers {
        let (kind, value) = (it.identifier_type.as_str(), it.value.as_str());
        let query = [("client", value), ("client_type", kind), ("limit", "1")];
        let decisions = visit.read::<DecisionsJson>("/api/v1/audit/decisions", &query).await;
        let last = decisions.ok().and_then(|it| it.records.into_iter().next());
        if let Some(last) = last {
            found.seen_at = time_of(&last.at);
            found.known.push("in the log of decisions".to_owned());
        }
        let digits = digits_of(value).map_or_else(|| digest_of(value), str::to_owned);
        if kind == API_KEY && known(visit, &digits).is_some() {
            found.known.push("a registered API key".to_owned());
        }
        let query = [("identifier_type", kind), ("identifier", value)];
        for (list, mark) in
            [("blacklist", "blacklist"), ("whitelist", "whitelist"), ("overrides", "override")]
        {
            let entries = visit.read::<JsonValue>(&format!("/api/v1/{list}"), &query).await;
            let has_any =
                entries.is_ok_and(|it| it[list].as_array().is_some_and(|it| !it.is_empty()));
            if has_any {
                found.marks.push(mark.to_owned());
                found.known.push("in the catalog".to_owned());
            }
        }
        found.known.dedup();
    }
    FoundClient { client, is_typed: true, ..found }
}

/// Clients of the top lists.
async fn seen(visit: &Visit) -> Vec<FoundClient> {
    let ask = TopAsk { by: RankedBy::Client, window_seconds: WINDOW, limit: LISTED, tenant: None };
    let top = visit.top(FigureScope::Fleet, &ask).await.figures;
    let mut found: HashMap<String, FoundClient> = HashMap::new();
    for entry in top.busiest.entries {
        found.entry(entry.name).or_default().recorded = Some(entry.count);
    }
    for entry in top.refused.entries {
        found.entry(entry.name).or_default().refused = Some(entry.count);
    }
    let minutes = WINDOW / 60;
    let named = found.into_iter().map(|(name, it)| FoundClient {
        client: ClientRef { name, identifiers: Vec::new() },
        known: vec![format!("seen in the last {minutes} min")],
        ..it
    });
    named.collect()
}

/// Clients that were put into a tier.
async fn in_tiers(visit: &Visit) -> Vec<FoundClient> {
    let query = [("limit", "1000")];
    let Ok(found) = visit.read::<ClientsJson>("/api/v1/clients", &query).await else {
        return Vec::new();
    };
    let client = |it: ClientJson| {
        let identifiers = identifiers(it.identifier_type, it.identifier);
        let name = identifiers.first().map_or_else(String::new, |it: &Identifier| it.value.clone());
        let client = ClientRef { name, identifiers };
        let known = vec!["put into a tier".to_owned()];
        FoundClient { client, tier: Some(it.tier), known, ..FoundClient::default() }
    };
    found.clients.into_iter().map(client).collect()
}

fn is_in(client: &FoundClient, query: &str, kind: &str) -> bool {
    let query = query.to_lowercase();
    let is_of_type = kind.is_empty()
        || client.client.identifiers.is_empty()
        || client.client.identifiers.iter().any(|it| it.identifier_type == kind);
    let has = |text: &str| text.to_lowercase().contains(&query);
    is_of_type
        && (has(&client.client.name) || client.client.identifiers.iter().any(|it| has(&it.value)))
}

/// Whether two rows are about one client: rankings know names, others know identifiers.
fn is_same(one: &ClientRef, other: &ClientRef) -> bool {
    match (&*one.identifiers, &*other.identifiers) {
        ([it], []) if it.identifier_type == API_KEY => {
            recorded(Some(API_KEY), &it.value) == other.name
        }
        ([], _) | ([_], []) => one.name == other.name,
        (one, other) => one == other,
    }
}

fn merge(known: &mut FoundClient, other: FoundClient) {
    known.tier = known.tier.take().or(other.tier);
    known.recorded = known.recorded.or(other.recorded);
    known.refused = known.refused.or(other.refused);
    known.known.extend(other.known);
    if known.client.identifiers.is_empty() {
        known.client = other.client;
    }
}
