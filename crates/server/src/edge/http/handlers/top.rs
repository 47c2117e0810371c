//! `GET /api/v1/top`: which clients, rules or endpoints cause most decisions over the last minutes, in the fleet or on
//! this node.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::RuleViewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::fleet_figures::FigureScope;
use crate::observe::recent_traffic::top::{
    MAX_WINDOW, RankedBy, RankedEntry, RankedList, TopAsk, TopFigures,
};

const DEFAULT_WINDOW: u64 = 60;
const DEFAULT_LIMIT: u64 = 10;
const MAX_LIMIT: u64 = 100;

/// The clients, rules or endpoints that cause most decisions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopAnswer {
    /// What is ranked: client, rule or endpoint.
    by: &'static str,
    /// How far back, up to ten seconds more.
    window_seconds: u64,
    /// fleet or node: whose requests they are.
    scope: &'static str,
    /// How many nodes have responded.
    nodes: usize,
    /// The nodes that did not respond, or have been silent for less than ten minutes.
    silent_nodes: Vec<String>,
    /// Since when the others cannot be reached, in RFC 3339, because the store or the catalog's database that nodes
    /// exchange messages through is away: the figures are of this node only. Absent while they can be reached.
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    others_unreachable_since: Option<String>,
    /// What the nodes decided before this time is in the figures, in RFC 3339, by the clock of this node: at most a second ago.
    #[schema(format = DateTime)]
    as_of: String,
    /// By requests that did not pass.
    refused: TopList,
    /// By requests that passed above the warning share of a limit, or after a delay.
    near_limit: TopList,
    /// By all requests.
    busiest: TopList,
    /// By requests that passed, but that a rule with `action: log_only` or a candidate would have refused: each pair of a
    /// client or an endpoint and such a rule.
    would_refuse: TopList,
}

/// A ranking, the highest count first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopList {
    /// Whether the counts are exact.
    exact: bool,
    /// How much any count may be too low, at most. None is too high.
    may_lack: u64,
    /// The entries with the highest counts.
    top: Vec<TopEntry>,
}

/// An entry of a ranking.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopEntry {
    /// The client, rule or endpoint.
    name: String,
    /// The tenant of a client, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// The rule that decided the last of these requests; in `would_refuse` the one that would have refused all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<String>,
    /// How much of that rule's limit was used then, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    used_percent: Option<u8>,
    /// How many requests.
    count: u64,
}

impl From<RankedList> for TopList {
    fn from(list: RankedList) -> Self {
        let RankedList { entries, may_lack, .. } = list;
        let entry = |entry: RankedEntry| {
            let RankedEntry { name, tenant, rule_id, used_percent, count } = entry;
            TopEntry { name, tenant, rule_id, used_percent, count }
        };
        Self { exact: may_lack == 0, may_lack, top: entries.into_iter().map(entry).collect() }
    }
}

/// Ranks clients, rules or endpoints by their requests of the last minutes: refused, near a limit, all, and those that a
/// shadow rule would have refused.
///
/// In a fleet, the requests of all nodes are added up. Administrators of a tenant see the requests of that tenant, and no
/// rules of others.
#[utoipa::path(
    get, path = "/api/v1/top", tag = "audit", security(("token" = [])),
    params(
        ("by" = Option<String>, Query, description = "client, rule or endpoint; client if not given"),
        ("limit" = Option<u64>, Query, description = "How many at most; 10 if not given, never more than 100", minimum = 1, maximum = 100),
        ("window" = Option<u64>, Query, description = "How many seconds to look back; 60 if not given, never more than 300", minimum = 1, maximum = 300),
        ("scope" = Option<String>, Query, description = "fleet or node: the requests of all nodes, or of this one; fleet if not given"),
        ("tenant" = Option<String>, Query, description = "Only requests of this tenant"),
    ),
    responses(
        (status = 200, description = "The ranking", body = TopAnswer),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn top(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let query = Parameters::read(&uri, &["by", "limit", "window", "scope", "tenant"])?;
    let (name, by) = match query.one("by")? {
        None => RankedBy::ALL[0],
        Some(text) => *RankedBy::ALL.iter().find(|(name, _)| *name == text).ok_or_else(|| {
            Problem::bad_request("invalid_query", "`by` is client, rule or endpoint")
        })?,
    };
    let limit = number(&query, "limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let window_seconds = number(&query, "window", DEFAULT_WINDOW, MAX_WINDOW)?;
    let (scope_name, scope) = scope(&query)?;
    // A tenant's administrator gets the requests of that tenant only.
    let own = session.tenant();
    let tenant = own.clone().map_or_else(|| query.owned("tenant"), |own| Ok(Some(own)))?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let _ticket = app.queues.figure_queries.enter(&session.caller())?;
    let ask = TopAsk { by, window_seconds, limit, tenant };
    let merged = app.top(scope, &ask, own.as_deref()).await;
    let TopFigures { refused, near_limit, busiest, would_refuse } = merged.figures;
    let is_for_operators = own.is_none();
    let answer = TopAnswer {
        by: name,
        window_seconds,
        scope: scope_name,
        nodes: merged.nodes,
        silent_nodes: if is_for_operators { merged.silent } else { Vec::new() },
        others_unreachable_since: merged.unreachable_since.map(rfc_3339_exact),
        as_of: rfc_3339_exact(merged.as_of),
        refused: refused.into(),
        near_limit: near_limit.into(),
        busiest: busiest.into(),
        would_refuse: would_refuse.into(),
    };
    Ok((session.fields, Json(answer)).into_response())
}

/// Whose figures a query asks for.
pub(crate) fn scope(query: &Parameters) -> Result<(&'static str, FigureScope), Problem> {
    match query.one("scope")? {
        None | Some("fleet") => Ok(("fleet", FigureScope::Fleet)),
        Some("node") => Ok(("node", FigureScope::Node)),
        Some(_) => Err(Problem::bad_request("invalid_query", "`scope` is fleet or node")),
    }
}

fn number(query: &Parameters, name: &str, usual: u64, most: u64) -> Result<u64, Problem> {
    let Some(text) = query.one(name)? else { return Ok(usual) };
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        let detail = format!("`{name}` is a number from 1 to {most}");
        Problem::bad_request("invalid_query", detail)
    })
}
