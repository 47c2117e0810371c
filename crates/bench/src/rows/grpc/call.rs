//! The requests over gRPC, and the expected responses.

use std::fmt::Debug;
use std::net::SocketAddr;

use prost::Message;
use tonic::transport::Channel;

use super::definitions::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::definitions::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use super::definitions::envoy::service::ratelimit::v3::RateLimitRequest;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::Code;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use super::definitions::tollgate::v1::check_result::Result as One;
use super::definitions::tollgate::v1::rate_limiter_client::RateLimiterClient;
use super::definitions::tollgate::v1::{CheckBatchRequest, CheckRequest, CheckResponse};
use crate::Fallible;
use crate::keys::{Draw, KeyText};
use crate::peers::LIMIT;
use crate::rows::load::BATCH;
use crate::rows::server::RULE;

/// The domain and the key that Envoy's files have a limit for.
pub(super) const DOMAIN: &str = "bench";
pub(super) const ENTRY: &str = "user";

/// A call, for one user after the other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Check,
    Batch,
    Envoy,
}

impl Call {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Check => "/tollgate.v1.RateLimiter/CheckRateLimit",
            Self::Batch => "/tollgate.v1.RateLimiter/CheckBatch",
            Self::Envoy => "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        }
    }

    /// Bodies as gRPC frames them: a single check for each key, or batches of keys drawn at random,
    /// as many checks as there are keys. All are of one length and differ in the texts of keys only.
    pub(super) fn bodies(self, keys: u64) -> Vec<Vec<u8>> {
        let mut text = KeyText::new();
        match self {
            Self::Check => (0..keys).map(|key| framed(&check(text.of(key)))).collect(),
            Self::Envoy => (0..keys).map(|key| framed(&envoy(text.of(key)))).collect(),
            Self::Batch => {
                let mut draw = Draw::new(1, keys);
                let mut batch = || batch((0..BATCH).map(|_| text.of(draw.next()).clone()));
                (0..keys.div_ceil(BATCH)).map(|_| framed(&batch())).collect()
            }
        }
    }

    /// Makes one call and makes sure that it is admitted by a rule with the expected limit. Returns the length of the
    /// framed response.
    pub(super) fn probe(self, address: SocketAddr) -> Fallible<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let address = format!("http://{address}");
            let channel = Channel::from_shared(address)?.connect().await?;
            self.ask(channel).await
        })
    }

    async fn ask(self, channel: Channel) -> Fallible<usize> {
        let mut text = KeyText::new();
        let key = text.of(0);
        match self {
            Self::Check => {
                let mut client = RateLimiterClient::new(channel);
                let answer = client.check_rate_limit(check(key)).await?.into_inner();
                length_of(&answer, is_admitted(&answer))
            }
            Self::Batch => {
                let mut client = RateLimiterClient::new(channel);
                let keys = (0..BATCH).map(|_| key.clone());
                let answer = client.check_batch(batch(keys)).await?.into_inner();
                let are_admitted = answer.results.iter().all(
                    |one| matches!(&one.result, Some(One::Response(answer)) if is_admitted(answer)),
                );
                let is_whole = answer.results.len() as u64 == BATCH;
                length_of(&answer, is_whole && are_admitted)
            }
            Self::Envoy => {
                let mut client = RateLimitServiceClient::new(channel);
                let answer = client.should_rate_limit(envoy(key)).await?.into_inner();
                let is_admitted = answer.overall_code() == Code::Ok
                    && matches!(&answer.statuses[..], [status] if status.current_limit.as_ref()
                        .is_some_and(|limit| limit.requests_per_unit == LIMIT));
                length_of(&answer, is_admitted)
            }
        }
    }
}

fn check(key: &str) -> CheckRequest {
    CheckRequest { identifier: key.to_owned(), ..CheckRequest::default() }
}

fn batch(keys: impl Iterator<Item = String>) -> CheckBatchRequest {
    let by_rule = |identifier| CheckRequest {
        identifier,
        rule_id: RULE.to_owned(),
        ..CheckRequest::default()
    };
    CheckBatchRequest { checks: keys.map(by_rule).collect() }
}

fn envoy(key: &str) -> RateLimitRequest {
    let entry = Entry { key: ENTRY.to_owned(), value: key.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], limit: None, hits_addend: None };
    RateLimitRequest { domain: DOMAIN.to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
}

fn is_admitted(answer: &CheckResponse) -> bool {
    answer.allowed && answer.limit == Some(u64::from(LIMIT))
}

/// The length of a framed response, if it is the expected one.
fn length_of(answer: &(impl Message + Debug), is_admitted: bool) -> Fallible<usize> {
    if is_admitted {
        Ok(framed(answer).len())
    } else {
        Err(format!("a check was not admitted, or by no rule: {answer:?}").into())
    }
}

/// A message that is not compressed, and its length.
fn framed(message: &impl Message) -> Vec<u8> {
    let length = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
    let mut body = vec![0];
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(&message.encode_to_vec());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_one_length_and_differ_in_keys_only() {
        let check = |call: Call, keys: u64, count: usize| {
            let bodies = call.bodies(keys);
            assert_eq!(bodies.len(), count, "{call:?}");
            let layout = |body: &[u8]| {
                let mut layout = String::from_utf8_lossy(body).into_owned();
                let mut text = KeyText::new();
                for key in 0..keys {
                    layout = layout.replace(text.of(key), "KEY");
                }
                layout
            };
            for body in &bodies[1..] {
                assert_ne!(body, &bodies[0], "{call:?}");
                assert_eq!(layout(body), layout(&bodies[0]), "{call:?}");
            }
        };
        check(Call::Check, 20, 20);
        check(Call::Envoy, 20, 20);
        check(Call::Batch, 450, 5);
    }

    #[test]
    fn a_frame_says_how_long_its_message_is() {
        let body = framed(&check("0123456789"));
        assert_eq!(body, b"\0\0\0\0\x0c\x0a\x0a0123456789");
    }
}
