//! Traces: JSON lines made for replaying, as `{"t_ms":0,"key":"k","cost":1}`.
//!
//! People write them by hand or with small programs, so here a misspelt member is an error.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use tollgate_core::Timestamp;

use super::BadLineReason;
use super::json::{self, JsonText};
use super::record::LogEntry;

/// The last millisecond that is still a [`Timestamp`].
const LAST_MILLI: u64 = u64::MAX / 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceLine<'a> {
    #[serde(deserialize_with = "t_ms")]
    t_ms: u64,
    #[serde(deserialize_with = "cost", default = "one")]
    cost: u64,
    #[serde(borrow)]
    key: Option<JsonText<'a>>,
    #[serde(borrow)]
    user_id: Option<JsonText<'a>>,
    #[serde(borrow)]
    api_key: Option<JsonText<'a>>,
    #[serde(borrow)]
    ip: Option<JsonText<'a>>,
    #[serde(borrow)]
    tenant: Option<JsonText<'a>>,
    #[serde(borrow)]
    tier: Option<JsonText<'a>>,
    #[serde(borrow)]
    host: Option<JsonText<'a>>,
    #[serde(borrow)]
    method: Option<JsonText<'a>>,
    #[serde(borrow)]
    endpoint: Option<JsonText<'a>>,
    #[serde(borrow, default)]
    attributes: BTreeMap<JsonText<'a>, JsonText<'a>>,
}

/// Reads a line.
pub(super) fn parse(line: &str) -> Result<LogEntry<'_>, BadLineReason> {
    let step: TraceLine<'_> = json::parse(line)?;
    let mut entry = LogEntry::at(Timestamp::from_millis(step.t_ms));
    entry.cost = step.cost;
    entry.key = step.key.map(JsonText::into);
    entry.user = step.user_id.map(JsonText::into);
    entry.api_key = step.api_key.map(JsonText::into);
    entry.ip = step.ip.map(JsonText::into);
    entry.tenant = step.tenant.map(JsonText::into);
    entry.tier = step.tier.map(JsonText::into);
    entry.host = step.host.map(JsonText::into);
    entry.method = step.method.map(JsonText::into);
    entry.path = step.endpoint.map(JsonText::into);
    entry.attributes =
        step.attributes.into_iter().map(|(name, value)| (name.into(), value.into())).collect();

    let identifiers =
        [&entry.key, &entry.user, &entry.api_key, &entry.ip, &entry.tenant, &entry.path];
    if identifiers.into_iter().all(Option::is_none) && entry.attributes.is_empty() {
        return Err("no key, user_id, api_key, ip, tenant, endpoint or attribute".into());
    }
    Ok(entry)
}

fn one() -> u64 {
    1
}

fn cost<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_u64(Whole { name: "cost", most: u64::MAX })
}

fn t_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_u64(Whole { name: "t_ms", most: LAST_MILLI })
}

/// Accepts whole numbers only: a fraction would have to be rounded, and a step would lie.
struct Whole {
    name: &'static str,
    most: u64,
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as a whole number from 0 to {}", self.name, self.most)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if number > self.most {
            return Err(E::invalid_value(serde::de::Unexpected::Unsigned(number), &self));
        }
        Ok(number)
    }
}
