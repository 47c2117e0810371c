//! What a catalog holds: the entries of a policy, API keys, tokens and bans, each with a name.

pub(crate) mod access;
pub(crate) mod change;
pub(crate) mod kind;
pub(crate) mod validate_entry;

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_rules::document::{
    ClientDocument, ListDocument, OverrideDocument, RuleDocument, TierDocument,
};
use tollgate_rules::{
    Client, Listed, OneOrMany, PolicyDocument, Problem, Seconds, Source, WindowLength, parse_time,
    redacted_values,
};

use crate::db::database::{Value, values};
use crate::entry::access::{ApiKey, Token};
use crate::entry::kind::Kind;

/// One entry of a catalog.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Entry {
    /// A rule.
    Rule(Box<RuleDocument>),
    /// A tier.
    Tier(TierDocument),
    /// The tier of a client.
    Client(ClientDocument),
    /// An exception from a rule for a client.
    Override(OverrideDocument),
    /// A client that is never limited.
    Whitelist(ListDocument),
    /// A client that is always refused.
    Blacklist(ListDocument),
    /// A known API key.
    ApiKey(ApiKey),
    /// A token for this server.
    Token(Token),
    /// A client that a rule refuses for a while.
    Ban(BanEntry),
}

/// A client that kept exceeding the limit of a rule, which refuses it for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanEntry {
    /// The rule that it kept exceeding, and that refuses it.
    pub rule_id: String,
    /// The values that the rule counts the client by, in the order of its identifiers. None in the log of
    /// changes where all bans by the rule are lifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identifier: Vec<String>,
    /// The tenant that the rule belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When the ban ends, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expires_at: String,
    /// How many bans were lifted, where all bans by the rule are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted: Option<u64>,
}

impl BanEntry {
    /// The entry in the log of changes when all bans by a rule are lifted.
    pub(crate) fn all_by(rule_id: &str, count: u64) -> Self {
        Self {
            rule_id: rule_id.to_owned(),
            identifier: Vec::new(),
            tenant: None,
            expires_at: String::new(),
            lifted: Some(count),
        }
    }
}

impl Entry {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Rule(_) => Kind::Rule,
            Self::Tier(_) => Kind::Tier,
            Self::Client(_) => Kind::Client,
            Self::Override(_) => Kind::Override,
            Self::Whitelist(_) => Kind::Whitelist,
            Self::Blacklist(_) => Kind::Blacklist,
            Self::ApiKey(_) => Kind::ApiKey,
            Self::Token(_) => Kind::Token,
            Self::Ban(_) => Kind::Ban,
        }
    }

    /// Its name among those of its kind: the same for all spellings of the same client.
    ///
    /// # Errors
    /// What is wrong with its identifiers.
    pub fn name(&self) -> Result<String, Problem> {
        Ok(match self {
            Self::Rule(rule) => rule.rule_id.clone(),
            Self::Tier(tier) => tier.tier.clone(),
            Self::Client(client) => client_name(&client.identifier_type, &client.identifier)?,
            Self::Override(exception) => override_name(
                &exception.rule_id,
                &exception.identifier_type,
                &exception.identifier,
            )?,
            Self::Whitelist(listed) | Self::Blacklist(listed) => {
                listed_name(&listed.identifier_type, &listed.identifier)?
            }
            Self::ApiKey(key) => key.key_id.clone(),
            Self::Token(token) => token.token_id.clone(),
            Self::Ban(ban) => ban_name(&ban.rule_id, &ban.identifier),
        })
    }

    /// The entry with digests in place of API keys.
    #[must_use]
    pub(crate) fn redacted(mut self) -> Self {
        let (types, values) = match &mut self {
            Self::Client(it) => (&it.identifier_type, &mut it.identifier),
            Self::Override(it) => (&it.identifier_type, &mut it.identifier),
            Self::Whitelist(it) | Self::Blacklist(it) => (&it.identifier_type, &mut it.identifier),
            _ => return self,
        };
        *values = redacted_values(types, values);
        self
    }

    /// The entry as it is stored: JSON without defaults.
    #[must_use]
    pub fn body(&self) -> String {
        // Texts and numbers always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses an entry from the database or the wire.
    ///
    /// # Errors
    /// Everything that is wrong with its text.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, Vec<Problem>> {
        match kind {
            Kind::ApiKey => return parse_json(text).map(Self::ApiKey),
            Kind::Token => return parse_json(text).map(Self::Token),
            Kind::Ban => return parse_json(text).map(Self::Ban),
            _ => {}
        }
        let list = kind.plural();
        let source = Source::parse_item(text, list);
        if !source.problems.is_empty() {
            return Err(source.problems.into_iter().map(|it| without_list(it, list)).collect());
        }
        let nothing = || vec![Problem::new("", "there is nothing to read")];
        Self::all_of(source.document).pop().ok_or_else(nothing)
    }

    /// Every entry of a policy document, with digests in place of API keys.
    #[must_use]
    pub fn all_of(mut document: PolicyDocument) -> Vec<Self> {
        document.redact_secrets();
        let PolicyDocument { rules, tiers, clients, overrides, whitelist, blacklist } = document;
        let rules = rules.into_iter().map(|rule| Self::Rule(Box::new(rule)));
        rules
            .chain(tiers.into_iter().map(Self::Tier))
            .chain(clients.into_iter().map(Self::Client))
            .chain(overrides.into_iter().map(Self::Override))
            .chain(whitelist.into_iter().map(Self::Whitelist))
            .chain(blacklist.into_iter().map(Self::Blacklist))
            .collect()
    }

    /// The tenant it belongs to, as far as it says so itself; an override belongs to that of its rule.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Self::Rule(rule) => rule.tenant.as_deref(),
            Self::Whitelist(listed) | Self::Blacklist(listed) => {
                let mut pairs = listed.identifier_type.iter().zip(listed.identifier.iter());
                pairs.find(|(kind, _)| *kind == "tenant").map(|(_, tenant)| tenant.as_str())
            }
            Self::ApiKey(key) => key.tenant.as_deref(),
            Self::Token(token) => token.tenant.as_deref(),
            Self::Ban(ban) => ban.tenant.as_deref(),
            Self::Tier(_) | Self::Client(_) | Self::Override(_) => None,
        }
    }

    /// The values of [`Kind::columns`], for an entry that belongs to `tenant` and was written by
    /// administrators of the tenant `author`, or by operators.
    pub(crate) fn columns(&self, tenant: Option<&str>, author: Option<&str>) -> Vec<Value> {
        match self {
            Self::Rule(rule) => values![tenant, rule.enabled, author, window_ms(rule)],
            Self::Tier(tier) => values![tier.default],
            Self::Client(it) => {
                let (kind, identifier) = columns_of(&it.identifier_type, &it.identifier, false);
                values![kind, identifier, it.tier.as_str()]
            }
            Self::Override(it) => {
                let (kind, identifier) = columns_of(&it.identifier_type, &it.identifier, false);
                let end = micros(it.expires_at.as_deref());
                values![it.rule_id.as_str(), kind, identifier, tenant, end, author]
            }
            Self::Whitelist(it) | Self::Blacklist(it) => {
                let (kind, identifier) = columns_of(&it.identifier_type, &it.identifier, true);
                let end = micros(it.expires_at.as_deref());
                let mut values = values![kind, identifier, tenant, it.reason.as_deref(), end];
                if self.kind() == Kind::Blacklist {
                    values.push(author.into());
                }
                values
            }
            Self::ApiKey(key) => {
                values![key.digest.as_str(), key.owner.as_deref(), key.tier.as_deref(), tenant]
            }
            Self::Token(token) => {
                let end = micros(token.expires_at.as_deref());
                values![token.digest.as_str(), token.role.name(), tenant, end]
            }
            Self::Ban(ban) => {
                let identifier = joined(&ban.identifier);
                let end = micros(Some(&ban.expires_at)).unwrap_or(0);
                values![ban.rule_id.as_str(), identifier, tenant, end]
            }
        }
    }
}

