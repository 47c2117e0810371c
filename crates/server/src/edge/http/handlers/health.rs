//! Liveness, readiness, and metrics for Prometheus.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use tollgate::store::{BreakerState, RemoteStatus, StoreErrorKind};
use utoipa::ToSchema;

use crate::app::readiness::NodeReadiness;
use crate::app::state::ServerState;
use crate::edge::http::problem::Problem;
use crate::observe::metrics::MetricsFormat;

/// The health of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    status: &'static str,
}

/// The readiness of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// `ready`; `waiting_for_catalog` while the built-in rules are in force because the catalog could not be read yet, nor
    /// a copy of it; or `draining` while the server shuts down.
    status: &'static str,
    /// The revision of the policy in force.
    policy_revision: u64,
    /// How many rules are in force.
    rules: usize,
    /// How often a changed rules file could not be put in force.
    config_errors: u64,
    /// Whether the last load of the rules file failed. The rules of the last good load stay in force, so the server
    /// stays ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_load_failed: Option<bool>,
    /// Whether the last load of files of envoyproxy/ratelimit failed. The limits of the last good load stay in
    /// force, so the server stays ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    envoy_load_failed: Option<bool>,
    /// Seconds since the catalog last responded. While it is unavailable, the last valid rules stay in
    /// force, so the server stays ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog_silence_seconds: Option<f64>,
    /// The servers that store counters. The server stays ready without them: each rule's
    /// `on_store_failure` applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    store: Vec<StoreHealth>,
}

/// A server that stores counters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreHealth {
    /// Its address.
    server: String,
    /// Whether it can be used, and responded to the last call; if not, each rule's `on_store_failure` applies.
    answers: bool,
    /// Why not: `unavailable`, `timeout`, `refused` (out of memory, read only, not permitted), `corrupt`, or `other_fleet`,
    /// whose secret is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl From<RemoteStatus> for StoreHealth {
    fn from(status: RemoteStatus) -> Self {
        let answers = status.breaker == BreakerState::Closed && status.failure.is_none();
        Self { answers, reason: status.failure.map(StoreErrorKind::name), server: status.server }
    }
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/health/live", tag = "health",
    responses((status = 200, description = "The process is alive", body = Health)))]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the server should get traffic. Checks that reach it otherwise are answered too.
#[utoipa::path(get, path = "/health/ready", tag = "health",
    responses((status = 200, description = "The server should get traffic", body = Readiness),
              (status = 503, description = "The server waits for its catalog, or shuts down", body = Readiness)))]
pub(crate) async fn ready(State(app): State<ServerState>) -> Response {
    let reading = app.reading();
    let readiness = Readiness {
        status: reading.readiness.name(),
        policy_revision: reading.policy_revision,
        rules: reading.rules_in_force,
        config_errors: reading.config_errors,
        rules_load_failed: reading.rules_load.map(|load| load.error.is_some()),
        envoy_load_failed: reading.envoy_load.map(|load| load.error.is_some()),
        catalog_silence_seconds: reading.catalog_silence_seconds,
        store: reading.servers.into_iter().map(StoreHealth::from).collect(),
    };
    let is_ready = reading.readiness == NodeReadiness::Ready;
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

/// Whether the server should get traffic, as envoyproxy/ratelimit reports it: probes written for that service
/// stay as they are.
#[utoipa::path(get, path = "/healthcheck", tag = "health",
    responses((status = 200, description = "The server should get traffic", body = String, content_type = "text/plain"),
              (status = 503, description = "The server waits for its catalog, or shuts down", body = String, content_type = "text/plain")))]
pub(crate) async fn healthcheck(State(app): State<ServerState>) -> (StatusCode, &'static str) {
    match app.readiness() {
        NodeReadiness::Ready => (StatusCode::OK, "OK"),
        NodeReadiness::WaitingForCatalog => {
            (StatusCode::SERVICE_UNAVAILABLE, "waiting for the catalog")
        }
        NodeReadiness::Draining => (StatusCode::SERVICE_UNAVAILABLE, "shutting down"),
    }
}

/// Metrics for Prometheus: as `OpenMetrics` if `Accept` names it, else in the text format.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "The figures",
        content((String = "text/plain"), (String = "application/openmetrics-text")))))]
pub(crate) async fn metrics(
    State(app): State<ServerState>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let format = MetricsFormat::of(&headers);
    let state = app.clone();
    let page = app.metrics.pages.get(format, move || state.whole_reading().render(format)).await;
    let page = page.map_err(|_| Problem::internal("the metrics were not rendered: see the log"))?;
    let fields = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    Ok((fields, page).into_response())
}
