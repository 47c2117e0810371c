//! Envoy's external authorization over gRPC: forward-auth, with the request as a message instead of header fields.

use axum::response::IntoResponse as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tonic::{Code, Request, Response, Status};

use super::definitions::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use super::definitions::envoy::config::core::v3::{HeaderValue as WireValue, HeaderValueOption};
use super::definitions::envoy::service::auth::v3::attribute_context::HttpRequest;
use super::definitions::envoy::service::auth::v3::authorization_server as server;
use super::definitions::envoy::service::auth::v3::check_response::HttpResponse;
use super::definitions::envoy::service::auth::v3::{
    CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
};
use super::definitions::envoy::r#type::v3::HttpStatus;
use super::definitions::google::rpc;
use crate::app::state::ServerState;
use crate::edge::http::handlers::authorize::{AuthorizeRequest, DECISION, RULE};
use crate::edge::http::problem::Problem;
use crate::edge::listen::Peer;

/// The most bytes of the body of a refusal; ours are shorter.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Header fields for the proxy, not for its client.
const FOR_PROXY: &str = "x-tollgate-";

/// The service that Envoy calls.
#[derive(Debug)]
pub(super) struct Authorization(ServerState);

impl Authorization {
    pub(super) fn new(state: ServerState) -> Self {
        Self(state)
    }
}

#[tonic::async_trait]
impl server::Authorization for Authorization {
    async fn check(
        &self,
        request: Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let peer = request.extensions().get().copied().unwrap_or(Peer::UNKNOWN);
        let request = request.into_inner().attributes.and_then(|attributes| attributes.request);
        let Some(http) = request.and_then(|request| request.http) else {
            let detail =
                "attributes.request.http: it is missing; only requests of HTTP can be checked";
            return Err(Status::invalid_argument(detail));
        };
        let state = self.0.clone();
        let check = async move {
            let headers = headers(&http);
            let asked = AuthorizeRequest {
                method: http.method.as_str().into(),
                host: Some(&http.host)
                    .filter(|host| !host.is_empty())
                    .map(|host| String::from_utf8_lossy(host)),
                path: String::from_utf8_lossy(&http.path),
            };
            state.authorize(&asked, &headers, peer, state.deny_status).await
        };
        let authorized = self.0.finish(check).await;
        Ok(Response::new(write(authorized.unwrap_or_else(Problem::into_response)).await))
    }
}

/// The header fields of the client. Envoy adds some of its own, like `:path`, which no request can have.
fn headers(http: &HttpRequest) -> HeaderMap {
    let field = |(name, value): (&String, &Vec<u8>)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    };
    http.headers.iter().filter_map(field).collect()
}

/// The response of forward-auth as a message.
async fn write(response: axum::response::Response) -> CheckResponse {
    let (parts, body) = response.into_parts();
    let metadata = [("decision_id", DECISION), ("rule_id", RULE)].into_iter();
    let metadata = metadata.filter_map(|(name, field)| {
        let text = parts.headers.get(field)?.to_str().ok()?.to_owned();
        Some((name.to_owned(), Value { kind: Some(Kind::StringValue(text)) }))
    });
    let metadata = Struct { fields: metadata.collect() };
    let fields = parts.headers.iter().filter(|(name, _)| !name.as_str().starts_with(FOR_PROXY));
    let fields = fields.map(|(name, value)| HeaderValueOption {
        header: Some(WireValue {
            key: name.as_str().to_owned(),
            value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
            raw_value: Vec::new(),
        }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
    });
    let fields: Vec<HeaderValueOption> = fields.collect();
    let is_allowed = parts.status == StatusCode::OK;
    let http_response = if is_allowed {
        HttpResponse::OkResponse(OkHttpResponse { response_headers_to_add: fields })
    } else {
        let body = axum::body::to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
        HttpResponse::DeniedResponse(DeniedHttpResponse {
            status: Some(HttpStatus { code: parts.status.as_u16().into() }),
            headers: fields,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    };
    let code = if is_allowed { Code::Ok } else { Code::PermissionDenied };
    CheckResponse {
        status: Some(rpc::Status { code: code.into(), message: String::new() }),
        http_response: Some(http_response),
        dynamic_metadata: Some(metadata).filter(|metadata| !metadata.fields.is_empty()),
    }
}
