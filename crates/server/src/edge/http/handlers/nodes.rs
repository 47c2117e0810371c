//! `GET /api/v1/nodes`: the nodes of the fleet, and how they are.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::Timestamp;
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::http::extract::Viewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::fleet_figures::NodeStatus;

/// The nodes of the fleet.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodesAnswer {
    /// This node first.
    nodes: Vec<NodeAnswer>,
}

/// A node, as it announced itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeAnswer {
    /// The name that its decision ids have: another after every restart.
    name: String,
    /// The name of its machine.
    host: String,
    /// The version of the program.
    version: String,
    /// When it started, in RFC 3339.
    #[schema(format = DateTime)]
    started_at: String,
    /// The revision of the policy in force there.
    revision: u64,
    /// Since when that is in force there, in RFC 3339.
    #[schema(format = DateTime)]
    revision_since: String,
    /// Requests in the last whole second.
    requests_per_second: f64,
    /// Those of them that were refused or denied.
    refused_per_second: f64,
    /// The store, as the node sees it.
    store: StoreAnswer,
    /// Whether it shuts down.
    draining: bool,
    /// How many seconds ago it announced itself. Nodes do so once a second, and are listed for ten minutes.
    age_seconds: f64,
    /// Whether it is the node that responds.
    this: bool,
}

/// The servers of the store, as a node sees them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreAnswer {
    /// `memory`, `up`, `partly_up` or `down`.
    state: &'static str,
    /// How many servers the store has; 0 for counters in memory.
    servers: u32,
    /// Of how many of them the circuit breaker is closed.
    servers_up: u32,
}

impl NodeAnswer {
    fn new(status: NodeStatus, now: Timestamp) -> Self {
        let state = status.store_state();
        let (servers, servers_up) = (status.store_servers, status.store_servers_up);
        Self {
            started_at: rfc_3339_exact(status.started),
            revision_since: rfc_3339_exact(status.revision_since),
            age_seconds: now.since(status.last_seen).get() as f64 / 1e6,
            name: status.name,
            host: status.host,
            version: status.version,
            revision: status.revision,
            requests_per_second: status.requests_per_second,
            refused_per_second: status.refused_per_second,
            store: StoreAnswer { state, servers, servers_up },
            draining: status.is_draining,
            this: status.is_this,
        }
    }
}

/// Lists the nodes of the fleet, with version, policy and store.
///
/// Nodes know of each other if they share a store, or a catalog in PostgreSQL, and have the fleet's secret.
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "audit", security(("token" = [])),
    responses(
        (status = 200, description = "The nodes", body = NodesAnswer),
        (status = 400, description = "There are no parameters", body = ProblemBody<'_>, content_type = "application/problem+json"),
        AdminProblems,
    )
)]
pub(crate) async fn nodes(
    State(app): State<ServerState>,
    Viewer(session): Viewer,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let now = app.now();
    let nodes = app.nodes().into_iter().map(|status| NodeAnswer::new(status, now)).collect();
    Ok((session.fields, Json(NodesAnswer { nodes })).into_response())
}
