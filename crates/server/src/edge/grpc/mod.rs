//! Tollgate over gRPC: which call leads to which service, who may make it, and how long it may take.
//!
//! Connections, their encryption and their bounds are those of [`crate::edge::listen`], as for HTTP.

mod authorization;
mod definitions;
mod encode;
mod envoy;
mod envoy_response;
mod head;
mod health;
mod rate_limiter;
mod read;
mod reflection;
mod respond;
mod status;
mod text;
mod unary;
mod wire;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Request, Response};
use hyper::body::{Body as _, Incoming};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::codegen::{BoxFuture, Service as _};
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::pb::v1::server_reflection_server::ServerReflectionServer;
use tonic_reflection::pb::v1alpha::server_reflection_server as earlier;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use self::authorization::Authorization;
use self::definitions::DESCRIPTORS;
use self::definitions::envoy::service::auth::v3::authorization_server as auth;
use self::definitions::envoy::service::ratelimit::v3::rate_limit_service_server as rls;
use self::definitions::tollgate::v1::rate_limiter_server as v1;
use self::envoy::RateLimitService;
use self::health::{HealthChecks, ServingState};
use self::rate_limiter::RateLimiter;
use self::reflection::Reflection;
pub(crate) use self::status::code_of;
use self::unary::{Framed, Reply};
use crate::admin::auth::{Principal, Right};
use crate::app::state::ServerState;
use crate::edge::drain::SharedBody;
use crate::edge::envoy::MAX_MESSAGE_BYTES;
use crate::edge::http::extract::within;
use crate::edge::http::problem::Problem;
use crate::edge::listen::Peer;
use crate::edge::replayed_body::ReplayedBody;
use crate::observe::metrics::{EntryPoint, Unfinished};

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const AUTHORIZE: &str = "/envoy.service.auth.v3.Authorization/Check";
const CHECK_RATE_LIMIT: &str = "/tollgate.v1.RateLimiter/CheckRateLimit";
const CHECK_BATCH: &str = "/tollgate.v1.RateLimiter/CheckBatch";
const RESET: &str = "/tollgate.v1.RateLimiter/ResetLimit";
const REFUND: &str = "/tollgate.v1.RateLimiter/Refund";

/// The name of envoyproxy/ratelimit in health checks; probes written for that service use it.
const RATELIMIT: &str = "ratelimit";

