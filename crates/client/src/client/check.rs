//! What a server is asked: a request and what is known about it, or one rule and its key.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::Serialize;

use super::error::Error;

/// The bounds of servers.
const MOST_ATTRIBUTES: usize = 64;
const LONGEST_IDEMPOTENCY_KEY: usize = 255;

/// A request to be judged. Say what you know about it; rules that need something else do not apply.
///
/// ```
/// use tollgate_client::{Check, KeyType};
///
/// let by_request = Check::new().user_id("alice").endpoint("/exports").method("POST").cost(2);
/// let by_rule = Check::new().rule("exports").key(KeyType::User, "alice");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[must_use = "a check does nothing until a client is asked about it"]
pub struct Check {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rule_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_type: Option<KeyType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_value: Option<Private>,
    #[serde(skip_serializing_if = "Identifiers::is_empty")]
    pub(super) identifiers: Identifiers,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tier: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<String, Private>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idempotency_key: Option<String>,
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Identifiers {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_key: Option<Private>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
}

impl Identifiers {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the key of a check by rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyType {
    /// The user.
    User,
    /// The API key.
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

/// A text that may be a secret, so it is in no debug output.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Private(pub(super) String);

impl Deref for Private {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Check {
    /// A request that nothing is known about yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// By the authenticated user.
    pub fn user_id(mut self, user_id: impl Into<String>) -> Self {
        self.identifiers.user_id = Some(user_id.into());
        self
    }

    /// By an API key.
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.identifiers.api_key = Some(Private(api_key.into()));
        self
    }

    /// From this address, which has no port and no brackets.
    pub fn ip(mut self, ip: impl Into<String>) -> Self {
        self.identifiers.ip = Some(ip.into());
        self
    }

    /// On behalf of a tenant.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.identifiers.tenant = Some(tenant.into());
        self
    }

    /// For this path.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// With this HTTP method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// At this host.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// By a client of this tier, unless the policy knows better.
    pub fn tier(mut self, tier: impl Into<String>) -> Self {
        self.tier = Some(tier.into());
        self
    }

    /// Anything else, for rules that count by `attribute:NAME`. A header is `header:NAME` in lower
    /// case, a claim `claim:NAME`.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.insert(name.into(), Private(value.into()));
        self
    }

    /// What the request costs before rules multiply it: 1 if not told, 0 to look.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Judged by this rule alone, whatever its conditions.
    pub fn rule(mut self, rule_id: impl Into<String>) -> Self {
        self.rule_id = Some(rule_id.into());
        self
    }

    /// With [`rule`](Self::rule): what the rule counts by.
    pub fn key(mut self, key_type: KeyType, value: impl Into<String>) -> Self {
        self.key_type = Some(key_type);
        self.key_value = Some(Private(value.into()));
        self
    }

    /// Asked again with the same key within five minutes, the check gets the same answer and is
    /// charged once. With a key, a check whose answer was lost can be asked again.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The same check, which costs nothing. What is not charged cannot be charged twice either.
    pub(super) fn to_look(&self) -> Self {
        Self { cost: Some(0), idempotency_key: None, ..self.clone() }
    }

    /// Refuses what one of the protocols would quietly take for nothing: nobody would be limited by
    /// an empty identifier. And what is too large for servers, which would refuse all that is sent
    /// together with it.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let Identifiers { user_id, api_key, ip, tenant } = &self.identifiers;
        let who = [
            ("user_id", user_id.as_deref()),
            ("api_key", api_key.as_deref()),
            ("ip", ip.as_deref()),
            ("tenant", tenant.as_deref()),
            ("rule", self.rule_id.as_deref()),
            ("key", self.key_value.as_deref()),
        ];
        let idempotency_key = self.idempotency_key.as_deref();
        for (name, text) in who.into_iter().chain([("idempotency_key", idempotency_key)]) {
            if text.is_some_and(str::is_empty) {
                let detail = format!("{name}: it is empty; leave out what is not known");
                return Err(Error::invalid_check(detail));
            }
        }
        if idempotency_key.is_some_and(|key| key.len() > LONGEST_IDEMPOTENCY_KEY) {
            return Err(Error::invalid_check(format!(
                "idempotency_key: at most {LONGEST_IDEMPOTENCY_KEY} bytes are allowed"
            )));
        }
        if self.attributes.len() > MOST_ATTRIBUTES {
            let detail = format!("attributes: at most {MOST_ATTRIBUTES} are allowed");
            return Err(Error::invalid_check(detail));
        }
        if self.key_type.is_some() && self.rule_id.is_none() {
            return Err(Error::invalid_check(
                "key: it belongs to a check by rule; add rule, or say who asks".to_owned(),
            ));
        }
        Ok(())
    }
}
