//! Tollgate over gRPC: which call leads to which service, who may make it, and how long it may take.
//!
//! Connections, their encryption and their bounds are those of [`crate::listen`], as for HTTP.

mod definitions;
mod envoy;
mod head;
mod rate_limiter;
mod read;
mod status;

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use hyper::body::{Body as _, Incoming};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::body::Body;
use tonic::codegen::Service as _;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use self::definitions::DESCRIPTORS;
use self::definitions::envoy::service::ratelimit::v3::rate_limit_service_server as rls;
use self::definitions::tollgate::v1::rate_limiter_server as v1;
use self::envoy::RateLimitService;
use self::rate_limiter::RateLimiter;
pub(crate) use self::status::code_of;
use crate::auth::Right;
use crate::extract::within;
use crate::listen::Peer;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::unread::SharedBody;

const RESET: &str = "/tollgate.v1.RateLimiter/ResetLimit";

/// A service that has no need to be fast.
type Boxed = BoxCloneSyncService<Request<SharedBody>, Response<Body>, Infallible>;

/// The services of this server.
#[derive(Clone)]
pub(crate) struct Services {
    state: ServerState,
    rate_limiter: v1::RateLimiterServer<RateLimiter>,
    rate_limit_service: rls::RateLimitServiceServer<RateLimitService>,
    health: Boxed,
    reflection: Option<Boxed>,
    earlier_reflection: Option<Boxed>,
    reporter: HealthReporter,
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
        let reporter = HealthReporter::new();
        let health = HealthService::from_health_reporter(reporter.clone());
        let definitions = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        Self {
            state: state.clone(),
            rate_limiter: rate_limiter.max_decoding_message_size(most),
            rate_limit_service: rate_limit_service.max_decoding_message_size(most),
            health: Boxed::new(HealthServer::new(health)),
            // The definitions are ours, and sound.
            reflection: definitions().build_v1().ok().map(Boxed::new),
            earlier_reflection: definitions().build_v1alpha().ok().map(Boxed::new),
            reporter,
        }
    }

    /// Says whether calls are welcome.
    pub(crate) async fn report(&self, is_serving: bool) {
        let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in ["", v1::SERVICE_NAME, rls::SERVICE_NAME] {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Answers a call.
    pub(crate) async fn serve(&self, request: Request<Incoming>, peer: Peer) -> Response<Body> {
        let (head, body) = request.into_parts();
        let mut body = SharedBody::new(body);
        let request = Request::from_parts(head, body.clone());
        let (code, response) = match head::refuse_foreign(&request) {
            Some(refusal) => (Code::Unknown, refusal),
            None => {
                let response = self.answer(request, peer).await;
                (code_of(&response), response)
            }
        };
        self.state.metrics.count_call(code);
        // Who has waited long enough already is not kept waiting.
        if !matches!(code, Code::Ok | Code::DeadlineExceeded) && !body.is_end_stream() {
            body.wait_out().await;
        }
        response
    }

    async fn answer(&self, request: Request<SharedBody>, peer: Peer) -> Response<Body> {
        match head::deadline(request.headers()) {
            Ok(asked) => {
                let (deadline, passed) = self.earliest(asked);
                let answered = within(deadline, self.call(request, peer)).await;
                answered.unwrap_or_else(|| Status::deadline_exceeded(passed).into_http())
            }
            Err(refusal) => refusal.into_http(),
        }
    }

    /// How long a call may take to arrive and be judged, and what is said when it took longer.
    fn earliest(&self, asked: Option<Duration>) -> (Duration, &'static str) {
        let most = self.state.request_timeout;
        match asked {
            Some(asked) if asked <= most => (asked, "the deadline of the call has passed"),
            _ => (most, "the call did not arrive in time (limits.request_timeout)"),
        }
    }

    async fn call(&self, mut request: Request<SharedBody>, peer: Peer) -> Response<Body> {
        let path = request.uri().path();
        let (service, _) =
            path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        let Ok(response) = match service {
            rls::SERVICE_NAME => match self.admit(request.headers(), peer, path) {
                Ok(_) => self.rate_limit_service.clone().call(request).await,
                Err(problem) => Ok(status::of(problem).into_http()),
            },
            v1::SERVICE_NAME => match self.admit(request.headers(), peer, path) {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    self.rate_limiter.clone().call(request).await
                }
                Err(problem) => Ok(status::of(problem).into_http()),
            },
            _ => match self.other(service) {
                Some(service) => service.oneshot(request).await,
                None => Ok(Status::unimplemented("there is no such service here").into_http()),
            },
        };
        response
    }

    fn other(&self, service: &str) -> Option<Boxed> {
        match service {
            "grpc.health.v1.Health" => Some(self.health.clone()),
            "grpc.reflection.v1.ServerReflection" => self.reflection.clone(),
            "grpc.reflection.v1alpha.ServerReflection" => self.earlier_reflection.clone(),
            _ => None,
        }
    }

    /// Who is calling, if that is enough; known before the message is read.
    fn admit(
        &self,
        headers: &HeaderMap,
        peer: Peer,
        path: &str,
    ) -> Result<crate::auth::Principal, Problem> {
        if path == RESET {
            let caller = self.state.admit(headers, peer, Right::Operator)?;
            self.state.guard.admin_call(caller, true)?;
            return Ok(caller);
        }
        let caller = self.state.admit(headers, peer, Right::Caller)?;
        self.state.guard.check_call()?;
        Ok(caller)
    }
}

/// The calls that exist, as `package.Service/Method`.
pub(crate) fn calls() -> Vec<String> {
    let sets = [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut calls = Vec::new();
    // The definitions are ours, and sound.
    for file in sets.iter().filter_map(|set| FileDescriptorSet::decode(*set).ok()) {
        for file in &file.file {
            for service in &file.service {
                let name = |method: &str| format!("{}.{}/{method}", file.package(), service.name());
                calls.extend(service.method.iter().map(|method| name(method.name())));
            }
        }
    }
    calls
}