/// The definitions of all services.
const DEFINITIONS: [&[u8]; 4] = [
    DESCRIPTORS,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// A service behind a pointer: for those that need not be fast.
type Boxed = BoxCloneSyncService<Request<SharedBody>, Response<Body>, Infallible>;

/// The future of a call that has begun.
type Called = BoxFuture<Response<Body>, Infallible>;

/// The services of this server.
#[derive(Clone)]
pub(crate) struct Services {
    state: ServerState,
    rate_limiter: v1::RateLimiterServer<RateLimiter>,
    rate_limit_service: rls::RateLimitServiceServer<RateLimitService>,
    authorization: auth::AuthorizationServer<Authorization>,
    health: Boxed,
    reflection: Boxed,
    earlier_reflection: Boxed,
    calls: Arc<watch::Sender<ServingState>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

impl Services {
    pub(crate) fn new(state: &ServerState) -> Self {
        let most = state.body_bytes;
        let rate_limiter = v1::RateLimiterServer::new(RateLimiter::new(state.clone()));
        let rate_limit_service =
            rls::RateLimitServiceServer::new(RateLimitService::new(state.clone()));
        let (calls, call_state) = watch::channel(ServingState::NotServing);
        let reflection = Reflection::new(&DEFINITIONS, call_state.clone());
        Self {
            state: state.clone(),
            rate_limiter: rate_limiter.max_decoding_message_size(most).accept_compressed(Gzip),
            rate_limit_service: rate_limit_service
                .max_decoding_message_size(most.max(MAX_MESSAGE_BYTES))
                .accept_compressed(Gzip),
            authorization: auth::AuthorizationServer::new(Authorization::new(state.clone()))
                .max_decoding_message_size(most.max(MAX_MESSAGE_BYTES)),
            health: Boxed::new(HealthServer::new(HealthChecks(call_state))),
            reflection: Boxed::new(ServerReflectionServer::new(reflection.clone())),
            earlier_reflection: Boxed::new(earlier::ServerReflectionServer::new(reflection)),
            calls: Arc::new(calls),
        }
    }

    /// Reports that no more calls should come.
    pub(crate) fn report_draining(&self) {
        self.calls.send_replace(ServingState::NotServing);
    }

    /// Reports that calls are served, if `is_ready` says so. It is asked while nothing else can be reported, so that a
    /// server that begins to shut down meanwhile does not come back.
    pub(crate) fn report_if(&self, is_ready: impl FnOnce() -> bool) {
        self.calls.send_if_modified(|state| {
            let is_new = *state == ServingState::NotServing && is_ready();
            if is_new {
                *state = ServingState::Serving;
            }
            is_new
        });
    }

    /// Ends streams that have no end, so that they do not keep the server from ending.
    pub(crate) fn end_streams(&self) {
        self.calls.send_replace(ServingState::EndingStreams);
    }

    /// Serves a call. The future is kept small: every call is a separate task, and tasks are moved.
    pub(crate) fn serve(
        &self,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body>> + Send + use<> {
        let state = self.state.clone();
        let (head, body) = request.into_parts();
        let mut body = SharedBody::new(body);
        let request = Request::from_parts(head, body.clone());
        let entry = match request.uri().path() {
            SHOULD_RATE_LIMIT => Some(EntryPoint::Envoy),
            AUTHORIZE => Some(EntryPoint::Authorize),
            CHECK_RATE_LIMIT | CHECK_BATCH => Some(EntryPoint::Grpc),
            _ => None,
        };
        let called = match head::refuse_foreign(&request) {
            Some(refusal) => Err((Code::Unknown, Box::new(refusal))),
            None => {
                let deadline = head::deadline(request.headers());
                let called = deadline.and_then(|asked| Ok((asked, self.call(request, peer)?)));
                called.map_err(|status| (status.code(), Box::new(status.into_http())))
            }
        };
        async move {
            let unfinished = Unfinished::new(&state.metrics.requests, entry);
            let mut is_too_large = false;
            let (code, response) = match called {
                Ok((asked, call)) => {
                    let (deadline, passed) = earliest(asked, state.request_timeout);
                    let answered = within(deadline, call).await;
                    let response = answered.map_or_else(
                        || Status::deadline_exceeded(passed).into_http(),
                        |Ok(response)| response,
                    );
                    let code = code_of(&response);
                    // Envoy lets requests pass whose check failed, and its clients can make a message large: as it is
                    // sent, or once it is decompressed.
                    is_too_large = matches!(entry, Some(EntryPoint::Envoy))
                        && matches!(code, Code::OutOfRange | Code::ResourceExhausted);
                    (code, response)
                }
                Err((code, refusal)) => (code, *refusal),
            };
            let response = if is_too_large { envoy::over_limit() } else { response };
            unfinished.finish(code != Code::Ok);
            state.metrics.count_call(if is_too_large { Code::Ok } else { code });
            // A caller whose deadline has passed is not kept waiting.
            if !matches!(code, Code::Ok | Code::DeadlineExceeded) && !body.is_end_stream() {
                body.wait_out().await;
            }
            response
        }
    }

    /// Begins a call, if it may be made.
    fn call(&self, mut request: Request<SharedBody>, peer: Peer) -> Result<Called, Status> {
        let path = request.uri().path();
        let (service, _) =
            path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        match service {
            rls::SERVICE_NAME => {
                self.admit(request.headers(), peer, path).map_err(status::of)?;
                if path == SHOULD_RATE_LIMIT && !is_encoded(&request) {
                    return Ok(self.should_rate_limit(request));
                }
                let mut service = self.rate_limit_service.clone();
                if is_compressed(&request) {
                    service = service.send_compressed(Gzip);
                }
                Ok(service.call(request.map(ReplayedBody::unread)))
            }
            v1::SERVICE_NAME => {
                let caller = self.admit(request.headers(), peer, path).map_err(status::of)?;
                let is_batch = path == CHECK_BATCH;
                if (is_batch || path == CHECK_RATE_LIMIT) && !is_encoded(&request) {
                    return Ok(self.check(request, peer, caller, is_batch));
                }
                let mut service = self.rate_limiter.clone();
                if is_compressed(&request) {
                    service = service.send_compressed(Gzip);
                }
                Ok(service.call(by_caller(request.map(ReplayedBody::unread), peer, caller)))
            }
            auth::SERVICE_NAME => {
                self.admit(request.headers(), peer, path).map_err(status::of)?;
                request.extensions_mut().insert(peer);
                Ok(self.authorization.clone().call(request))
            }
            _ => match self.other(service) {
                Some(service) => Ok(Box::pin(service.oneshot(request))),
                None => Err(Status::unimplemented("there is no such service here")),
            },
        }
    }

    /// Makes checks of a call that is not compressed.
    fn check(
        &self,
        request: Request<SharedBody>,
        peer: Peer,
        caller: Principal,
        is_batch: bool,
    ) -> Called {
        let (state, mut library) = (self.state.clone(), self.rate_limiter.clone());
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let frames = match Framed::read(&mut body, state.body_bytes).await {
                Ok(message) => {
                    let (limiter, caller) = (RateLimiter::new(state.clone()), caller.clone());
                    let checked = if is_batch {
                        // On the heap, as everything that a single check does not need.
                        Box::pin(state.finish(limiter.check_batch_framed(message, caller))).await
                    } else {
                        state.finish(limiter.check_framed(message, caller)).await
                    };
                    match checked {
                        Ok(checked) => return Ok(response(checked)),
                        Err(message) => message.into_frames(),
                    }
                }
                Err(frames) => frames,
            };
            let request = Request::from_parts(head, ReplayedBody { frames, rest: body });
            library.call(by_caller(request, peer, caller)).await
        })
    }

    /// Checks a request of Envoy that is not compressed.
    fn should_rate_limit(&self, request: Request<SharedBody>) -> Called {
        let (state, mut library) = (self.state.clone(), self.rate_limit_service.clone());
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let most = state.body_bytes.max(MAX_MESSAGE_BYTES);
            let frames = match Framed::read(&mut body, most).await {
                Ok(message) => {
                    let service = RateLimitService::new(state.clone());
                    match state.finish(service.check_framed(message)).await {
                        Ok(checked) => return Ok(response(checked)),
                        Err(message) => message.into_frames(),
                    }
                }
                Err(frames) => frames,
            };
            let rest = ReplayedBody { frames, rest: body };
            library.call(Request::from_parts(head, rest)).await
        })
    }

    fn other(&self, service: &str) -> Option<Boxed> {
        match service {
            "grpc.health.v1.Health" => Some(self.health.clone()),
            "grpc.reflection.v1.ServerReflection" => Some(self.reflection.clone()),
            "grpc.reflection.v1alpha.ServerReflection" => Some(self.earlier_reflection.clone()),
            _ => None,
        }
    }

    /// The caller, if it has the permission; checked before the message is read.
    fn admit(&self, headers: &HeaderMap, peer: Peer, path: &str) -> Result<Principal, Problem> {
        if path == RESET || path == REFUND {
            let caller = self.state.admit(headers, peer, Right::Operator)?;
            self.state.guard.admin_call(&caller, true)?;
            return Ok(caller);
        }
        let caller = self.state.admit(headers, peer, Right::Caller)?;
        self.state.guard.check_call()?;
        Ok(caller)
    }
}

