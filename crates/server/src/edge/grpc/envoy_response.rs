//! Writes responses to Envoy as the bytes of their messages.

use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;
use tollgate_import::envoy::Unit;

use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::Code;
use super::definitions::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit as WireUnit;
use super::encode::{bytes, double, nested, number, some_number, text};
use super::unary::Reply;
use crate::edge::envoy::{Answer, BindingRule, Status};

/// The bytes that most responses fit into.
const RESPONSE_CAPACITY: usize = 256;

/// The response to a request.
pub(super) fn write(answer: &Answer) -> Reply {
    let mut reply = Reply::with_capacity(RESPONSE_CAPACITY);
    let out = reply.message_mut();
    number(out, 1, code(answer.is_over));
    for status in &answer.statuses {
        nested(out, 2, |out| write_status(out, status));
    }
    for field in &answer.headers {
        nested(out, 3, |out| {
            text(out, 1, &field.name);
            text(out, 2, &field.value);
        });
    }
    if !answer.body.is_empty() {
        bytes(out, 5, &answer.body);
    }
    write_metadata(out, answer);
    reply
}

/// A refusal without descriptors.
pub(super) fn over_limit() -> Reply {
    let mut reply = Reply::with_capacity(RESPONSE_CAPACITY);
    number(reply.message_mut(), 1, code(true));
    reply
}

fn write_status(out: &mut Vec<u8>, status: &Status) {
    number(out, 1, code(status.is_over));
    if let Some(limit) = &status.limit {
        nested(out, 2, |out| {
            some_number(out, 1, limit.requests_per_unit.into());
            some_number(out, 2, wire_unit(limit.unit) as u64);
            text(out, 3, &limit.name);
        });
    }
    some_number(out, 3, status.remaining.into());
    if let Some(seconds) = status.reset_after {
        nested(out, 4, |out| some_number(out, 1, seconds));
    }
}

/// Writes dynamic metadata, which Envoy can log and route by: a map, whose names are in order.
fn write_metadata(out: &mut Vec<u8>, answer: &Answer) {
    let Answer { decision_id, binding, metadata, degraded, .. } = answer;
    if decision_id.is_none() && binding.is_none() && metadata.is_none() && degraded.is_none() {
        return;
    }
    nested(out, 6, |out| {
        if let Some(id) = decision_id {
            text_entry(out, "decision_id", id);
        }
        if let Some(why) = degraded {
            text_entry(out, "degraded", &why.to_string());
        }
        if let Some(BindingRule { limit, .. }) = binding {
            number_entry(out, "limit", *limit);
        }
        if let Some(metadata) = metadata {
            let value = to_value(metadata.clone());
            entry(out, "metadata", |out| value.encode_raw(out));
        }
        if let Some(BindingRule { remaining, rule_id, .. }) = binding {
            number_entry(out, "remaining", *remaining);
            text_entry(out, "rule_id", rule_id);
        }
    });
}

fn text_entry(out: &mut Vec<u8>, name: &str, value: &str) {
    entry(out, name, |out| bytes(out, 3, value.as_bytes()));
}

/// A number of dynamic metadata has 53 bits; larger limits are rounded.
#[expect(clippy::cast_precision_loss, reason = "the protocol has no other numbers")]
fn number_entry(out: &mut Vec<u8>, name: &str, value: u64) {
    entry(out, name, |out| double(out, 2, value as f64));
}

