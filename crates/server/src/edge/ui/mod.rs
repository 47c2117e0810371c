//! The dashboard: pages for people, at the root of the listener of the admin API.
//!
//! A person signs in with a token of the admin API. Pages are rendered by `tollgate-dashboard` from what the API and the
//! figures of this node say; forms become calls of the API. Nothing here decides who may do what.

mod about;
mod api;
mod assets;
mod chrome;
mod convert;
mod cookie;
mod diff;
mod events;
mod figures;
mod form;
mod multipart;
mod notice;
mod origin_check;
mod page;
mod page_problem;
mod pages;
mod range;
mod rule_form;
mod rule_text;
mod session;
mod sign_in;
mod simulation;
mod streams;
mod visit;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{HeaderName, HeaderValue, header};
use tollgate_dashboard::path;

use self::about::ServerFacts;
use self::page_problem::PageProblem;
use self::pages::{client_forms, decision, keys, lists, rule_forms, show, simulate, try_request};
use self::session::Sessions;
use self::streams::Streams;
use self::visit::Visit;
use crate::app::state::ServerState;
use crate::edge::host_check::HostCheck;
use crate::settings::Settings;

/// Pages need nothing but what this server sends, and no other page may show them in a frame.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
);

/// What all pages share. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct UiState(Arc<UiShared>);

#[derive(Debug)]
pub(crate) struct UiShared {
    app: ServerState,
    /// The whole API, for calls of pages.
    api: Router,
    sessions: Sessions,
    streams: Streams,
    host_check: HostCheck,
    about: ServerFacts,
}

impl Deref for UiState {
    type Target = UiShared;

    fn deref(&self) -> &UiShared {
        &self.0
    }
}

/// The routes of the dashboard. `api` is the whole API.
pub(crate) fn routes(app: &ServerState, api: Router, settings: &Settings) -> Router {
    let ui = UiState(Arc::new(UiShared {
        app: app.clone(),
        api,
        sessions: Sessions::new(),
        streams: Streams::new(settings.limits.idle_timeout),
        host_check: HostCheck::for_pages(settings),
        about: ServerFacts::new(settings),
    }));
    let pages = [
        path::OVERVIEW,
        path::RULES,
        path::CLIENTS,
        path::CLIENT,
        path::LIVE,
        path::AUDIT,
        path::LISTS,
        path::KEYS,
        path::HEALTH,
        "/ui/decisions/{decision_id}",
    ];
    let router =
        pages.into_iter().fold(Router::new(), |router, path| router.route(path, get(show)));
    router
        .route(path::SIGN_IN, get(sign_in::show).post(sign_in::sign_in))
        .route(path::SIGN_OUT, post(sign_in::sign_out))
        .route(path::NEW_RULE, get(show).post(rule_forms::edit_new))
        .route("/ui/rules/{rule_id}", get(show).post(rule_forms::edit))
        .route("/ui/rules/{rule_id}/state", post(rule_forms::set_state))
        .route("/ui/rules/{rule_id}/promote", post(rule_forms::promote))
        .route("/ui/rules/{rule_id}/delete", post(rule_forms::delete))
        .route("/ui/rules/{rule_id}/rollback", post(rule_forms::restore))
        .route(path::CLIENT_OVERRIDE, post(client_forms::set_override))
        .route(path::CLIENT_BAN, post(client_forms::ban))
        .route(path::CLIENT_TIER, post(client_forms::set_tier))
        .route(path::CLIENT_RESET, post(client_forms::reset))
        .route(path::TRY, get(show).post(try_request::check))
        .route(path::SIMULATE, get(show).post(simulate::replay))
        .route(path::REFUND, post(decision::refund))
        .route(path::LIST_ADD, post(lists::add))
        .route(path::LIST_REMOVE, post(lists::remove))
        .route(path::BAN_LIFT, post(lists::lift))
        .route(path::KEY_CREATE, post(keys::create_key))
        .route(path::KEY_REMOVE, post(keys::remove_key))
        .route(path::TOKEN_CREATE, post(keys::create_token))
        .route(path::TOKEN_REVOKE, post(keys::revoke_token))
        .route(path::EVENTS, get(events::events))
        .route("/ui/assets/{name}", get(assets::asset))
        .route("/ui/{*path}", any(not_found))
        .layer(from_fn_with_state(ui.clone(), protect))
        .with_state(ui)
}

/// A page that does not exist.
async fn not_found(visit: Visit) -> Response {
    let detail = "there is no page at this address; the navigation lists all pages";
    PageProblem::not_found(detail).respond(Some(&visit))
}

/// Refuses requests for unknown hosts, and adds the header fields that protect pages.
async fn protect(State(ui): State<UiState>, request: Request, next: Next) -> Response {
    let mut response = match ui.host_check.admit_host(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => PageProblem::from(problem).respond(None),
    };
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let fields = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        // Not `no-referrer`: browsers would then send `Origin: null` with forms of these pages.
        (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            HeaderValue::from_static("same-origin"),
        ),
    ];
    headers.extend(fields);
    response
}