/// Adds what the handlers of the library read from a request: its caller.
fn by_caller<B>(mut request: Request<B>, peer: Peer, caller: Principal) -> Request<B> {
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(peer);
    request
}

fn response(checked: Result<Reply, Status>) -> Response<Body> {
    match checked {
        Ok(reply) => reply.into_response(),
        Err(status) => status.into_http(),
    }
}

/// Whether the messages of a caller may be compressed.
fn is_encoded<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(GRPC_ENCODING)
}

/// Whether the caller compresses its messages: then it gets compressed ones. Callers that only could read them do not,
/// since messages are small.
fn is_compressed<B>(request: &Request<B>) -> bool {
    request.headers().get(GRPC_ENCODING).is_some_and(|encoding| encoding == "gzip")
}

/// How long a call may take to arrive and be checked, and the message when it took longer.
fn earliest(asked: Option<Duration>, most: Duration) -> (Duration, &'static str) {
    match asked {
        Some(asked) if asked <= most => (asked, "the deadline of the call has passed"),
        _ => (most, "the call did not arrive in time (limits.request_timeout)"),
    }
}

/// The calls that exist, as `package.Service/Method`.
pub(crate) fn calls() -> Vec<String> {
    let mut calls = Vec::new();
    // The definitions are compiled in and valid, so this cannot fail.
    for file in DEFINITIONS.iter().filter_map(|set| FileDescriptorSet::decode(*set).ok()) {
        for file in &file.file {
            for service in &file.service {
                let name = |method: &str| format!("{}.{}/{method}", file.package(), service.name());
                calls.extend(service.method.iter().map(|method| name(method.name())));
            }
        }
    }
    calls
}
