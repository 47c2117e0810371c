//! `POST /api/v1/preview`: what a changed policy would have done with the recent requests of this node.

use axum::Json;
use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate::rules::{Format, PolicyDocument, Source};
use utoipa::ToSchema;

use crate::admin::invalid;
use crate::app::state::ServerState;
use crate::edge::http::extract::{RuleViewer, read_json};
use crate::edge::http::openapi::{AdminProblems, BodyProblems};
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::decode::decode;
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::preview::{
    PolicyChange, PreviewClient, PreviewFigures, PreviewPoint, PreviewSide,
};

/// A change of the policy: a rule, or a document whose entries replace those of the same name; and rules to remove.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewRequest<'a> {
    /// A rule, which replaces the one of the same `rule_id`, or is added.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Object>)]
    rule: Option<&'a RawValue>,
    /// A policy document. Its entries replace those of the same name, or are added.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Object>)]
    policy: Option<&'a RawValue>,
    /// The ids of rules that are removed.
    #[serde(default)]
    remove: Vec<String>,
}

/// What a changed policy would have done with the recent requests of this node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PreviewAnswer {
    /// When the first replayed request was made, in RFC 3339; null if there was none.
    #[schema(format = DateTime)]
    from: Option<String>,
    /// When the last one was made.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// How many requests were replayed.
    requests: u64,
    /// How many nodes share the counters. Those share the requests of clients too, and only those of this node were replayed: if
    /// it is more than 1, more is refused than this says.
    nodes: usize,
    /// One in so many clients was kept, and so replayed: 1 if all were.
    one_in: u64,
    /// Whether requests were left out because there were too many, or it took too long.
    cut: bool,
    /// What the policy in force does with these requests.
    now: PreviewSideAnswer,
    /// What the changed policy does with them.
    then: PreviewSideAnswer,
    /// The clients whose refusals change most, 20 at most.
    clients: Vec<PreviewClientAnswer>,
    /// The same over time, in equal steps.
    points: Vec<PreviewPointAnswer>,
    /// Headers, claims and attributes that the changed policy refers to and that are not kept of these requests, because
    /// the policy in force does not refer to them: to these requests they are missing.
    unknown: Vec<String>,
}

/// What one policy does with the requests.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PreviewSideAnswer {
    /// Refused or denied.
    refused: u64,
    /// Passed after a delay.
    throttled: u64,
    /// Would have been refused by a rule with `action: log_only`.
    would_refuse: u64,
    /// Clients with a refused request.
    clients: u64,
}

/// A client with refused requests.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PreviewClientAnswer {
    /// The client: the user, else the API key, the address, the tenant, or other identifiers.
    client: String,
    /// Its tenant, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Its requests.
    requests: u64,
    /// Those that the policy in force refuses.
    refused_now: u64,
    /// Those that the changed policy refuses.
    refused_then: u64,
}

/// The requests of a step of time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PreviewPointAnswer {
    /// When it began, in RFC 3339.
    #[schema(format = DateTime)]
    at: String,
    /// The requests.
    requests: u64,
    /// Those that the policy in force refuses.
    refused_now: u64,
    /// Those that the changed policy refuses.
    refused_then: u64,
}

impl From<PreviewSide> for PreviewSideAnswer {
    fn from(side: PreviewSide) -> Self {
        let PreviewSide { refused, throttled, would_refuse, clients } = side;
        Self { refused, throttled, would_refuse, clients }
    }
}

impl From<PreviewFigures> for PreviewAnswer {
    fn from(figures: PreviewFigures) -> Self {
        let client = |it: PreviewClient| {
            let PreviewClient { client, tenant, requests, refused_now, refused_then } = it;
            PreviewClientAnswer { client, tenant, requests, refused_now, refused_then }
        };
        let point = |it: PreviewPoint| {
            let PreviewPoint { at, requests, refused_now, refused_then } = it;
            PreviewPointAnswer { at: rfc_3339_exact(at), requests, refused_now, refused_then }
        };
        let (from, until) = figures.span.unzip();
        Self {
            from: from.map(rfc_3339_exact),
            until: until.map(rfc_3339_exact),
            requests: figures.requests,
            nodes: figures.nodes,
            one_in: figures.one_in,
            cut: figures.is_cut,
            now: figures.now.into(),
            then: figures.then.into(),
            clients: figures.clients.into_iter().map(client).collect(),
            points: figures.points.into_iter().map(point).collect(),
            unknown: figures.unknown,
        }
    }
}

/// Tries a change of the policy on the recent requests of this node: how many would have been refused, and whose.
///
/// The requests are replayed twice, against the policy in force and against the changed one, each time with empty
/// counters at the first request. Nothing is charged or changed. Administrators of a tenant try changes of its own rules,
/// on its own requests.
#[utoipa::path(
    post, path = "/api/v1/preview", tag = "rules", security(("token" = [])),
    request_body = PreviewRequest<'_>,
    responses(
        (status = 200, description = "What the changed policy would have done", body = PreviewAnswer),
        (status = 404, description = "No recent requests are kept, or there is no such rule", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 422, description = "The changed policy would be invalid", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 503, description = "Too many previews are running", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
        AdminProblems,
    )
)]
pub(crate) async fn preview(
    State(app): State<ServerState>,
    RuleViewer(session): RuleViewer,
    OriginalUri(uri): OriginalUri,
    request: Request<Body>,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let (parts, body) = request.into_parts();
    let tenant = session.tenant();
    let bound = if tenant.is_some() { app.tenant_document_bound } else { app.document_bound };
    let caller = session.caller();
    // Before the body is read: a caller that sends several at once holds few in memory.
    let ticket = app.queues.documents.enter(&caller)?;
    let body = read_json(&parts.headers, body, bound, app.request_timeout).await?;
    let change = ticket.run(async move { read_change(&body) }).await??;
    drop(ticket);
    let figures = app.preview(&caller, change, tenant).await?;
    Ok((session.fields, Json(PreviewAnswer::from(figures))).into_response())
}

/// Reads the change that a body describes.
fn read_change(body: &[u8]) -> Result<PolicyChange, Problem> {
    let PreviewRequest { rule, policy, remove } = decode(body)?;
    if rule.is_none() && policy.is_none() && remove.is_empty() {
        let detail = "nothing is changed: give a `rule`, a `policy` document, or rules to `remove`";
        return Err(Problem::unprocessable("invalid_document", detail));
    }
    let mut document = match policy {
        Some(policy) => read_document(policy.get())?,
        None => PolicyDocument::default(),
    };
    if let Some(rule) = rule {
        let wrapped = format!("{{\"rules\":[{}]}}", rule.get());
        document.rules.extend(read_document(&wrapped)?.rules);
    }
    Ok(PolicyChange { document, removed: remove })
}

fn read_document(text: &str) -> Result<PolicyDocument, Problem> {
    let source = Source::parse_as(text, Format::Json);
    if source.problems.is_empty() { Ok(source.document) } else { Err(invalid(&source.problems)) }
}
