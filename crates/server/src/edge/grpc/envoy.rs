//! Envoy's rate limit service over gRPC.

use prost::Message as _;
use tonic::body::Body;
use tonic::{Request, Response, Status};

use super::definitions::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_service_server as server;
use super::definitions::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::definitions::envoy::r#type::v3::RateLimitUnit;
use super::unary::{Framed, Reply};
use super::{envoy_response, status, text};
use crate::app::state::ServerState;
use crate::edge::envoy::{self, Ask, AskedDescriptor, CarriedLimit};
use tollgate_import::envoy::Unit;

/// The service that Envoy calls.
#[derive(Debug)]
pub(super) struct RateLimitService(ServerState);

impl RateLimitService {
    pub(super) fn new(state: ServerState) -> Self {
        Self(state)
    }

    /// Answers `ShouldRateLimit`; returns the message if the library has to read it.
    pub(super) async fn check_framed(
        self,
        message: Framed,
    ) -> Result<Result<Reply, Status>, Framed> {
        match RateLimitRequest::decode(message.message()) {
            Ok(request) => Ok(self.check(request).await),
            Err(_) => Err(message),
        }
    }

    async fn check(&self, mut message: RateLimitRequest) -> Result<Reply, Status> {
        make_readable(&mut message);
        let ask = ask(&message);
        let checked = envoy::check(&self.0, &ask);
        checked.await.map(|answer| envoy_response::write(&answer)).map_err(status::of)
    }
}

#[tonic::async_trait]
impl server::RateLimitService for RateLimitService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let this = Self(self.0.clone());
        let check = async move { this.check(request.into_inner()).await };
        self.0.finish(check).await?.decoded()
    }
}

/// The response to a message that is too large to be read: refused. It has no descriptors.
pub(super) fn over_limit() -> http::Response<Body> {
    envoy_response::over_limit().into_response()
}

/// Replaces every text that is not UTF-8 by one that is, so that no byte of a client makes a call fail:
/// Envoy lets requests pass whose check failed.
fn make_readable(message: &mut RateLimitRequest) {
    text::make_readable(&mut message.domain);
    for entry in message.descriptors.iter_mut().flat_map(|descriptor| &mut descriptor.entries) {
        text::make_readable(&mut entry.key);
        text::make_readable(&mut entry.value);
    }
}

fn ask(message: &RateLimitRequest) -> Ask<'_> {
    let descriptors = message.descriptors.iter();
    Ask {
        domain: text::read(&message.domain),
        descriptors: descriptors.map(|one| read(one, message.hits_addend)).collect(),
    }
}

fn read(descriptor: &RateLimitDescriptor, hits_of_request: u32) -> AskedDescriptor<'_> {
    let RateLimitDescriptor { entries, limit, hits_addend } = descriptor;
    AskedDescriptor {
        entries: entries
            .iter()
            .map(|entry| (text::read(&entry.key), text::read(&entry.value)))
            .collect(),
        limit: limit.as_ref().map(|limit| CarriedLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: unit(limit.unit()),
        }),
        hits: envoy::hits(*hits_addend, hits_of_request),
    }
}

const fn unit(unit: RateLimitUnit) -> Option<Unit> {
    match unit {
        RateLimitUnit::Unknown => None,
        RateLimitUnit::Second => Some(Unit::Second),
        RateLimitUnit::Minute => Some(Unit::Minute),
        RateLimitUnit::Hour => Some(Unit::Hour),
        RateLimitUnit::Day => Some(Unit::Day),
        RateLimitUnit::Month => Some(Unit::Month),
        RateLimitUnit::Year => Some(Unit::Year),
    }
}
