//! Envoy's rate limit service over gRPC.

use std::future::ready;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{Duration, ListValue, Struct, Value};
use serde_json::Value as Json;
use tonic::body::Body;
use tonic::{Request, Response, Status};

use super::definitions::envoy::config::core::v3::HeaderValue;
use super::definitions::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use super::definitions::envoy::service::ratelimit::v3::rate_limit_service_server as server;
use super::definitions::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::definitions::envoy::r#type::v3::RateLimitUnit;
use super::{status, text};
use crate::app::state::ServerState;
use crate::edge::envoy::{self, Answer, Ask, AskedDescriptor, BindingRule, CarriedLimit};
use tollgate::store::StoreErrorKind;
use tollgate_import::envoy::Unit;

const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The service that Envoy calls.
#[derive(Debug)]
pub(super) struct RateLimitService(ServerState);

impl RateLimitService {
    pub(super) fn new(state: ServerState) -> Self {
        Self(state)
    }
}

#[tonic::async_trait]
impl server::RateLimitService for RateLimitService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let mut message = request.into_inner();
        make_readable(&mut message);
        let checked = if self.0.can_callers_leave() {
            let state = self.0.clone();
            let check = async move { envoy::check(&state, &ask(&message)).await };
            self.0.finish(check).await
        } else {
            envoy::check(&self.0, &ask(&message)).await
        };
        Ok(Response::new(write(checked.map_err(status::of)?)))
    }
}

/// The response to a message that is too large to be read: refused. It has no descriptors.
pub(super) fn over_limit() -> http::Response<Body> {
    let message =
        RateLimitResponse { overall_code: code(true).into(), ..RateLimitResponse::default() };
    let message = message.encode_to_vec();
    // A gRPC frame: the flag "not compressed", then the length.
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
    frame.extend_from_slice(&message);
    let trailers = HeaderMap::from_iter([(GRPC_STATUS, http::HeaderValue::from_static("0"))]);
    let body = Full::new(Bytes::from(frame)).with_trailers(ready(Some(Ok(trailers))));
    let mut response = http::Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(GRPC));
    response
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

const fn wire_unit(unit: Option<Unit>) -> WireUnit {
    match unit {
        None => WireUnit::Unknown,
        Some(Unit::Second) => WireUnit::Second,
        Some(Unit::Minute) => WireUnit::Minute,
        Some(Unit::Hour) => WireUnit::Hour,
        Some(Unit::Day) => WireUnit::Day,
        Some(Unit::Week) => WireUnit::Week,
        Some(Unit::Month) => WireUnit::Month,
        Some(Unit::Year) => WireUnit::Year,
    }
}

const fn code(is_over: bool) -> Code {
    if is_over { Code::OverLimit } else { Code::Ok }
}

fn write(answer: Answer) -> RateLimitResponse {
    let statuses = answer.statuses.into_iter().map(|status| DescriptorStatus {
        code: code(status.is_over).into(),
        current_limit: status.limit.map(|limit| RateLimit {
            requests_per_unit: limit.requests_per_unit,
            unit: wire_unit(limit.unit).into(),
            name: limit.name,
        }),
        limit_remaining: status.remaining,
        duration_until_reset: status
            .reset_after
            .map(|seconds| Duration { seconds: seconds.cast_signed(), nanos: 0 }),
        quota: None,
    });
    let headers = answer.headers.into_iter().map(|field| HeaderValue {
        key: field.name,
        value: field.value,
        raw_value: Vec::new(),
    });
    RateLimitResponse {
        overall_code: code(answer.is_over).into(),
        statuses: statuses.collect(),
        response_headers_to_add: headers.collect(),
        request_headers_to_add: Vec::new(),
        raw_body: answer.body,
        dynamic_metadata: metadata(
            answer.decision_id,
            answer.binding.as_ref(),
            answer.metadata,
            answer.degraded,
        ),
        quota: None,
    }
}

/// Dynamic metadata, which Envoy can log and route by.
fn metadata(
    decision_id: Option<String>,
    binding: Option<&BindingRule>,
    of_limits: Option<Json>,
    degraded: Option<StoreErrorKind>,
) -> Option<Struct> {
    let text = |text: String| Value { kind: Some(Kind::StringValue(text)) };
    // A number of dynamic metadata has 53 bits; larger limits are rounded.
    #[expect(clippy::cast_precision_loss, reason = "the protocol has no other numbers")]
    let number = |number: u64| Value { kind: Some(Kind::NumberValue(number as f64)) };
    let mut known = Struct::default();
    if let Some(id) = decision_id {
        known.fields.insert("decision_id".to_owned(), text(id));
    }
    if let Some(BindingRule { rule_id, limit, remaining }) = binding {
        known.fields.insert("rule_id".to_owned(), text(rule_id.to_string()));
        known.fields.insert("limit".to_owned(), number(*limit));
        known.fields.insert("remaining".to_owned(), number(*remaining));
    }
    if let Some(metadata) = of_limits {
        known.fields.insert("metadata".to_owned(), to_value(metadata));
    }
    if let Some(why) = degraded {
        known.fields.insert("degraded".to_owned(), text(why.to_string()));
    }
    Some(known).filter(|known| !known.fields.is_empty())
}

fn to_value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(is_true) => Kind::BoolValue(is_true),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(items) => {
            Kind::ListValue(ListValue { values: items.into_iter().map(to_value).collect() })
        }
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(name, json)| (name, to_value(json)));
            Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    Value { kind: Some(kind) }
}
