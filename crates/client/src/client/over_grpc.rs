//! The check API over gRPC.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use rustls::ClientConfig;
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use tollgate_api::{KeyType, Object, RuleQuota, RuleResult, Text};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Code, Request, Status};

use self::definitions::tollgate::v1::check_result::Result as One;
use self::definitions::tollgate::v1::rate_limiter_client::RateLimiterClient;
use self::definitions::tollgate::v1::refund_request::Refund;
use self::definitions::tollgate::v1::{
    CheckBatchRequest, CheckRequest, CheckResponse, Identifiers, RefundRequest, RuleStatus,
};
use super::address::ServerAddress;
use super::builder::BuildError;
use super::check::Check;
use super::connection::{HttpPool, connector, pool, unreachable};
use super::decision::{Decision, Source};
use super::error::{Error, RefusalKind};
use super::transport::{Decisions, DetachedCall};

mod definitions {
    //! The messages and calls of the server, as Rust.
    #![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, unused_qualifications)]
    #![allow(dead_code, reason = "some calls are for other clients")]

    include!(concat!(env!("OUT_DIR"), "/definitions.rs"));
}

/// A server over gRPC.
#[derive(Debug)]
pub(super) struct Grpc {
    server: String,
    authorization: Option<MetadataValue<Ascii>>,
    calls: RateLimiterClient<HttpPool<tonic::body::Body>>,
}

impl Grpc {
    pub(super) fn new(
        address: &ServerAddress,
        authorization: Option<HeaderValue>,
        settings: ClientConfig,
    ) -> Result<Self, BuildError> {
        let authorization = authorization.map(|token| {
            let mut value = MetadataValue::try_from(token.as_bytes())?;
            value.set_sensitive(true);
            Ok::<_, tonic::metadata::errors::InvalidMetadataValueBytes>(value)
        });
        let unusable = |_| BuildError::Token("the token cannot be sent over gRPC".to_owned());
        let authorization = authorization.transpose().map_err(unusable)?;
        let pool = pool().http2_only(true).build(connector(settings, true));
        Ok(Self {
            server: address.to_string(),
            authorization,
            calls: RateLimiterClient::with_origin(pool, address.join("")?),
        })
    }

    pub(super) fn check(self: Arc<Self>, check: &Check) -> DetachedCall<Decision> {
        let request = self.request(message(check));
        Box::pin(async move {
            let response = self.calls.clone().check_rate_limit(request).await;
            let response = response.map_err(|status| self.failed(&status))?;
            Ok(response.into_inner().into())
        })
    }

    pub(super) fn check_batch(self: Arc<Self>, checks: &[Check]) -> DetachedCall<Decisions> {
        let checks = checks.iter().map(message).collect();
        let request = self.request(CheckBatchRequest { checks });
        Box::pin(async move {
            let response = self.calls.clone().check_batch(request).await;
            let response = response.map_err(|status| self.failed(&status))?.into_inner();
            let results = response.results.into_iter().map(|item| match item.result {
                Some(One::Response(response)) => Ok(response.into()),
                Some(One::Error(error)) => {
                    let kind = kind_of(&error.code);
                    Err(Error::Refused { kind, code: error.code, detail: error.detail })
                }
                None => Err(self.unreadable("a result of the batch is empty")),
            });
            Ok(results.collect())
        })
    }

    pub(super) fn refund(self: Arc<Self>, decision_id: &str) -> DetachedCall<u64> {
        let refund = Some(Refund::DecisionId(decision_id.to_owned()));
        let request = self.request(RefundRequest { refund });
        Box::pin(async move {
            let response = self.calls.clone().refund(request).await;
            let response = response.map_err(|status| self.failed(&status))?;
            Ok(response.into_inner().counters)
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
        // A status that the server sent has no source.
        if let Some(cause) = status.source() {
            return unreachable(&self.server, cause);
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

/// The codes of checks within a batch.
fn kind_of(code: &str) -> RefusalKind {
    match code {
        "unknown_rule" => RefusalKind::Unknown,
        "store_unavailable" => RefusalKind::Unavailable,
        _ => RefusalKind::Invalid,
    }
}

fn message(Check(check): &Check) -> CheckRequest {
    let text = |text: &Option<Text<'_>>| text.as_deref().unwrap_or_default().to_owned();
    CheckRequest {
        identifier: text(&check.key_value),
        dimension: check.key_type.map_or("", KeyType::name).to_owned(),
        endpoint: text(&check.endpoint),
        cost: check.cost,
        timestamp: None,
        rule_id: text(&check.rule_id),
        method: text(&check.method),
        host: text(&check.host),
        tier: text(&check.tier),
        identifiers: check.identifiers.as_ref().map(|Object(identifiers)| Identifiers {
            user_id: text(&identifiers.user_id),
            api_key: text(&identifiers.api_key),
            ip: text(&identifiers.ip),
            tenant: text(&identifiers.tenant),
        }),
        attributes: {
            let attributes = check.attributes.iter().flatten();
            attributes.map(|(name, value)| (name.to_string(), value.to_string())).collect()
        },
        idempotency_key: text(&check.idempotency_key),
        detail: check.detail == Some(true),
    }
}

/// Parses a name that the server sent.
fn word<'a, T: Deserialize<'a>>(word: &'a str) -> Option<T> {
    T::deserialize(StrDeserializer::<ValueError>::new(word)).ok()
}

impl From<CheckResponse> for Decision {
    fn from(response: CheckResponse) -> Self {
        let text = |text: String| (!text.is_empty()).then_some(text);
        Self {
            allowed: response.allowed,
            limit: response.limit,
            remaining: response.remaining,
            reset_at: response.reset_at,
            retry_after: response.retry_after.map(Duration::from_secs),
            rule_id: text(response.rule_id),
            state: word(&response.state).unwrap_or_default(),
            reason: word(&response.reason).filter(|_| !response.reason.is_empty()),
            delay: (response.delay_ms > 0).then(|| Duration::from_millis(response.delay_ms)),
            decision_id: text(response.decision_id),
            degraded: text(response.degraded),
            rules: response.rules.into_iter().map(rule_result).collect(),
            source: Source::Server,
        }
    }
}

fn rule_result(rule: RuleStatus) -> RuleResult<'static> {
    let quota = rule
        .quota
        .map(|quota| RuleQuota { limit: quota.limit, window_seconds: quota.window_seconds });
    RuleResult {
        rule_id: rule.rule_id.into(),
        allowed: rule.allowed,
        shadow: rule.shadow,
        limit: rule.limit,
        remaining: rule.remaining,
        window_seconds: rule.window_seconds,
        quota,
        cost: rule.cost,
        reset_at: rule.reset_at,
        full_at: rule.full_at,
        retry_after: (!rule.allowed).then_some(rule.retry_after),
        state: word(&rule.state).unwrap_or_default(),
    }
}
