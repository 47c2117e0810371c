//! The question that is put to a server, from what was typed.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate::identity::Secret;

use crate::arguments::{CheckArguments, RequestArguments};

/// What the check API is asked: about a request, or about one rule.
#[derive(Default, Serialize)]
pub(super) struct Question<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Identifiers::is_empty")]
    identifiers: Identifiers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
}

#[derive(Default, PartialEq, Eq, Serialize)]
struct Identifiers<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
}

impl Identifiers<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl<'a> Question<'a> {
    /// What is asked about a request.
    pub(super) fn about(request: &'a RequestArguments) -> Self {
        Self {
            identifiers: Identifiers {
                user_id: request.user_id.as_deref(),
                api_key: request.api_key.as_ref().map(Secret::expose),
                ip: request.ip.as_deref(),
                tenant: request.tenant.as_deref(),
            },
            endpoint: request.endpoint.as_deref(),
            method: request.method.as_deref(),
            host: request.host.as_deref(),
            tier: request.tier.as_deref(),
            attributes: request
                .attributes
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect(),
            cost: request.cost,
            ..Self::default()
        }
    }

    /// What a check asks: the same, or about one rule.
    pub(super) fn check(arguments: &'a CheckArguments) -> Self {
        Self {
            rule_id: arguments.rule.as_deref(),
            key_type: arguments.key_value.is_some().then_some(&arguments.key_type),
            key_value: arguments.key_value.as_deref(),
            ..Self::about(&arguments.request)
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Texts and numbers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}
