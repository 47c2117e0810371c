//! `POST /json`: Envoy's rate limit service for callers without gRPC, as in envoyproxy/ratelimit.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate_api::{Object, Text};
use tollgate_import::envoy::Unit;
use utoipa::ToSchema;

use crate::app::state::ServerState;
use crate::edge::envoy::{self, Answer, Ask, AskedDescriptor, CarriedLimit, Status};
use crate::edge::http::extract::{BodyBound, CheckCaller, read_body};
use crate::edge::http::openapi::BodyProblems;
use crate::edge::http::problem::{Problem, ProblemBody};
use crate::edge::http::wire::decode::decode;

/// The request that Envoy would send. Names may be written as in `hitsAddend` or as in `hits_addend`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"domain": "shop", "descriptors": [{"entries": [{"key": "tenant", "value": "acme"}]}]}))]
pub(crate) struct EnvoyRequest<'a> {
    /// The domain, which names a set of limits.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1)]
    domain: Text<'a>,
    /// Views of the request, all of which are charged or none.
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 1000, value_type = Vec<EnvoyDescriptor<'static>>)]
    descriptors: Vec<Object<EnvoyDescriptor<'a>>>,
    /// What the request costs; 1 if not given, or if 0.
    #[serde(default, alias = "hits_addend")]
    #[schema(value_type = u64, maximum = 4_294_967_295_u64)]
    hits_addend: u32,
}

/// One view of a request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnvoyDescriptor<'a> {
    /// Keys and values. A view without any meets no limit of a file.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<EnvoyEntry<'static>>)]
    entries: Vec<Object<EnvoyEntry<'a>>>,
    /// A limit that the request brings along.
    #[serde(default)]
    #[schema(value_type = Option<EnvoyOverride>)]
    limit: Option<Object<EnvoyOverride>>,
    /// The cost of this view, if it differs from that of the request; 0 to peek.
    #[serde(default, alias = "hits_addend", deserialize_with = "number_or_text")]
    #[schema(value_type = Option<NumberOrText>)]
    hits_addend: Option<u64>,
}

/// A key and a value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvoyEntry<'a> {
    /// The key.
    #[serde(borrow)]
    #[schema(value_type = String)]
    key: Text<'a>,
    /// The value.
    #[serde(borrow, default)]
    #[schema(value_type = String)]
    value: Text<'a>,
}

/// A limit that a request brings along.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnvoyOverride {
    /// How many requests.
    #[serde(default, alias = "requests_per_unit")]
    #[schema(value_type = u64, maximum = 4_294_967_295_u64)]
    requests_per_unit: u32,
    /// In which time.
    unit: OverrideUnit,
}

/// In which time.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum OverrideUnit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

/// Numbers of 64 bits are texts in the JSON of protocol buffers.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum NumberOrText {
    /// As a number.
    Number(u64),
    /// As a text.
    Text(String),
}

fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = match Option::<NumberOrText>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(NumberOrText::Number(number)) => number,
        Some(NumberOrText::Text(text)) => text.parse().map_err(D::Error::custom)?,
    };
    // The OpenAPI description of this call says `int64`.
    if number > i64::MAX.cast_unsigned() {
        return Err(D::Error::custom(format!("expected a number up to {}", i64::MAX)));
    }
    Ok(Some(number))
}

/// The response that Envoy would get. Empty fields are left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvoyAnswer {
    /// `OK`, or `OVER_LIMIT` with the status 429.
    overall_code: &'static str,
    /// One for each descriptor.
    statuses: Vec<EnvoyStatus>,
    /// Header fields for the client.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers_to_add: Vec<EnvoyHeader>,
    /// The decision's id, by which it can be explained, and the rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_metadata: Option<EnvoyMetadata>,
}

/// The result of one descriptor.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvoyStatus {
    /// `OK` or `OVER_LIMIT`.
    code: &'static str,
    /// The limit that applies to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_limit: Option<EnvoyLimit>,
    /// What is left of it.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false, value_type = u64, maximum = 4_294_967_295_u64)]
    limit_remaining: u32,
    /// The seconds until all of it is available again, as in `30s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_until_reset: Option<String>,
}

/// A limit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvoyLimit {
    /// How many requests.
    #[schema(value_type = u64, maximum = 4_294_967_295_u64)]
    requests_per_unit: u32,
    /// In which time; UNKNOWN if it is none of Envoy's units.
    unit: String,
    /// What the file calls it; empty if it has no name there.
    name: String,
}

/// A header field.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnvoyHeader {
    /// Its name.
    key: String,
    /// Its value.
    value: String,
}

