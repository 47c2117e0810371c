//! Which path leads to which handler, and the description of all of them.

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_response;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use http::{StatusCode, header};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::handlers::{authorize, batch, check, decisions, give_back, health, look, rules, status};
use crate::openapi;
use crate::problem::Problem;
use crate::state::ServerState;

/// The other family of paths for the rules.
const ADMIN_RULES: &str = "/admin/api/v1/rate-limits/rules";

/// What the check API's listener answers.
pub(crate) fn public(state: &ServerState, is_admin_apart: bool) -> Router {
    let router = if is_admin_apart { check_api() } else { check_api().merge(admin_api()) };
    finish(router, state)
}

/// What the admin API's listener answers where it is apart.
pub(crate) fn admin(state: &ServerState) -> Router {
    finish(admin_api().merge(health_api()), state)
}

fn check_api() -> OpenApiRouter<ServerState> {
    let (schemas, paths, get_authorize) = routes!(authorize::authorize);
    health_api()
        .routes(routes!(check::check))
        .routes(routes!(batch::check_batch))
        .routes(routes!(look::peek))
        .routes(routes!(look::explain))
        .routes(routes!(give_back::refund))
        .routes(routes!(give_back::reset))
        .routes(routes!(status::status))
        // Proxies ask with the method of their client, and Envoy with its path too.
        .routes((schemas, paths, get_authorize.fallback(authorize::authorize)))
        .route(&format!("{}/", authorize::PATH), any(authorize::authorize))
        .route(&format!("{}/{{*path}}", authorize::PATH), any(authorize::authorize))
}

fn admin_api() -> OpenApiRouter<ServerState> {
    let refuse = || {
        post(rules::refuse_write)
            .put(rules::refuse_write)
            .delete(rules::refuse_write)
            .patch(rules::refuse_write)
    };
    OpenApiRouter::new()
        .routes(routes!(rules::list))
        .routes(routes!(rules::get))
        .routes(routes!(decisions::decision))
        .route("/api/v1/rules", refuse())
        .route("/api/v1/rules/{rule_id}", refuse())
        .route(ADMIN_RULES, get(rules::list).merge(refuse()))
        .route(&format!("{ADMIN_RULES}/{{rule_id}}"), get(rules::get).merge(refuse()))
}

fn health_api() -> OpenApiRouter<ServerState> {
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
}

fn finish(router: OpenApiRouter<ServerState>, state: &ServerState) -> Router {
    let (router, api) = router.split_for_parts();
    let api = openapi::complete(api);
    let description = serde_json::to_string(&api).unwrap_or_default();
    let describe = move || async move {
        ([(header::CONTENT_TYPE, "application/json")], description).into_response()
    };
    router
        .route("/openapi.json", get(describe))
        .route("/", get(|| async { Redirect::temporary("/docs/") }))
        .merge(docs(api))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(state.clone())
}

/// The documentation for people. What it lacks is said in our own words.
fn docs(api: OpenApi) -> Router<ServerState> {
    let router = Router::from(SwaggerUi::new("/docs").url("/docs/openapi.json", api));
    router.layer(map_response(|response: Response| async {
        if response.status() == StatusCode::NOT_FOUND {
            let detail = "there is no such file; /docs/ is where the documentation begins";
            return Problem::not_found("unknown_path", detail).into_response();
        }
        response
    }))
}

async fn unknown_path(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(200).collect();
    let detail = format!("there is nothing at {path}; /docs lists what there is");
    Problem::not_found("unknown_path", detail)
}

async fn wrong_method(request: Request) -> Response {
    let method: String = request.method().as_str().chars().take(50).collect();
    let detail = format!("{method} is not possible here");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail).into_response()
}