/// The name of the tier of a client.
///
/// # Errors
/// What is wrong with the identifiers.
pub fn client_name(types: &[String], values: &[String]) -> Result<String, Problem> {
    Ok(flat(None, Client::new(types, values)?.names()))
}

/// The name of an override.
///
/// # Errors
/// What is wrong with the identifiers.
pub fn override_name(rule: &str, types: &[String], values: &[String]) -> Result<String, Problem> {
    Ok(flat(Some(rule), Client::new(types, values)?.names()))
}

/// The name of an entry of a list.
///
/// # Errors
/// What is wrong with the identifiers.
pub fn listed_name(types: &[String], values: &[String]) -> Result<String, Problem> {
    Ok(flat(None, Listed::new(types, values)?.names()))
}

/// The name of a ban.
#[must_use]
pub fn ban_name(rule_id: &str, identifier: &[String]) -> String {
    let mut parts = vec![rule_id.to_owned()];
    parts.extend_from_slice(identifier);
    joined(&parts)
}

/// Kinds and values in turn. As JSON, so that none runs into the next.
fn flat(first: Option<&str>, names: Vec<(String, String)>) -> String {
    let first = first.map(str::to_owned).into_iter();
    let parts: Vec<String> =
        first.chain(names.into_iter().flat_map(|(kind, value)| [kind, value])).collect();
    joined(&parts)
}

fn joined(parts: &[String]) -> String {
    serde_json::to_string(parts).unwrap_or_default()
}

/// Kinds and values, as columns to look for: plain if there is one of each.
pub(crate) fn columns_of(types: &OneOrMany, values: &OneOrMany, list: bool) -> (String, String) {
    let names = if list {
        Listed::new(types, values).map(|it| it.names())
    } else {
        Client::new(types, values).map(|it| it.names())
    };
    // They were parsed before, so they are valid.
    let (types, values): (Vec<_>, Vec<_>) = names.unwrap_or_default().into_iter().unzip();
    match (types.as_slice(), values.as_slice()) {
        ([one], [value]) => (one.clone(), value.clone()),
        _ => (joined(&types), joined(&values)),
    }
}

/// The window of a rule in milliseconds; none if it has none, which is reported as a problem of the policy, or if it is
/// one of the calendar, whose lengths differ.
pub(crate) fn window_ms(rule: &RuleDocument) -> Option<u64> {
    let written = rule.window.as_ref().and_then(|window| match window.length() {
        WindowLength::Equal(length) => Some(length),
        WindowLength::Calendar(_) => None,
    });
    let window = rule.window_seconds.map(Seconds::micros).or(written)?;
    Some(window.as_millis_ceil())
}

fn micros(time: Option<&str>) -> Option<u64> {
    time.and_then(parse_time).map(Timestamp::as_micros)
}

fn parse_json<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Vec<Problem>> {
    serde_json::from_str(text).map_err(|error| vec![Problem::new("", error.to_string())])
}

/// The problem as it is within the item.
pub(crate) fn without_list(mut problem: Problem, list: &str) -> Problem {
    if let Some(rest) = problem.path.strip_prefix(list)
        && let Some((_, field)) = rest.split_once(']')
    {
        problem.path = field.trim_start_matches('.').to_owned();
    }
    problem
}