/// Dynamic metadata of a response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EnvoyMetadata {
    /// Names the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_id: Option<String>,
    /// The rule that refused, or else the one with the least left.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<String>,
    /// The limit of that rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// What is left of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// What files say about the limits that are not exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<serde_json::Value>,
    /// Why the check was made without the shared store, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Checks a request as Envoy's rate limit service does: 200 if it may pass, 429 if not.
#[utoipa::path(
    post, path = "/json", tag = "check", security((), ("token" = [])), request_body = EnvoyRequest<'_>,
    responses(
        (status = 200, description = "The request may pass", body = EnvoyAnswer),
        (status = 429, description = "The request may not pass, or this server is called too often",
            content((EnvoyAnswer = "application/json"), (ProblemBody<'_> = "application/problem+json"))),
        (status = 401, description = "A token is needed", body = ProblemBody<'_>, content_type = "application/problem+json"),
        (status = 403, description = "The token has another role", body = ProblemBody<'_>, content_type = "application/problem+json"),
        BodyProblems,
    )
)]
pub(crate) async fn json(
    State(app): State<ServerState>,
    _: CheckCaller,
    request: Request,
) -> Result<Response, Problem> {
    let bound = BodyBound::bodies(app.body_bytes.max(envoy::MAX_MESSAGE_BYTES));
    // Of any type, or none: callers of envoyproxy/ratelimit need not name one.
    let body = read_body(request.into_body(), bound, app.request_timeout).await?;
    let state = app.clone();
    app.finish(async move { respond(&state, &body).await }).await
}

async fn respond(app: &ServerState, body: &Bytes) -> Result<Response, Problem> {
    let request: EnvoyRequest<'_> = decode(body)?;
    let answer = envoy::check(app, &request.ask()).await?;
    let status = if answer.is_over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
    Ok((status, Json(EnvoyAnswer::from(&answer))).into_response())
}

impl EnvoyRequest<'_> {
    /// The request as Envoy's service sees it.
    pub(crate) fn ask(&self) -> Ask<'_> {
        let descriptors = self.descriptors.iter().map(|Object(descriptor)| AskedDescriptor {
            entries: descriptor
                .entries
                .iter()
                .map(|Object(entry)| (&*entry.key, &*entry.value))
                .collect(),
            limit: descriptor.limit.as_ref().map(|Object(limit)| CarriedLimit {
                requests_per_unit: limit.requests_per_unit,
                unit: Some(limit.unit.into()),
            }),
            hits: envoy::hits(descriptor.hits_addend, self.hits_addend),
        });
        Ask { domain: &self.domain, descriptors: descriptors.collect() }
    }
}

impl From<OverrideUnit> for Unit {
    fn from(unit: OverrideUnit) -> Self {
        match unit {
            OverrideUnit::Second => Self::Second,
            OverrideUnit::Minute => Self::Minute,
            OverrideUnit::Hour => Self::Hour,
            OverrideUnit::Day => Self::Day,
            OverrideUnit::Month => Self::Month,
            OverrideUnit::Year => Self::Year,
        }
    }
}

const fn code(is_over: bool) -> &'static str {
    if is_over { "OVER_LIMIT" } else { "OK" }
}

impl From<&Answer> for EnvoyAnswer {
    fn from(answer: &Answer) -> Self {
        let headers = answer
            .headers
            .iter()
            .map(|field| EnvoyHeader { key: field.name.clone(), value: field.value.clone() });
        Self {
            overall_code: code(answer.is_over),
            statuses: answer.statuses.iter().map(EnvoyStatus::from).collect(),
            response_headers_to_add: headers.collect(),
            dynamic_metadata: Some(EnvoyMetadata {
                decision_id: answer.decision_id.clone(),
                rule_id: answer.binding.as_ref().map(|binding| binding.rule_id.to_string()),
                limit: answer.binding.as_ref().map(|binding| binding.limit),
                remaining: answer.binding.as_ref().map(|binding| binding.remaining),
                metadata: answer.metadata.clone(),
                degraded: answer.degraded.map(|why| why.to_string()),
            })
            .filter(|known| {
                known.rule_id.is_some() || known.degraded.is_some() || known.decision_id.is_some()
            }),
        }
    }
}

impl From<&Status> for EnvoyStatus {
    fn from(status: &Status) -> Self {
        let unit = |unit: Option<Unit>| {
            unit.map_or_else(|| "UNKNOWN".to_owned(), |unit| unit.name().to_uppercase())
        };
        Self {
            code: code(status.is_over),
            current_limit: status.limit.as_ref().map(|limit| EnvoyLimit {
                requests_per_unit: limit.requests_per_unit,
                unit: unit(limit.unit),
                name: limit.name.clone(),
            }),
            limit_remaining: status.remaining,
            duration_until_reset: status.reset_after.map(|seconds| format!("{seconds}s")),
        }
    }
}
