//! A server without its listeners: the way of a request to its handler, and what operators do to it.

use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use tollgate::{Policy, Revision};
use tower::ServiceExt as _;

use crate::auth::{Principal, Right};
use crate::extract::read_json;
use crate::handlers::check;
use crate::listen::Peer;
use crate::problem::Problem;
use crate::routes;
use crate::settings::Settings;
use crate::state::{ServerState, StartError};
use crate::unread::SharedBody;

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
            self.check(request, peer).await
        } else {
            // On the heap: an answer in the making takes kilobytes, and whoever serves a connection
            // moves what it awaits several times.
            Box::pin(route(&self.public, request, peer)).await
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

    async fn check(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let (parts, body) = request.into_parts();
        // Before the body is read: whoever may not ask does not get to fill memory either.
        let admitted = self.state.admit(&parts.headers, peer, Right::Caller);
        match admitted.and_then(|caller| self.state.guard.check_call().map(|()| caller)) {
            Ok(caller) => {
                let answered = self.answer_check(caller, &parts.headers, body).await;
                answered.unwrap_or_else(Problem::into_response)
            }
            Err(problem) => SharedBody::new(body).answered_by(problem.into_response()).await,
        }
    }

    async fn answer_check(
        &self,
        caller: Principal,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response, Problem> {
        let body =
            read_json(headers, body, self.state.body_bytes, self.state.request_timeout).await?;
        check::answer(&self.state, caller, headers, &body).await
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
        let read = self.state.policy_source.reload(self.state.now(), |policy| self.install(policy));
        self.log_reload(read);
    }

    /// Reloads the rules if their file has changed and is no longer being written: if it looks the
    /// same as it did at the last call.
    pub fn reload_if_changed(&self) {
        let source = &self.state.policy_source;
        let read = source.reload_if_settled(self.state.now(), |policy| self.install(policy));
        if let Some(read) = read {
            self.log_reload(read);
        }
    }

    fn install(&self, policy: &Policy) {
        self.state.limiter.install(policy);
    }

    fn log_reload(&self, read: Result<Revision, String>) {
        match read {
            Ok(Revision { number, .. }) => {
                tracing::info!(revision = number, "rules loaded: {}", self.policy_summary());
            }
            Err(problems) => {
                tracing::error!("rules not loaded, the last good ones stay in force: {problems}");
            }
        }
    }

    /// Why the keys of tokens could not be fetched from their URL the last time, if so.
    #[must_use]
    pub fn key_failure(&self) -> Option<String> {
        self.state.extractor.key_failure()
    }

    /// Forgets counters that have expired (traffic does so too; this is for when there is none), and
    /// decisions of policies long gone.
    pub fn sweep(&self) {
        self.state.journal.forget_old(self.state.policy_source.loaded.load().revision);
        self.state.limiter.store().inner.sweep(self.state.now());
    }
}

async fn route(router: &Router, request: Request<Incoming>, peer: Peer) -> Response {
    let (parts, body) = request.into_parts();
    let body = SharedBody::new(body);
    let mut request = Request::from_parts(parts, Body::new(body.clone()));
    request.extensions_mut().insert(peer);
    match router.clone().oneshot(request).await {
        Ok(response) => body.answered_by(response).await,
        Err(never) => match never {},
    }
}