fn entry(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    nested(out, 1, |out| {
        text(out, 1, name);
        nested(out, 2, value);
    });
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

const fn code(is_over: bool) -> u64 {
    if is_over { Code::OverLimit as u64 } else { Code::Ok as u64 }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prost_types::Duration;
    use tollgate::store::StoreErrorKind;

    use super::super::definitions::envoy::config::core::v3::HeaderValue;
    use super::super::definitions::envoy::service::ratelimit::v3::RateLimitResponse;
    use super::super::definitions::envoy::service::ratelimit::v3::rate_limit_response::{
        DescriptorStatus, RateLimit,
    };
    use super::*;
    use crate::edge::envoy::{CurrentLimit, HeaderField};

    /// The same response as a value.
    fn expected(answer: &Answer) -> RateLimitResponse {
        let statuses = answer.statuses.iter().map(|status| DescriptorStatus {
            code: code(status.is_over) as i32,
            current_limit: status.limit.as_ref().map(|limit| RateLimit {
                requests_per_unit: limit.requests_per_unit,
                unit: wire_unit(limit.unit).into(),
                name: limit.name.clone(),
            }),
            limit_remaining: status.remaining,
            duration_until_reset: status
                .reset_after
                .map(|seconds| Duration { seconds: seconds.cast_signed(), nanos: 0 }),
            quota: None,
        });
        let headers = answer.headers.iter().map(|field| HeaderValue {
            key: field.name.clone(),
            value: field.value.clone(),
            raw_value: Vec::new(),
        });
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.to_owned())) };
        let number = |number: u64| Value { kind: Some(Kind::NumberValue(number as f64)) };
        let mut known = Struct::default();
        if let Some(id) = &answer.decision_id {
            known.fields.insert("decision_id".to_owned(), text(id));
        }
        if let Some(BindingRule { rule_id, limit, remaining }) = &answer.binding {
            known.fields.insert("rule_id".to_owned(), text(rule_id));
            known.fields.insert("limit".to_owned(), number(*limit));
            known.fields.insert("remaining".to_owned(), number(*remaining));
        }
        if let Some(metadata) = &answer.metadata {
            known.fields.insert("metadata".to_owned(), to_value(metadata.clone()));
        }
        if let Some(why) = answer.degraded {
            known.fields.insert("degraded".to_owned(), text(&why.to_string()));
        }
        RateLimitResponse {
            overall_code: code(answer.is_over) as i32,
            statuses: statuses.collect(),
            response_headers_to_add: headers.collect(),
            request_headers_to_add: Vec::new(),
            raw_body: answer.body.clone(),
            dynamic_metadata: Some(known).filter(|known| !known.fields.is_empty()),
            quota: None,
        }
    }

    #[test]
    fn responses_are_written_as_the_library_writes_them() {
        let limit = |requests_per_unit, unit, name: &str| {
            Some(CurrentLimit { requests_per_unit, unit, name: name.to_owned() })
        };
        let statuses = vec![
            Status::default(),
            Status {
                is_over: true,
                limit: limit(5, Some(Unit::Week), "a name"),
                remaining: 7,
                reset_after: Some(u64::from(u32::MAX)),
            },
            Status {
                is_over: false,
                limit: limit(0, None, ""),
                remaining: u32::MAX,
                reset_after: Some(0),
            },
        ];
        let binding = |remaining| {
            let rule_id: Arc<str> = "shop.user".into();
            Some(BindingRule { rule_id, limit: 1_000_000, remaining })
        };
        let empty = || Answer {
            is_over: false,
            statuses: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
            decision_id: None,
            binding: None,
            metadata: None,
            degraded: None,
        };
        let metadata = serde_json::json!({"a": [1, 2.5, null, true], "b": {"c": "", "d": {}}});
        let field = |name: &str, value: &str| HeaderField {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let answers = [
            empty(),
            Answer { is_over: true, ..empty() },
            Answer { statuses: statuses.clone(), binding: binding(0), ..empty() },
            Answer {
                is_over: true,
                statuses,
                headers: vec![field("ratelimit", "x"), field("retry-after", "")],
                body: vec![b'b'; 300],
                decision_id: Some("d1f00dbee-a2a".to_owned()),
                binding: binding(999_999),
                metadata: Some(metadata.clone()),
                degraded: Some(StoreErrorKind::Timeout),
            },
            Answer { metadata: Some(metadata), ..empty() },
            Answer { decision_id: Some(String::new()), ..empty() },
        ];
        for answer in answers {
            let (written, expected) = (write(&answer), expected(&answer));
            assert_eq!(RateLimitResponse::decode(written.message()).as_ref(), Ok(&expected));
            assert_eq!(written.message(), expected.encode_to_vec());
        }
        let refused = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            ..RateLimitResponse::default()
        };
        assert_eq!(over_limit().message(), refused.encode_to_vec());
    }
}
