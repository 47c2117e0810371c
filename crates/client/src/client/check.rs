//! A check: a request and what is known about it, or one rule and its key.

use std::fmt;

use tollgate_api::{CheckRequest, Identifiers, KeyType, Object, Text};

use super::error::Error;

/// The bounds of servers.
const MAX_ATTRIBUTES: usize = 64;
const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// A request to be checked. Say what you know about it; rules that need something else do not apply.
///
/// ```
/// use tollgate_client::{Check, KeyType};
///
/// let by_request = Check::new().user_id("alice").endpoint("/exports").method("POST").cost(2);
/// let by_rule = Check::new().rule("exports").key(KeyType::User, "alice");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a check does nothing until a client sends it"]
pub struct Check(pub(super) CheckRequest<'static>);

impl Default for Check {
    fn default() -> Self {
        Self::new()
    }
}

impl Check {
    /// A request that nothing is known about yet.
    pub fn new() -> Self {
        // The default of the server depends on whether the check is in a batch. It has to be the same, or an
        // idempotency key would be used for two different checks.
        Self(CheckRequest { detail: Some(false), ..CheckRequest::default() })
    }

    /// By the authenticated user.
    pub fn user_id(mut self, user_id: impl Into<String>) -> Self {
        self.identifiers().user_id = text(user_id);
        self
    }

    /// By an API key.
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.identifiers().api_key = text(api_key);
        self
    }

    /// From this address, which has no port and no brackets.
    pub fn ip(mut self, ip: impl Into<String>) -> Self {
        self.identifiers().ip = text(ip);
        self
    }

    /// On behalf of a tenant.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.identifiers().tenant = text(tenant);
        self
    }

    /// For this path.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.0.endpoint = text(endpoint);
        self
    }

    /// With this HTTP method.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.0.method = text(method);
        self
    }

    /// At this host.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.0.host = text(host);
        self
    }

    /// By a client of this tier, unless the policy knows better.
    pub fn tier(mut self, tier: impl Into<String>) -> Self {
        self.0.tier = text(tier);
        self
    }

    /// Anything else, for rules that count by `attribute:NAME`. A header is `header:NAME` in lower
    /// case, a claim `claim:NAME`.
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let attributes = self.0.attributes.get_or_insert_default();
        attributes.insert(Text::from(name.into()), Text::from(value.into()));
        self
    }

    /// What the request costs before rules multiply it: 1 if not given, 0 to peek.
    pub fn cost(mut self, cost: u64) -> Self {
        self.0.cost = Some(cost);
        self
    }

    /// Checked against this rule alone, whatever its conditions.
    pub fn rule(mut self, rule_id: impl Into<String>) -> Self {
        self.0.rule_id = text(rule_id);
        self
    }

    /// With [`rule`](Self::rule): what the rule counts by.
    pub fn key(mut self, key_type: KeyType, value: impl Into<String>) -> Self {
        self.0.key_type = Some(key_type);
        self.0.key_value = text(value);
        self
    }

    /// Also gets the figures of every rule that applied: [`Decision::rules`](super::Decision::rules).
    pub const fn detail(mut self) -> Self {
        self.0.detail = Some(true);
        self
    }

    /// Sent again with the same key within five minutes, the check gets the same response and is
    /// charged once. With a key, a check whose response was lost can be sent again.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.0.idempotency_key = text(key);
        self
    }

    /// The same check, which costs nothing. What is not charged cannot be charged twice either.
    pub(super) fn to_peek(&self) -> Self {
        Self(CheckRequest { cost: Some(0), idempotency_key: None, ..self.0.clone() })
    }

    fn identifiers(&mut self) -> &mut Identifiers<'static> {
        &mut self.0.identifiers.get_or_insert_default().0
    }

    /// Refuses an empty identifier, which limits no client and which gRPC would take for a missing one; and a value
    /// that is too large for servers, which would refuse a whole batch for it.
    pub(super) fn validate(&self) -> Result<(), Error> {
        let CheckRequest { rule_id, key_value, idempotency_key, .. } = &self.0;
        let none = Object::default();
        let Object(Identifiers { user_id, api_key, ip, tenant }) =
            self.0.identifiers.as_ref().unwrap_or(&none);
        let texts = [
            ("user_id", user_id),
            ("api_key", api_key),
            ("ip", ip),
            ("tenant", tenant),
            ("rule", rule_id),
            ("key", key_value),
            ("idempotency_key", idempotency_key),
        ];
        for (name, text) in texts {
            if text.as_deref().is_some_and(str::is_empty) {
                let detail = format!("{name}: it is empty; leave out what is not known");
                return Err(Error::invalid_check(detail));
            }
        }
        if idempotency_key.as_ref().is_some_and(|key| key.len() > MAX_IDEMPOTENCY_KEY_BYTES) {
            return Err(Error::invalid_check(format!(
                "idempotency_key: at most {MAX_IDEMPOTENCY_KEY_BYTES} bytes are allowed"
            )));
        }
        if self.0.attributes.as_ref().is_some_and(|attributes| attributes.len() > MAX_ATTRIBUTES) {
            let detail = format!("attributes: at most {MAX_ATTRIBUTES} are allowed");
            return Err(Error::invalid_check(detail));
        }
        if self.0.key_type.is_some() && rule_id.is_none() {
            return Err(Error::invalid_check(
                "key: it belongs to a check by rule; add rule, or say who asks".to_owned(),
            ));
        }
        Ok(())
    }
}

fn text(text: impl Into<String>) -> Option<Text<'static>> {
    Some(Text::from(text.into()))
}

/// Keys and attributes may be secrets: only the names of attributes are shown.
impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckRequest { rule_id, key_type, endpoint, method, host, tier, cost, .. } = &self.0;
        let identifiers = self.0.identifiers.as_ref().map(|Object(identifiers)| identifiers);
        let attributes = self.0.attributes.as_ref();
        f.debug_struct("Check")
            .field("rule_id", rule_id)
            .field("key_type", key_type)
            .field("user_id", &identifiers.and_then(|it| it.user_id.as_deref()))
            .field("ip", &identifiers.and_then(|it| it.ip.as_deref()))
            .field("tenant", &identifiers.and_then(|it| it.tenant.as_deref()))
            .field("endpoint", endpoint)
            .field("method", method)
            .field("host", host)
            .field("tier", tier)
            .field("attributes", &attributes.map(|attributes| attributes.keys()))
            .field("cost", cost)
            .finish_non_exhaustive()
    }
}
