//! The gateway: checks requests by the rules of this server, and forwards those that may pass.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HeaderValue};
use http::{Request, Response, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tollgate::Decision;
use tollgate::identity::{CredentialProblem, TokenVerdict};
use tollgate::tower::{NotChecked, Observed, RateLimit, RateLimitLayer, ResponseBody};
use tollgate_gateway::{
    ClientAddress, Forwarder, FromUpstream, GatewayCounts, OriginalClient,
    ResponseBody as ForwardedBody,
};
use tower::{Layer as _, Service as _};

use crate::app::state::{ServerState, Shared, SharedStore, StartError};
use crate::check::checker::Recording;
use crate::edge::drain::SharedBody;
use crate::edge::listen::Peer;
use crate::observe::audit_log::RequestContext;
use crate::observe::metrics::{EntryPoint, RequestOutcome};
use crate::observe::traces::Traces;
use crate::settings;

/// The response to a request. On the heap, in one piece: it takes kilobytes, and a future that awaits it would hold it twice.
pub(crate) type GatewayCall = Pin<Box<dyn Future<Output = Response<GatewayBody>> + Send>>;

/// A limiter in front of upstreams. Clones share their state.
#[derive(Clone, Debug)]
pub struct Gateway {
    service: RateLimit<Forwarder, SharedStore>,
    forwarder: Forwarder,
    counts: Arc<GatewayCounts>,
    state: ServerState,
    traces: Option<Traces>,
}

impl Gateway {
    pub(crate) fn new(
        state: &ServerState,
        settings: &settings::GatewaySettings,
    ) -> Result<Self, StartError> {
        let counts = Arc::clone(&state.metrics.gateway);
        let forwarder = Forwarder::new(&settings.config, Arc::clone(&counts))
            .map_err(|error| StartError::new(&format!("gateway.ca: {error}")))?;
        let layer = RateLimitLayer::new(Arc::clone(&state.limiter))
            .client_address(|parts| Some(parts.extensions.get::<ClientAddress>()?.0))
            .identify(Arc::clone(&state.extractor))
            .headers(state.families)
            .refusal_format(state.refusal.clone())
            .paths(state.paths)
            .observe({
                let state = state.clone();
                move |observed| state.record_observed(observed)
            });
        let service = layer.layer(forwarder.clone());
        Ok(Self { service, forwarder, counts, state: state.clone(), traces: None })
    }

    /// Creates a span for each request, unless the trace of its caller is not sampled.
    pub(crate) fn with_traces(self, traces: Traces) -> Self {
        Self { traces: Some(traces), ..self }
    }

    /// Checks a request and forwards it.
    pub(crate) fn serve(self: Arc<Self>, request: Request<Incoming>, peer: Peer) -> GatewayCall {
        match self.traces.clone() {
            None => Box::pin(self.answer(request, peer)),
            Some(traces) => Box::pin(async move {
                traces.forwarded(request, |request| self.answer(request, peer)).await
            }),
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> Response<GatewayBody> {
        let (mut parts, body) = request.into_parts();
        let address = peer.address.ip();
        parts.extensions.insert(ClientAddress(address));
        let original = self.state.extractor.client_address(&parts.headers, address);
        // Most clients connect themselves: then the address says it all.
        if original != address {
            parts.extensions.insert(OriginalClient(original));
        }
        self.forwarder.complete_host(&mut parts);
        let (version, awaits_word) = (parts.version, parts.headers.contains_key(EXPECT));
        let mut body = SharedBody::new(body);
        let request = Request::from_parts(parts, body.clone());
        // Always ready: neither the layer nor the forwarder makes requests wait for their turn.
        let mut response = match self.service.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        self.counts.count_response(response.status());
        if response.extensions().get::<NotChecked>().is_some() {
            self.state.metrics.requests.count(EntryPoint::Gateway, RequestOutcome::Error);
        }
        let refused = response.extensions().get::<CredentialProblem>();
        if let Some(problem) = refused.and_then(|refused| refused.token_problem()) {
            self.state.metrics.count_token(TokenVerdict::Rejected(problem));
        }
        if body.is_end_stream() {
            return response.map(|content| GatewayBody { content, _unread: None });
        }
        if response.extensions().get::<FromUpstream>().is_some() {
            response.extensions_mut().insert(body.clone());
        } else if !awaits_word {
            // The body will not be read. A client that waits for `100 Continue` has not sent it yet, and
            // gets none.
            body.wait_out().await;
        }
        if version < Version::HTTP_2 && !body.is_end_stream() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.map(|content| GatewayBody { content, _unread: Some(body) })
    }

    /// Waits until all upgraded connections have ended, for at most `grace`; then cuts off the rest, and
    /// returns how many those were.
    pub async fn end_upgrades(&self, grace: Duration) -> usize {
        self.forwarder.tunnels().end(grace).await
    }
}

impl Shared {
    /// Records the decision about a request. Returns the id of a refusal.
    fn record_observed(&self, observed: &Observed<'_>) -> Option<String> {
        self.metrics.checks.observe(observed.took);
        self.metrics.count_token(observed.identity.token);
        let context = |_: &Decision| {
            let Observed { request, parts, .. } = *observed;
            let (endpoint, method) = (Some(parts.uri.path()), Some(parts.method.as_str()));
            Some(RequestContext { endpoint, method, ..RequestContext::of(request) })
        };
        let recording = Recording::proxied(EntryPoint::Gateway);
        self.checker.record(observed.decision, recording, context).map(|id| (*id).to_owned())
    }
}

/// A response, which holds the unread body of its request: if that were dropped, HTTP/2 would cancel the
/// request.
#[derive(Debug)]
pub(crate) struct GatewayBody {
    content: ResponseBody<ForwardedBody>,
    _unread: Option<SharedBody>,
}

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = <ForwardedBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.content).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}
