//! The search for clients: by what was typed, among those that were seen lately and those that were put into a tier.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;
use tollgate_dashboard::model::{ClientRef, Clients, FoundClient, Identifier, Paging, Section};

use crate::admin::auth::Right;
use crate::edge::ui::convert::{Texts, identifiers};
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
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

/// What the page shows.
pub(super) async fn gather(visit: &Visit) -> Result<Clients, PageProblem> {
    visit.require(Right::Viewer)?;
    let query = visit.parameter("q").unwrap_or_default().trim().to_owned();
    let kind = visit.parameter("type").unwrap_or_default().to_owned();
    let mut found: Vec<FoundClient> = typed(&query, &kind)
        .into_iter()
        .map(|client| FoundClient { client, ..FoundClient::default() })
        .collect();
    let exact = found.len();
    for client in seen(visit).await.into_iter().chain(in_tiers(visit).await) {
        let is_found = query.is_empty() || is_in(&client, &query, &kind);
        let same = found.iter().position(|it| is_same(&it.client, &client.client));
        match same.and_then(|place| found.get_mut(place)) {
            Some(known) => merge(known, client),
            None if is_found => found.push(client),
            None => {}
        }
    }
    if let Some(others) = found.get_mut(exact..) {
        others.sort_by_key(|it| Reverse((it.refused, it.recorded)));
    }
    let total = found.len() as u64;
    found.truncate(LISTED);
    Ok(Clients {
        query,
        identifier_type: kind,
        identifier_types: TYPES.map(str::to_owned).to_vec(),
        found: Section::Ready(found),
        paging: Paging { total: Some(total), ..Paging::default() },
    })
}

/// The clients that have exactly what was typed as an identifier, whether they were seen or not.
fn typed(query: &str, kind: &str) -> Vec<ClientRef> {
    if query.is_empty() {
        return Vec::new();
    }
    if !kind.is_empty() {
        return vec![ClientRef::one(kind, query)];
    }
    if query.parse::<IpAddr>().is_ok() {
        return vec![ClientRef::one("ip", query)];
    }
    ["user_id", "tenant"].map(|kind| ClientRef::one(kind, query)).to_vec()
}

/// Clients of the top lists.
async fn seen(visit: &Visit) -> Vec<FoundClient> {
    let ask = TopAsk { by: RankedBy::Client, window_seconds: WINDOW, limit: LISTED, tenant: None };
    let top = visit.ui.app.top(FigureScope::Fleet, &ask).await.figures;
    let mut found: HashMap<String, FoundClient> = HashMap::new();
    for entry in top.busiest.entries {
        found.entry(entry.name).or_default().recorded = Some(entry.count);
    }
    for entry in top.refused.entries {
        found.entry(entry.name).or_default().refused = Some(entry.count);
    }
    let named = found.into_iter().map(|(name, it)| FoundClient {
        client: ClientRef { name, identifiers: Vec::new() },
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
        FoundClient { client, tier: Some(it.tier), ..FoundClient::default() }
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

/// Whether two rows are about one client: the log knows names, others know identifiers.
fn is_same(one: &ClientRef, other: &ClientRef) -> bool {
    let identifiers = !one.identifiers.is_empty() && !other.identifiers.is_empty();
    if identifiers { one.identifiers == other.identifiers } else { one.name == other.name }
}

fn merge(known: &mut FoundClient, other: FoundClient) {
    known.tier = known.tier.take().or(other.tier);
    known.recorded = known.recorded.or(other.recorded);
    known.refused = known.refused.or(other.refused);
    if known.client.identifiers.is_empty() {
        known.client = other.client;
    }
}
