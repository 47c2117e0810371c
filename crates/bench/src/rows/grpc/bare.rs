//! The cost of a gRPC call without the check: tonic handlers that read the same requests and return constant
//! responses.

use std::io::{self, Write as _};
use std::net::SocketAddr;

use prost_types::value::Kind;
use prost_types::{Duration, Struct, Value};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use super::definitions::envoy::service::ratelimit::v3::rate_limit_service_server as rls;
use super::definitions::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::definitions::tollgate::v1::rate_limiter_server as v1;
use super::definitions::tollgate::v1::{
    CheckBatchRequest, CheckBatchResponse, CheckRequest, CheckResponse, QuotaResponse,
    RefundRequest, RefundResponse, ResetResponse,
};
use crate::Fallible;
use crate::peers::LIMIT;
use crate::rows::server::RULE;

const DECISION: &str = "d1f00dbee-a2a2a2";
/// The id of the limit in responses to Envoy.
const LIMIT_ID: &str = "bench.user";

/// Serves until the process is ended, and says where.
pub(crate) fn serve(address: SocketAddr) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let incoming = TcpIncoming::bind(address)?.with_nodelay(Some(true));
        writeln!(io::stdout(), "grpc http://{}", incoming.local_addr()?)?;
        let server = Server::builder()
            .add_service(v1::RateLimiterServer::new(Bare))
            .add_service(rls::RateLimitServiceServer::new(Bare));
        Ok(server.serve_with_incoming(incoming).await?)
    })
}

/// Admits every request.
#[derive(Debug)]
struct Bare;

#[tonic::async_trait]
impl v1::RateLimiter for Bare {
    async fn check_rate_limit(
        &self,
        _: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        Ok(Response::new(CheckResponse {
            allowed: true,
            current_count: 1,
            limit: Some(LIMIT.into()),
            remaining: Some((LIMIT - 1).into()),
            reset_at: Some(1_800_000_000),
            rule_id: RULE.to_owned(),
            state: "normal".to_owned(),
            decision_id: DECISION.to_owned(),
            ..CheckResponse::default()
        }))
    }

    async fn get_remaining_quota(
        &self,
        _: Request<CheckRequest>,
    ) -> Result<Response<QuotaResponse>, Status> {
        Err(not_measured())
    }

    async fn reset_limit(
        &self,
        _: Request<CheckRequest>,
    ) -> Result<Response<ResetResponse>, Status> {
        Err(not_measured())
    }

    async fn refund(&self, _: Request<RefundRequest>) -> Result<Response<RefundResponse>, Status> {
        Err(not_measured())
    }

    async fn check_batch(
        &self,
        _: Request<CheckBatchRequest>,
    ) -> Result<Response<CheckBatchResponse>, Status> {
        Err(not_measured())
    }
}

fn not_measured() -> Status {
    Status::unimplemented("this is not measured against a bare handler")
}

#[tonic::async_trait]
impl rls::RateLimitService for Bare {
    async fn should_rate_limit(
        &self,
        _: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let status = DescriptorStatus {
            code: Code::Ok.into(),
            current_limit: Some(RateLimit {
                requests_per_unit: LIMIT,
                unit: Unit::Day.into(),
                name: String::new(),
            }),
            limit_remaining: LIMIT - 1,
            duration_until_reset: Some(Duration { seconds: 40_000, nanos: 0 }),
            quota: None,
        };
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let number = |number: u32| Value { kind: Some(Kind::NumberValue(number.into())) };
        let metadata = [
            ("decision_id", text(DECISION)),
            ("rule_id", text(LIMIT_ID)),
            ("limit", number(LIMIT)),
            ("remaining", number(LIMIT - 1)),
        ];
        Ok(Response::new(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: vec![status],
            dynamic_metadata: Some(Struct {
                fields: metadata.map(|(name, value)| (name.to_owned(), value)).into(),
            }),
            ..RateLimitResponse::default()
        }))
    }
}
