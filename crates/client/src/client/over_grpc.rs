//! The check API over gRPC.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rustls::ClientConfig;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};

use self::definitions::tollgate::v1::check_result::Result as One;
use self::definitions::tollgate::v1::rate_limiter_client::RateLimiterClient;
use self::definitions::tollgate::v1::{
    CheckBatchRequest, CheckRequest, CheckResponse, Identifiers as WireIdentifiers,
};
use super::address::Address;
use super::builder::BuildError;
use super::check::{Check, Identifiers, KeyType, Private};
use super::connection::{Pool, connector, pool, reason};
use super::error::{Error, RefusalKind};
use super::transport::{Call, Verdicts};
use super::verdict::{Reason, Source, State, Verdict};

mod definitions {
    //! The messages and calls of the server, as Rust.
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, unused_qualifications)]
    #![allow(dead_code, reason = "some calls are not for callers")]

    include!(concat!(env!("OUT_DIR"), "/definitions.rs"));
}

/// Asks a server over gRPC.
#[derive(Debug)]
pub(super) struct Grpc {
    server: String,
    authorization: Option<MetadataValue<Ascii>>,
    calls: RateLimiterClient<Pool<tonic::body::Body>>,
}

impl Grpc {
    pub(super) fn new(
        address: &Address,
        authorization: Option<HeaderValue>,
        settings: ClientConfig,
    ) -> Result<Self, BuildError> {
        let authorization = authorization.map(|token| {
            let mut value = MetadataValue::try_from(token.as_bytes())?;
            value.set_sensitive(true);
            Ok::<_, tonic::metadata::errors::InvalidMetadataValueBytes>(value)
        });
        let unusable = |_| BuildError::new("the token cannot be sent over gRPC");
        let authorization = authorization.transpose().map_err(unusable)?;
        let pool = pool().http2_only(true).build(connector(settings, true));
        Ok(Self {
            server: address.to_string(),
            authorization,
            calls: RateLimiterClient::with_origin(pool, address.join("")?),
        })
    }

    pub(super) fn check(self: Arc<Self>, check: &Check) -> Call<Verdict> {
        let request = self.request(message(check));
        Box::pin(async move {
            let answer = self.calls.clone().check_rate_limit(request).await;
            answer.map(|answer| answer.into_inner().into()).map_err(|status| self.failed(&status))
        })
    }

    pub(super) fn check_batch(self: Arc<Self>, checks: &[Check]) -> Call<Verdicts> {
        let checks = checks.iter().map(message).collect();
        let request = self.request(CheckBatchRequest { checks });
        Box::pin(async move {
            let answers = self.calls.clone().check_batch(request).await;
            let answers = answers.map_err(|status| self.failed(&status))?.into_inner();
            let results = answers.results.into_iter().map(|answer| match answer.result {
                Some(One::Response(answer)) => Ok(answer.into()),
                Some(One::Error(error)) => {
                    let kind = kind_of(&error.code);
                    Err(Error::Refused { kind, code: error.code, detail: error.detail })
                }
                None => Err(self.unreadable("a result of the batch is empty")),
            });
            Ok(results.collect())
        })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(authorization) = &self.authorization {
            request.metadata_mut().insert("authorization", authorization.clone());
        }
        request
    }

    fn unreadable(&self, reason: &str) -> Error {
        Error::Unreadable { server: self.server.clone(), reason: reason.to_owned() }
    }

    fn failed(&self, status: &Status) -> Error {
        // What the server says has no cause on this side.
        if let Some(cause) = status.source() {
            return Error::Unreachable { server: self.server.clone(), reason: reason(cause) };
        }
        let kind = match status.code() {
            Code::NotFound => RefusalKind::Unknown,
            Code::Unauthenticated | Code::PermissionDenied => RefusalKind::Unauthorized,
            Code::ResourceExhausted => RefusalKind::TooManyCalls,
            Code::Unavailable | Code::Internal | Code::DeadlineExceeded | Code::Cancelled => {
                RefusalKind::Unavailable
            }
            Code::Unknown | Code::Unimplemented => return self.unreadable(status.message()),
            _ => RefusalKind::Invalid,
        };
        let code = format!("{:?}", status.code());
        Error::Refused { kind, code, detail: status.message().to_owned() }
    }
}

/// What the words of the server for a check within a batch mean.
fn kind_of(code: &str) -> RefusalKind {
    match code {
        "unknown_rule" => RefusalKind::Unknown,
        "store_unavailable" => RefusalKind::Unavailable,
        _ => RefusalKind::Invalid,
    }
}

fn message(check: &Check) -> CheckRequest {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let private = |text: &Option<Private>| text.clone().map(|text| text.0).unwrap_or_default();
    let Identifiers { user_id, api_key, ip, tenant } = &check.identifiers;
    let identifiers = WireIdentifiers {
        user_id: text(user_id),
        api_key: private(api_key),
        ip: text(ip),
        tenant: text(tenant),
    };
    CheckRequest {
        identifier: private(&check.key_value),
        dimension: check.key_type.map(dimension).unwrap_or_default().to_owned(),
        endpoint: text(&check.endpoint),
        cost: check.cost,
        timestamp: None,
        rule_id: text(&check.rule_id),
        method: text(&check.method),
        host: text(&check.host),
        tier: text(&check.tier),
        identifiers: (!check.identifiers.is_empty()).then_some(identifiers),
        attributes: {
            let attributes = check.attributes.iter();
            attributes.map(|(name, value)| (name.clone(), value.0.clone())).collect()
        },
        idempotency_key: text(&check.idempotency_key),
        detail: false,
    }
}

const fn dimension(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::User => "user",
        KeyType::ApiKey => "api_key",
        KeyType::Ip => "ip",
        KeyType::Tenant => "tenant",
        KeyType::Endpoint => "endpoint",
        KeyType::Custom => "custom",
    }
}

impl From<CheckResponse> for Verdict {
    fn from(answer: CheckResponse) -> Self {
        let text = |text: String| (!text.is_empty()).then_some(text);
        Self {
            allowed: answer.allowed,
            limit: answer.limit,
            remaining: answer.remaining,
            reset_at: answer.reset_at,
            retry_after: answer.retry_after.map(Duration::from_secs),
            rule_id: text(answer.rule_id),
            state: State::from_word(&answer.state),
            reason: text(answer.reason).map(|reason| Reason::from_word(&reason)),
            delay: (answer.delay_ms > 0).then(|| Duration::from_millis(answer.delay_ms)),
            decision_id: text(answer.decision_id),
            degraded: text(answer.degraded),
            source: Source::Answered,
        }
    }
}
