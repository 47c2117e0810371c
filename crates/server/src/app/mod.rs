//! A server without its listeners: routes requests to handlers, reloads rules, runs background work.

mod background;
mod example;
pub(crate) mod fleet;
pub(crate) mod fleet_secret;
pub(crate) mod offload;
mod opening;
mod plain_calls;
mod publish;
pub(crate) mod readiness;
mod reload;
pub(crate) mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use opentelemetry_sdk::trace::SdkTracer;
use tollgate::{MemoryStore, Promise};
use tollgate_catalog::CatalogUrl;
use tower::ServiceExt as _;

use crate::admin::auth::{Principal, Right};
use crate::app::readiness::NodeReadiness;
use crate::app::state::{ServerState, StartError};
use crate::edge::drain::SharedBody;
use crate::edge::gateway::Gateway;
use crate::edge::grpc::Services;
use crate::edge::host_check::HostCheck;
use crate::edge::http::extract::{BodyBound, read_json};
use crate::edge::http::handlers::check::{self, IDEMPOTENCY_KEY};
use crate::edge::http::problem::{IsProblem, Problem};
use crate::edge::http::routes::{self, CHECK};
use crate::edge::http::version_notice::VersionFields;
use crate::edge::listen::Peer;
use crate::observe::metrics::{EntryPoint, Unfinished};
use crate::observe::traces::{self, Traces};
use crate::policy::source::PolicySource;
use crate::settings::Settings;

/// A server without its listeners. Clones share their state.
#[derive(Clone, Debug)]
pub struct App {
    state: ServerState,
    public: Router,
    admin: Router,
    grpc: Services,
    gateway: Option<Gateway>,
    host_check: Option<HostCheck>,
    version_fields: Option<VersionFields>,
    traces: Option<Traces>,
}

