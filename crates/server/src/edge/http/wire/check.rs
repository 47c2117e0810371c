//! One check: by rule, or by the attributes of a request.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use tollgate::rules::Identifier;
use tollgate::{Attribute, Attributes, CheckTarget, Policy};
use tollgate_api::{CheckRequest, Identifiers, KeyType};

use crate::edge::http::problem::Problem;
use crate::edge::http::wire::url_path::url_path;
use crate::observe::audit_log::RequestContext;

/// A check as the limiter sees it: a request with attributes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct CheckBody<'a>(#[serde(borrow)] pub(crate) CheckRequest<'a>);

impl<'a> Deref for CheckBody<'a> {
    type Target = CheckRequest<'a>;

    fn deref(&self) -> &CheckRequest<'a> {
        &self.0
    }
}

/// Which rules a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckSubject<'a> {
    /// One rule, whatever its conditions.
    Rule(&'a str),
    /// All rules that match.
    Request,
}

impl<'a> CheckSubject<'a> {
    /// The target to check for a request.
    pub(crate) fn of(self, request: &'a dyn Attributes) -> CheckTarget<'a> {
        match self {
            Self::Rule(rule_id) => CheckTarget::Rule(rule_id, request),
            Self::Request => CheckTarget::Request(request),
        }
    }
}

/// The most attributes that a check may carry.
const MAX_ATTRIBUTES: usize = 64;

impl CheckBody<'_> {
    /// The subject of the check, if its fields belong together. Only a check by rule needs the policy.
    pub(crate) fn subject<P: Borrow<Policy>>(
        &self,
        policy: impl FnOnce() -> P,
    ) -> Result<CheckSubject<'_>, Problem> {
        self.check_attribute_count()?;
        self.judged_by(policy)
    }

    fn judged_by<P: Borrow<Policy>>(
        &self,
        policy: impl FnOnce() -> P,
    ) -> Result<CheckSubject<'_>, Problem> {
        let Some(rule_id) = self.rule_id.as_deref() else {
            if self.key_type.is_some() || self.key_value.is_some() || self.request_count.is_some() {
                return Err(Problem::unprocessable(
                    "invalid_check",
                    "key_type, key_value and request_count belong to a check by rule: add rule_id, \
                     or ask by request with identifiers, endpoint, method and cost",
                ));
            }
            return self.check_identifiers().map(|()| CheckSubject::Request);
        };
        if self.request_count.is_some() && self.cost.is_some() {
            let detail =
                "request_count and cost mean the same in a check by rule: give one of them";
            return Err(Problem::unprocessable("invalid_check", detail));
        }
        let policy = policy();
        let rule = policy.borrow().rules().find(rule_id).ok_or_else(|| unknown_rule(rule_id))?;
        if let Some(key_type) = self.key_type {
            match &*rule.identifiers {
                [only] if key_type_of(only) == key_type => {}
                identifiers => return Err(key_type_mismatch(rule_id, identifiers)),
            }
        }
        if self.key_type.is_some() != self.key_value.is_some() {
            let detail = "key_type and key_value go together";
            return Err(Problem::unprocessable("invalid_check", detail));
        }
        self.check_identifiers()?;
        // Nothing would be charged, and the caller would not notice.
        if let Some(missing) = rule.missing_identifier(self) {
            let detail = format!(
                "rule `{rule_id}` counts by {missing}, which this check does not have: give the identifier"
            );
            return Err(Problem::unprocessable("invalid_check", detail));
        }
        Ok(CheckSubject::Rule(rule_id))
    }

    /// The context for the audit log. A key that is not an endpoint may be a secret.
    pub(crate) fn context(&self) -> RequestContext<'_> {
        let key = self.key(|key_type| key_type == KeyType::Endpoint);
        let endpoint = self.endpoint.as_deref().or(key);
        let (method, asked_rule) = (self.method.as_deref(), self.rule_id.as_deref());
        RequestContext { endpoint, method, asked_rule, ..RequestContext::of(self) }
    }

    /// The caller chooses how many attributes there are, so their number is bounded. The end client
    /// chooses how long a value is (a path, a header), so no length is refused: a caller that fails open
    /// would let the request pass unlimited.
    fn check_attribute_count(&self) -> Result<(), Problem> {
        let count = self.attributes.as_ref().map_or(0, BTreeMap::len);
        if count > MAX_ATTRIBUTES {
            let detail = format!("attributes: at most {MAX_ATTRIBUTES} are allowed");
            return Err(Problem::unprocessable("invalid_check", detail));
        }
        Ok(())
    }

    /// Refuses empty identifiers and invalid addresses: no rule would count them, and the caller would
    /// not notice.
    fn check_identifiers(&self) -> Result<(), Problem> {
        let Identifiers { user_id, api_key, ip, tenant } =
            self.identifiers.as_ref().map_or(&NO_IDENTIFIERS, |object| &object.0);
        let texts = [
            ("identifiers.user_id", user_id),
            ("identifiers.api_key", api_key),
            ("identifiers.ip", ip),
            ("identifiers.tenant", tenant),
            ("key_value", &self.key_value),
        ];
        for (name, text) in texts {
            if text.as_ref().is_some_and(|text| text.is_empty()) {
                let detail = format!("{name}: it is empty; leave out what is not known");
                return Err(Problem::unprocessable("invalid_check", detail));
            }
        }
        let key = self.key(|key_type| key_type == KeyType::Ip);
        for (name, address) in [("identifiers.ip", ip.as_deref()), ("key_value", key)] {
            if let Some(other) = address.filter(|address| address.parse::<IpAddr>().is_err()) {
                let detail = format!(
                    "{name}: `{}` is not an address; write it without port or brackets",
                    beginning(other)
                );
                return Err(Problem::unprocessable("invalid_check", detail));
            }
        }
        Ok(())
    }

    fn attribute(&self, prefix: &str, name: &str) -> Option<&str> {
        let attributes = self.attributes.as_ref()?;
        if prefix.is_empty() {
            return attributes.get(name).map(|value| &**value);
        }
        let is_named = |key: &str| key.strip_prefix(prefix).is_some_and(|rest| rest == name);
        attributes.iter().find(|(key, _)| is_named(key)).map(|(_, value)| &**value)
    }

    /// The `key_value` of a check by rule, if its `key_type` is a wanted one.
    fn key(&self, is_meant: impl Fn(KeyType) -> bool) -> Option<&str> {
        self.key_type.filter(|key_type| is_meant(*key_type)).and(self.key_value.as_deref())
    }
}

