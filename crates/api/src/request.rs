//! A check: by rule, or by what is known about a request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::object::Object;
use crate::text::Text;

/// A check. Either by rule, with `rule_id`, `key_type` and `key_value`; or by request, with
/// `identifiers` and whatever else is known about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(
    feature = "openapi",
    schema(example = json!({"identifiers": {"user_id": "u1"}, "endpoint": "/api/v1/orders", "method": "POST"}))
)]
pub struct CheckRequest<'a> {
    /// By rule: the rule to judge by, whatever its conditions.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub rule_id: Option<Text<'a>>,
    /// By rule: what the key is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<KeyTypeName>))]
    pub key_type: Option<KeyType>,
    /// By rule: the value to count by.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub key_value: Option<Text<'a>>,
    /// By rule: how many requests this is; 1 if not given, 0 to peek without charging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_count: Option<u64>,
    /// By request: the identifiers of the client.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Identifiers<'static>>))]
    pub identifiers: Option<Object<Identifiers<'a>>>,
    /// By request: the requested path.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub endpoint: Option<Text<'a>>,
    /// By request: the HTTP method.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub method: Option<Text<'a>>,
    /// By request: the requested host.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub host: Option<Text<'a>>,
    /// By request: the tier of the client, unless the policy knows better.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub tier: Option<Text<'a>>,
    /// By request: anything else, for `attribute:NAME`; `header:NAME` and `claim:NAME` are found
    /// here too, under those full names.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, String>>))]
    pub attributes: Option<BTreeMap<Text<'a>, Text<'a>>>,
    /// What the request costs before rules multiply it; 1 if not given, 0 to peek without charging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// Whether the response lists every rule that applied. On for a single check, off in a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<bool>,
    /// The idempotency key of this check, in a batch or instead of the header.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub idempotency_key: Option<Text<'a>>,
}

/// The identifiers of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Identifiers<'a> {
    /// The authenticated user.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub user_id: Option<Text<'a>>,
    /// The API key.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub api_key: Option<Text<'a>>,
    /// The address of the client.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub ip: Option<Text<'a>>,
    /// The tenant.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub tenant: Option<Text<'a>>,
}

/// What the key of a check by rule is. Some have a second spelling, which is read but not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// The user.
    #[serde(alias = "user_id")]
    User,
    /// The API key.
    #[serde(alias = "apikey")]
    ApiKey,
    /// The address of the client.
    Ip,
    /// The tenant.
    Tenant,
    /// The endpoint.
    Endpoint,
    /// Whatever else the rule counts by: a header, a claim, an attribute, a path.
    Custom,
}

impl KeyType {
    /// Its name over HTTP and gRPC.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ApiKey => "api_key",
            Self::Ip => "ip",
            Self::Tenant => "tenant",
            Self::Endpoint => "endpoint",
            Self::Custom => "custom",
        }
    }
}

/// Every spelling of a key type: the description of an API knows no aliases.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyTypeName {
    /// The user.
    User,
    /// The user.
    UserId,
    /// The API key.
    ApiKey,
    /// The API key.
    Apikey,
    /// The address of the client.
    Ip,
    /// The tenant.
    Tenant,
    /// The endpoint.
    Endpoint,
    /// Whatever the rule counts by.
    Custom,
}
