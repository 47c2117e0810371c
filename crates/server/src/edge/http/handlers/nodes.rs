//! `GET /api/v1/nodes`: the nodes of the fleet, and how they are.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::Timestamp;
use tollgate::store::StoreErrorKind;
use utoipa::ToSchema;

use crate::app::readiness::NodeReadiness;
use crate::app::state::ServerState;
use crate::edge::http::extract::Viewer;
use crate::edge::http::openapi::AdminProblems;
use crate::edge::http::paging::Parameters;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::observe::fleet_figures::{NodeState, NodeStatus};

/// The nodes of the fleet.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodesAnswer {
    /// This node first.
    nodes: Vec<NodeAnswer>,
    /// Since when the others cannot be reached, in RFC 3339, because the store or the catalog's database that nodes
    /// exchange messages through is away. They are `silent` then. Absent while they can be reached.
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    others_unreachable_since: Option<String>,
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
    /// The first 16 digits of the SHA-256 of its rules file, as `sha256sum` prints it; absent with a catalog. Nodes with
    /// files count their revisions separately: compare this instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_file_sha256: Option<String>,
    /// The first 16 digits of the SHA-256 over the names and digests of its files of `--envoy-config`, as
    /// `sha256sum FILE... | sha256sum` prints it in that directory; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    envoy_config_sha256: Option<String>,
    /// Requests in the last whole second; null for a node that is silent.
    requests_per_second: Option<f64>,
    /// Those of them that were refused, denied or not checked; null for a node that is silent.
    refused_per_second: Option<f64>,
    /// The store, as the node sees it; null for a node that is silent.
    store: Option<StoreAnswer>,
    /// `ready`; `waiting_for_catalog` while the built-in rules are in force there because it could not read its catalog
    /// yet; `draining` while it shuts down; or `silent` if it has not been heard for five seconds, without a farewell.
    status: &'static str,
    /// Whether it shuts down.
    draining: bool,
    /// How many seconds ago it announced itself. Nodes do so once a second. Those that end say so and are not listed any
    /// more; others are listed for ten minutes.
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
    /// Why one cannot be used, as in `/health/ready`; absent if all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl NodeAnswer {
    fn new(status: NodeStatus, now: Timestamp) -> Self {
        let state = status.state;
        let store = |state: NodeState| StoreAnswer {
            state: state.store_state(),
            servers: state.store_servers,
            servers_up: state.store_servers_up,
            reason: state.store_failure.map(StoreErrorKind::name),
        };
        Self {
            started_at: rfc_3339_exact(status.started),
            revision_since: rfc_3339_exact(status.revision_since),
            age_seconds: now.since(status.last_seen).get() as f64 / 1e6,
            name: status.name,
            host: status.host,
            version: status.version,
            revision: status.revision,
            requests_per_second: state.map(|it| it.requests_per_second),
            refused_per_second: state.map(|it| it.refused_per_second),
            store: state.map(store),
            rules_file_sha256: status.file_digest,
            envoy_config_sha256: status.envoy_digest,
            status: state.map_or("silent", |it| it.readiness.name()),
            draining: state.is_some_and(|it| it.readiness == NodeReadiness::Draining),
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
    let others_unreachable_since = app.unreachable_since().map(rfc_3339_exact);
    Ok((session.fields, Json(NodesAnswer { nodes, others_unreachable_since })).into_response())
}
