//! A server without its listeners: the way of a request to its handler, and what operators do to it.

use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Method, Request};
use hyper::body::Incoming;
use tower::ServiceExt as _;

use crate::extract::read_json;
use crate::handlers::check;
use crate::listen::Peer;
use crate::problem::Problem;
use crate::routes;
use crate::settings::Settings;
use crate::state::{ServerState, StartError};

/// A server without its listeners. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct App {
    state: ServerState,
    public: Router,
    admin: Router,
}

/// The call that has to be fast goes past the router.
const CHECK: &str = "/api/v1/rate-limit/check";

impl App {
    /// Reads what the settings name and puts the server together.
    ///
    /// # Errors
    /// What cannot be read or used, in words for whoever started the server.
    pub fn new(settings: &Settings) -> Result<Self, StartError> {
        let state = ServerState::new(settings)?;
        let is_admin_apart = settings.admin.is_some();
        Ok(Self {
            public: routes::public(&state, is_admin_apart),
            admin: routes::admin(&state),
            state,
        })
    }

    /// Answers a request to the check API, and to the admin API unless that is apart.
    pub async fn serve_public(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let response = if request.uri().path() == CHECK && request.method() == Method::POST {
            self.check(request, peer).await.unwrap_or_else(Problem::into_response)
        } else {
            route(&self.public, request, peer).await
        };
        self.state.metrics.count_response(response.status());
        response
    }

    /// Answers a request to the admin API where it is apart.
    pub async fn serve_admin(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let response = route(&self.admin, request, peer).await;
        self.state.metrics.count_response(response.status());
        response
    }

    async fn check(&self, request: Request<Incoming>, peer: Peer) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let body =
            read_json(&parts.headers, body, self.state.body_bytes, self.state.request_timeout)
                .await?;
        check::answer(&self.state, peer, &parts.headers, &body).await
    }

    /// The rules in force, in a few words.
    #[must_use]
    pub fn policy_summary(&self) -> String {
        let rules = self.state.policy_source.loaded.load().document.rules.len();
        let plural = if rules == 1 { "" } else { "s" };
        match self.state.policy_source.file() {
            Some(file) => format!("{rules} rule{plural} from {}", file.display()),
            None => format!("{rules} built-in rule{plural} (bring your own with --rules FILE)"),
        }
    }

    /// The admin token, if nobody chose one.
    #[must_use]
    pub fn generated_admin_token(&self) -> Option<&str> {
        self.state.generated_admin_token.as_deref()
    }

    /// Says that the server takes no more traffic, so that load balancers look elsewhere.
    pub fn set_draining(&self) {
        self.state.is_draining.store(true, Ordering::Relaxed);
    }

    /// Reads the rules again and puts them in force; a file with problems leaves everything as it is.
    pub fn reload(&self) {
        match self.state.policy_source.reload(self.state.now()) {
            Ok(policy) => {
                let revision = self.state.limiter.install(&policy).number;
                tracing::info!(revision, "rules loaded: {}", self.policy_summary());
            }
            Err(problems) => {
                tracing::error!("rules not loaded, the last good ones stay in force: {problems}");
            }
        }
    }

    /// Reloads the rules if their file has changed.
    pub fn reload_if_changed(&self) {
        if self.state.policy_source.has_changed() {
            self.reload();
        }
    }

    /// Forgets counters that have expired. Traffic does so too; this is for when there is none.
    pub fn sweep(&self) {
        self.state.limiter.store().inner.sweep(self.state.now());
    }
}

async fn route(router: &Router, request: Request<Incoming>, peer: Peer) -> Response {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