// Futures are boxed: the command would compile them again, and all that they await with them.
impl App {
    /// Reads the files that the settings name, opens the catalog, and builds the server.
    ///
    /// # Errors
    /// What cannot be read or used, as a message for the operator.
    pub fn new(settings: &Settings) -> BoxFuture<'_, Result<Self, StartError>> {
        Box::pin(async move {
            let state = ServerState::new(settings).await?;
            let gateway = settings.gateway.as_ref();
            let gateway = match gateway.map(|gateway| Gateway::new(&state, gateway)).transpose() {
                Ok(gateway) => gateway,
                Err(error) => {
                    state.close().await;
                    return Err(error);
                }
            };
            Ok(Self {
                public: routes::public(&state, settings),
                admin: routes::admin(&state, settings),
                grpc: Services::new(&state),
                gateway,
                host_check: HostCheck::of(settings),
                version_fields: VersionFields::of(&settings.api_v1),
                traces: None,
                state,
            })
        })
    }

    /// Creates a span for each request, unless the trace of its caller is not sampled.
    #[must_use]
    pub fn with_traces(self, tracer: SdkTracer) -> Self {
        let note_route = || map_request(traces::note_matched_path);
        let traces = Traces::new(tracer);
        Self {
            public: self.public.layer(note_route()),
            admin: self.admin.layer(note_route()),
            gateway: self.gateway.map(|gateway| gateway.with_traces(traces.clone())),
            traces: Some(traces),
            ..self
        }
    }

    /// Begins a check, which bypasses the router: the future of a call is moved several times, and this one is small.
    /// Returns any other request.
    #[expect(clippy::result_large_err, reason = "the request goes on to `serve_public`")]
    pub(crate) fn begin_check(
        self: &Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Result<impl Future<Output = Response> + Send + use<>, Request<Incoming>> {
        let is_check = request.uri().path() == CHECK && request.method() == Method::POST;
        let is_for_us = || self.host_check.as_ref().is_none_or(|it| it.admit(&request).is_ok());
        if !is_check || self.traces.is_some() || !is_for_us() {
            return Err(request);
        }
        let app = Arc::clone(self);
        let (head, body) = request.into_parts();
        let headers = head.headers;
        Ok(async move {
            let unfinished = Unfinished::new(&app.state.metrics.requests, Some(EntryPoint::Http));
            let response = app.check(&headers, body, peer).await;
            app.finish_public(response, app.version_fields_for(CHECK), unfinished)
        })
    }

    /// Serves a request to the check API, and to the admin API unless that has a separate listener.
    pub(crate) async fn serve_public(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response {
        match &self.traces {
            None => self.answer_public(request, peer).await,
            Some(traces) => traces.http(request, |request| self.answer_public(request, peer)).await,
        }
    }

    async fn answer_public(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let entry = routes::entry_of(request.method(), request.uri().path());
        let unfinished = Unfinished::new(&self.state.metrics.requests, entry);
        let version_fields = self.version_fields_for(request.uri().path());
        let admitted = self.host_check.as_ref().map_or(Ok(()), |check| check.admit(&request));
        let response = if let Err(problem) = admitted {
            SharedBody::new(request.into_body()).answered_by(problem.into_response()).await
        } else if request.uri().path() == CHECK && request.method() == Method::POST {
            let (head, body) = request.into_parts();
            self.check(&head.headers, body, peer).await
        } else {
            route(&self.public, request, peer).await
        };
        self.finish_public(response, version_fields, unfinished)
    }

    /// Adds what every response has, and counts it.
    fn finish_public(
        &self,
        mut response: Response,
        version_fields: Option<&VersionFields>,
        unfinished: Unfinished<'_>,
    ) -> Response {
        if let Some(fields) = version_fields {
            fields.add_to(response.headers_mut());
        }
        self.state.metrics.count_response(response.status());
        unfinished.finish(response.extensions().get::<IsProblem>().is_some());
        response
    }

    /// The fields that announce the end of the version that a path belongs to, if it ends.
    #[inline]
    fn version_fields_for(&self, path: &str) -> Option<&VersionFields> {
        self.version_fields.as_ref().filter(|_| VersionFields::cover(path))
    }

    /// Serves a request to the admin API on a separate listener.
    pub(crate) async fn serve_admin(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response {
        match &self.traces {
            None => self.answer_admin(request, peer).await,
            Some(traces) => {
                Box::pin(traces.http(request, |request| self.answer_admin(request, peer))).await
            }
        }
    }

    async fn answer_admin(&self, request: Request<Incoming>, peer: Peer) -> Response {
        let version_fields = self.version_fields_for(request.uri().path());
        let mut response = route(&self.admin, request, peer).await;
        if let Some(fields) = version_fields {
            fields.add_to(response.headers_mut());
        }
        self.state.metrics.count_response(response.status());
        response
    }

    /// Serves a gRPC call.
    pub(crate) fn serve_grpc(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<tonic::body::Body>> + Send {
        let answering = if self.traces.is_none() {
            Ok(self.grpc.serve(request, peer))
        } else {
            Err(Box::pin(self.serve_traced(request, peer)))
        };
        async move {
            match answering {
                Ok(plain) => plain.await,
                Err(traced) => traced.await,
            }
        }
    }

    async fn serve_traced(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<tonic::body::Body> {
        match &self.traces {
            None => self.grpc.serve(request, peer).await,
            Some(traces) => traces.grpc(request, |request| self.grpc.serve(request, peer)).await,
        }
    }

    async fn check(&self, headers: &HeaderMap, body: Incoming, peer: Peer) -> Response {
        traces::note_route(CHECK);
        // Before the body is read, so that callers without permission cannot fill memory.
        let admitted = self.state.admit(headers, peer, Right::Caller);
        match admitted.and_then(|caller| self.state.guard.check_call().map(|()| caller)) {
            Ok(caller) => {
                let answered = self.answer_check(caller, headers, body).await;
                answered.unwrap_or_else(Problem::into_response)
            }
            // On the heap, since it is large and rare.
            Err(problem) => {
                Box::pin(SharedBody::new(body).answered_by(problem.into_response())).await
            }
        }
    }

    async fn answer_check(
        &self,
        caller: Principal,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<Response, Problem> {
        let bound = BodyBound::bodies(self.state.body_bytes);
        let body = read_json(headers, body, bound, self.state.request_timeout).await?;
        let key = headers.get(IDEMPOTENCY_KEY);
        // Threads would contend for the count of references.
        if !self.state.can_callers_leave() {
            return match check::respond(&self.state, &caller, key, &body) {
                Promise::Ready(response) => response,
                Promise::Pending(response) => response.await,
            };
        }
        let (state, key) = (self.state.clone(), key.cloned());
        let check = async move { check::respond(&state, &caller, key.as_ref(), &body).await };
        Box::pin(self.state.finish(check)).await
    }

    /// The gateway, if there is an upstream.
    #[must_use]
    pub const fn gateway(&self) -> Option<&Gateway> {
        self.gateway.as_ref()
    }

    /// A short description of the rules in force.
    #[must_use]
    pub fn policy_summary(&self) -> String {
        self.state.policy_source.summary()
    }

    /// The path and the body of a check to try: one that the first rule counts, or else the first limit
    /// for Envoy.
    #[must_use]
    pub fn example(&self) -> (&'static str, String) {
        let policy = self.state.limiter.policy();
        let first = self.state.policy_source.in_force().first;
        let files = self.state.envoy.source.loaded.load();
        if let (None, Some(limit)) = (&first, files.config.limits().first()) {
            return (routes::ENVOY_JSON, example::call_of_envoy(limit));
        }
        let first = first.and_then(|rule_id| policy.rules().find(&rule_id));
        (CHECK, example::check_of(first.map_or(&[], |rule| &rule.identifiers)))
    }

    /// The admin token, if none is set and there was none: for this run, or stored in the catalog. It
    /// can be shown only once, so this is the last step of a start that may fail.
    ///
    /// # Errors
    /// The catalog cannot store it.
    pub fn first_admin_token<'a>(
        &'a self,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<Option<String>, StartError>> {
        Box::pin(async move {
            match &self.state.policy_source {
                PolicySource::File(_) => Ok(self.state.generated_admin_token.clone()),
                PolicySource::Catalog(_) if settings.added_admin_token().is_some() => Ok(None),
                PolicySource::Catalog(catalog_sync) => {
                    let token = catalog_sync.add_first_admin(self.state.now()).await?;
                    // If this fails, the token is read with the next change.
                    let _ = self.state.sync().await;
                    Ok(token)
                }
            }
        })
    }

    /// Tells the other nodes of the fleet that this one ends, so that they do not miss it.
    pub fn leave_fleet(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.state.say_farewell())
    }

    /// Closes the catalog, once nothing uses it any more.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.state.close().await;
        })
    }

    /// The URL of the catalog, unless the rules are in a file, or it could not be reached yet.
    #[must_use]
    pub fn catalog_url(&self) -> Option<&CatalogUrl> {
        match &self.state.policy_source {
            PolicySource::Catalog(catalog_sync) if catalog_sync.was_reached() => {
                Some(catalog_sync.catalog.url())
            }
            _ => None,
        }
    }

    /// Reports that the server takes traffic, if it has a policy.
    pub fn report_readiness(&self) {
        self.grpc.report_if(|| self.state.readiness() == NodeReadiness::Ready);
    }

    /// Reports that the server takes no more traffic, so that load balancers use other servers.
    pub fn set_draining(&self) {
        self.state.is_draining.store(true, Ordering::Relaxed);
        self.state.audit_log.events.close();
        self.grpc.report_draining();
    }

    /// Ends gRPC streams that have no end, like `Watch` of health.
    pub fn end_streams(&self) {
        self.grpc.end_streams();
    }

    /// Why the last fetch of the keys of tokens failed, if it did.
    #[must_use]
    pub fn key_failure(&self) -> Option<String> {
        self.state.extractor.key_failure()
    }

    /// How many counters of clients at their limit were evicted.
    #[must_use]
    pub fn exhausted_evictions(&self) -> u64 {
        self.state.limiter.store().memory().map_or(0, MemoryStore::evicted_exhausted)
    }

    /// Removes expired counters (traffic does so too; this is for times without traffic), and decisions
    /// of old policies.
    pub fn sweep(&self) {
        self.state.journal.forget_old(&self.state.limiter.policy());
        if let Some(memory) = self.state.limiter.store().memory() {
            memory.sweep(self.state.now());
        }
    }
}

async fn route(router: &Router, request: Request<Incoming>, peer: Peer) -> Response {
    let (parts, body) = request.into_parts();
    let body = SharedBody::new(body);
    let method = parts.method.clone();
    let mut request = Request::from_parts(parts, Body::new(body.clone()));
    request.extensions_mut().insert(peer);
    match router.clone().oneshot(request).await {
        Ok(response) => body.answered_by(routes::explain_method(&method, response)).await,
        Err(never) => match never {},
    }
}