const NO_IDENTIFIERS: Identifiers<'static> =
    Identifiers { user_id: None, api_key: None, ip: None, tenant: None };

pub(crate) fn unknown_rule(rule_id: &str) -> Problem {
    Problem::not_found("unknown_rule", format!("there is no rule `{}`", beginning(rule_id)))
}

fn key_type_mismatch(rule_id: &str, identifiers: &[Identifier]) -> Problem {
    let instead = "give identifiers and attributes instead of key_type and key_value";
    let detail = match identifiers {
        [only] => {
            let fitting = key_type_of(only).name();
            format!("rule `{rule_id}` counts by {only}: use key_type `{fitting}`, or {instead}")
        }
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("rule `{rule_id}` counts by {}: {instead}", names.join(", "))
        }
    };
    Problem::unprocessable("key_type_mismatch", detail)
}

/// The part of a client's text that messages quote: as much as the longest rule id.
fn beginning(text: &str) -> &str {
    text.char_indices().nth(100).map_or(text, |(end, _)| &text[..end])
}

/// The key type of a rule that counts by this identifier only.
fn key_type_of(identifier: &Identifier) -> KeyType {
    match identifier {
        Identifier::UserId => KeyType::User,
        Identifier::ApiKey => KeyType::ApiKey,
        Identifier::Ip => KeyType::Ip,
        Identifier::Tenant => KeyType::Tenant,
        Identifier::Endpoint => KeyType::Endpoint,
        _ => KeyType::Custom,
    }
}

impl Attributes for CheckBody<'_> {
    fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
        let who = self.identifiers.as_ref().map_or(&NO_IDENTIFIERS, |object| &object.0);
        let (given, key) = match attribute {
            Attribute::UserId => (who.user_id.as_deref(), Some(KeyType::User)),
            Attribute::ApiKey => (who.api_key.as_deref(), Some(KeyType::ApiKey)),
            Attribute::Ip => (who.ip.as_deref(), Some(KeyType::Ip)),
            Attribute::Tenant => (who.tenant.as_deref(), Some(KeyType::Tenant)),
            Attribute::Path => {
                let is_path = |key| matches!(key, KeyType::Endpoint | KeyType::Custom);
                return self.endpoint.as_deref().map(url_path).or_else(|| self.key(is_path));
            }
            Attribute::Method => (self.method.as_deref(), None),
            Attribute::Host => (self.host.as_deref(), None),
            Attribute::Tier => (self.tier.as_deref(), None),
            Attribute::Header(name) => (self.attribute("header:", name), Some(KeyType::Custom)),
            Attribute::Claim(name) => (self.attribute("claim:", name), Some(KeyType::Custom)),
            Attribute::Custom(name) => (self.attribute("", name), Some(KeyType::Custom)),
        };
        given.or_else(|| self.key(|own| Some(own) == key))
    }

    fn cost(&self) -> u64 {
        self.request_count.or(self.cost).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests;
