//! The routes of the HTTP API, and its OpenAPI description.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};
use http::{Method, StatusCode, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admin;
use crate::app::state::ServerState;
use crate::edge::http::handlers::{
    audit, authorize, batch, check, decisions, envoy_json, envoy_limits, events, health, history,
    nodes, peek, preview, recommendation, refund, stats, status, top,
};
use crate::edge::http::problem::Problem;
use crate::edge::http::{docs_page, openapi};
use crate::edge::ui;
use crate::observe::metrics::EntryPoint;
use crate::settings::Settings;

/// The path of the check, which bypasses the router to be fast.
pub(crate) const CHECK: &str = "/api/v1/rate-limit/check";
const CHECK_BATCH: &str = "/api/v1/rate-limit/check/batch";
/// The path of Envoy's rate limit service as JSON.
pub(crate) const ENVOY_JSON: &str = "/json";

/// The paths of the admin API.
const ADMIN_PATHS: &[&str] = &[
    "/api/v1/rules",
    "/api/v1/policy",
    "/api/v1/envoy",
    "/api/v1/decisions",
    "/api/v1/whitelist",
    "/api/v1/blacklist",
    "/api/v1/bans",
    "/api/v1/tiers",
    "/api/v1/clients",
    "/api/v1/overrides",
    "/api/v1/users",
    "/api/v1/api-keys",
    "/api/v1/tokens",
    "/api/v1/audit",
    "/api/v1/stats",
    "/api/v1/top",
    "/api/v1/history",
    "/api/v1/nodes",
    "/api/v1/preview",
    "/api/v1/recommendation",
    "/api/v1/events",
    "/admin",
];

/// An API that is on another listener.
#[derive(Clone, Copy, Debug)]
struct Elsewhere {
    name: &'static str,
    paths: &'static [&'static str],
    flag: &'static str,
    port: u16,
}

/// The entry point of a call that checks requests.
pub(crate) fn entry_of(method: &Method, path: &str) -> Option<EntryPoint> {
    match path {
        CHECK | CHECK_BATCH if method == Method::POST => Some(EntryPoint::Http),
        ENVOY_JSON if method == Method::POST => Some(EntryPoint::Envoy),
        _ if path.starts_with(authorize::PATH) => Some(EntryPoint::Authorize),
        _ => None,
    }
}

/// The routes of the check API's listener: with the admin API and the dashboard, unless these have a separate one.
pub(crate) fn public(state: &ServerState, settings: &Settings) -> Router {
    let admin = settings.admin;
    let elsewhere = admin.map(|address| Elsewhere {
        name: "admin API",
        paths: ADMIN_PATHS,
        flag: "--admin",
        port: address.port(),
    });
    let router = if admin.is_some() { check_api() } else { check_api().merge(admin_api()) };
    finish(router, state, elsewhere, Some(settings).filter(|_| admin.is_none()))
}

/// The routes of a separate listener for the admin API.
pub(crate) fn admin(state: &ServerState, settings: &Settings) -> Router {
    let public = settings.http;
    let elsewhere = Elsewhere {
        name: "check API",
        paths: &["/api/v1/rate-limit", "/api/v1/rate-limits", "/json"],
        flag: "--http",
        port: public.port(),
    };
    finish(admin_api().merge(health_api()), state, Some(elsewhere), Some(settings))
}

fn check_api() -> OpenApiRouter<ServerState> {
    let (schemas, paths, get_authorize) = routes!(authorize::authorize);
    health_api()
        .routes(routes!(check::check))
        .routes(routes!(batch::check_batch))
        .routes(routes!(peek::peek))
        .routes(routes!(peek::explain))
        .routes(routes!(refund::refund))
        .routes(routes!(refund::reset))
        .routes(routes!(status::status))
        .routes(routes!(envoy_json::json))
        // Proxies send the method of their client, and Envoy its path too.
        .routes((schemas, paths, get_authorize.fallback(authorize::authorize)))
        .route(&format!("{}/", authorize::PATH), any(authorize::authorize))
        .route(&format!("{}/{{*path}}", authorize::PATH), any(authorize::authorize))
}

fn admin_api() -> OpenApiRouter<ServerState> {
    admin::routes()
        .routes(routes!(decisions::decision))
        .routes(routes!(envoy_limits::list))
        .routes(routes!(audit::changes))
        .routes(routes!(audit::decisions))
        .routes(routes!(stats::stats))
        .routes(routes!(top::top))
        .routes(routes!(history::history))
        .routes(routes!(nodes::nodes))
        .routes(routes!(preview::preview))
        .routes(routes!(recommendation::recommendation))
        .routes(routes!(events::events))
}

fn health_api() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::healthcheck))
        .routes(routes!(health::metrics))
}

/// Adds the description of the API and its page, and the dashboard if there are settings for it.
fn finish(
    router: OpenApiRouter<ServerState>,
    state: &ServerState,
    elsewhere: Option<Elsewhere>,
    dashboard: Option<&Settings>,
) -> Router {
    let (router, api) = router.split_for_parts();
    let api = openapi::complete(api);
    let description = api.to_string();
    let describe = move || async move {
        ([(header::CONTENT_TYPE, "application/json")], description).into_response()
    };
    let router = router
        .route("/openapi.json", get(describe))
        .merge(docs_page::routes(api))
        .fallback(move |request: Request| async move { unknown_path(&request, elsewhere) })
        .with_state(state.clone());
    match dashboard.filter(|settings| settings.dashboard) {
        Some(settings) => {
            let (api, _) = check_api().merge(admin_api()).split_for_parts();
            router.merge(ui::routes(state, api.with_state(state.clone()), settings))
        }
        None => router.route("/", get(|| async { Redirect::temporary("/docs/") })),
    }
}

fn unknown_path(request: &Request, elsewhere: Option<Elsewhere>) -> Problem {
    let path: String = request.uri().path().chars().take(200).collect();
    let is_under = |other: &&str| {
        path.strip_prefix(*other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let detail = match elsewhere.filter(|elsewhere| elsewhere.paths.iter().any(is_under)) {
        Some(Elsewhere { name, flag, port: 0, .. }) => {
            format!("{path} belongs to the {name}, which has a separate port ({flag})")
        }
        Some(Elsewhere { name, flag, port, .. }) => {
            format!("{path} belongs to the {name}, which has a separate port: {port} ({flag})")
        }
        None => format!("there is nothing at {path}; /docs lists what there is"),
    };
    Problem::not_found("unknown_path", detail)
}

/// Adds a problem to the router's response 405, which has the `Allow` header but no body.
pub(crate) fn explain_method(method: &Method, response: Response) -> Response {
    let headers = response.headers();
    let is_wordless = response.status() == StatusCode::METHOD_NOT_ALLOWED
        && !headers.contains_key(header::CONTENT_TYPE);
    let Some(allowed) = headers.get(header::ALLOW).filter(|_| is_wordless) else {
        return response;
    };
    let method: String = method.as_str().chars().take(50).collect();
    let names = allowed.to_str().unwrap_or_default().replace(',', ", ");
    let detail = format!("{method} is not possible here; use {names}");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail)
        .with_header(header::ALLOW, allowed.clone())
        .into_response()
}
