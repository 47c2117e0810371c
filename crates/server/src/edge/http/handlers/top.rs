//! `GET /api/v1/top`: which clients, rules or endpoints cause most decisions on this node, over the last
//! minutes.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::Viewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::observe::audit_log::top::{MAX_WINDOW, Ranking, TopBy, TopOutcome};

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
    /// By requests that did not pass.
    refused: TopList,
    /// By requests that passed, but that a rule with `action: log_only` would have refused.
    would_refuse: TopList,
    /// By requests that were recorded: refused, would-refuse and delayed ones, and a sample of the
    /// others.
    recorded: TopList,
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
    /// How many requests.
    count: u64,
}

impl From<Ranking> for TopList {
    fn from(ranking: Ranking) -> Self {
        let Ranking { names, may_lack } = ranking;
        let top = names.into_iter().map(|(name, count)| TopEntry { name, count }).collect();
        Self { exact: may_lack == 0, may_lack, top }
    }
}

/// Ranks clients, rules or endpoints by how many requests were recently refused on this node.
#[utoipa::path(
    get, path = "/api/v1/top", tag = "audit", security(("token" = [])),
    params(
        ("by" = Option<String>, Query, description = "client, rule or endpoint; client if not given"),
        ("limit" = Option<u64>, Query, description = "How many at most; 10 if not given, never more than 100", minimum = 1, maximum = 100),
        ("window" = Option<u64>, Query, description = "How many seconds to look back; 60 if not given, never more than 300", minimum = 1, maximum = 300),
    ),
    responses(
        (status = 200, description = "The ranking", body = TopAnswer),
        (status = 400, description = "The query cannot be read", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn top(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    let query = Parameters::read(&uri, &["by", "limit", "window"])?;
    let (name, by) = match query.one("by")? {
        None => TopBy::ALL[0],
        Some(text) => *TopBy::ALL.iter().find(|(name, _)| *name == text).ok_or_else(|| {
            Problem::bad_request("invalid_query", "`by` is client, rule or endpoint")
        })?,
    };
    let limit = number(&query, "limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let window = number(&query, "window", DEFAULT_WINDOW, MAX_WINDOW)?;
    let now = app.now();
    let answer = app.audit_log.with_top(|top, missed| {
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let list = |of| TopList::from(top.ranking((by, of), now, window, (most, missed)));
        TopAnswer {
            by: name,
            window_seconds: window,
            refused: list(TopOutcome::Refused),
            would_refuse: list(TopOutcome::WouldRefuse),
            recorded: list(TopOutcome::Recorded),
        }
    });
    Ok((session.fields, Json(answer)).into_response())
}

fn number(query: &Parameters, name: &str, usual: u64, most: u64) -> Result<u64, Problem> {
    let Some(text) = query.one(name)? else { return Ok(usual) };
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        let detail = format!("`{name}` is a number from 1 to {most}");
        Problem::bad_request("invalid_query", detail)
    })
}
