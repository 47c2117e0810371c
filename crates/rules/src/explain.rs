//! Why a request is treated as it is, in words and figures for people. Nothing here is secret.

use std::collections::HashMap;

use serde::Serialize;
use tollgate_core::{Mode, Timestamp};

use crate::attributes::{Attribute, Attributes};
use crate::directory::expiry::format_time;
use crate::directory::lists::{Hit, List, ListMatch};
use crate::identifier::Identifier;
use crate::matching::conditions::{Met, Unmet};
use crate::plan::facts::{EVERYTHING, Facts};
use crate::plan::planner::matches_pattern;
use crate::plan::tier::Tier;
use crate::policy::{Policy, Revision};
use crate::rule::Rule;

/// How a policy sees one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The version of the policy.
    pub revision: Revision,
    /// The path as it was matched.
    pub path: Option<String>,
    /// The tier of the client.
    pub tier: Option<String>,
    /// Where the tier comes from: `directory`, `request`, `default` or none.
    pub tier_from: TierOrigin,
    /// The list entry that decides, whatever the rules say.
    pub listed: Option<ListedExplanation>,
    /// The rules, in the order of reports.
    pub rules: Vec<RuleExplanation>,
}

/// Which rules an explanation shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainScope {
    /// All rules: for operators.
    All,
    /// Rules without a tenant and rules of the tenant of the request: for callers that may ask about
    /// requests, but not read what belongs to other tenants.
    OwnTenant,
}

/// Where the tier of a client comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TierOrigin {
    /// The directory, by these identifier types.
    Directory(String),
    /// The request itself.
    Request,
    /// The policy, for clients in no other tier.
    Default,
    /// There is no tier.
    #[serde(rename = "nobody")]
    Untiered,
}

/// The list entry that a request met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedExplanation {
    /// `allow` or `deny`.
    pub list: List,
    /// What the entry was found by: identifier types, or a network.
    pub by: String,
    /// Why it is listed.
    pub reason: Option<String>,
    /// When the entry ends.
    pub expires_at: Option<String>,
}

/// How one rule sees the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleExplanation {
    /// The rule.
    pub rule_id: String,
    /// Of a candidate: the rule that it is tried beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_of: Option<String>,
    /// Whether it applies.
    pub applies: bool,
    /// The first condition that is not fulfilled, or what was matched.
    pub because: String,
    /// Whether it would refuse the request for lack of an identifier.
    pub refuses: bool,
    /// When the ban of the client by this rule ends; none if it is not banned.
    pub banned_until: Option<String>,
    /// Whether it only watches.
    pub log_only: bool,
    /// The rule that takes its place here.
    pub replaced_by: Option<String>,
    /// What the counter is kept by; empty if the rule does not apply.
    pub key: Vec<KeyPart>,
    /// What the request would be charged.
    pub cost: u64,
    /// The limit that counts for this client.
    pub quota: QuotaExplanation,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyPart {
    /// The kind of identifier.
    pub identifier_type: String,
    /// Its value; secrets are cut short.
    pub value: String,
}

/// A limit in figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaExplanation {
    /// How usage is counted.
    pub algorithm: &'static str,
    /// Units per window.
    pub limit: u64,
    /// The window in milliseconds; of the calendar, the current one.
    pub window_ms: u64,
    /// Which windows of the calendar, if they are of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// The most that can be in use at once.
    pub capacity: u64,
    /// For a rule with `limit_from`: where the limit comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_from: Option<String>,
    /// The identifier types of the override it comes from; none if it is the rule's own.
    pub override_by: Option<String>,
    /// When that override began, as an RFC 3339 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_starts_at: Option<String>,
    /// When that override ends, as an RFC 3339 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_expires_at: Option<String>,
    /// When the next override for the client begins, as an RFC 3339 time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_override_at: Option<String>,
}

pub(crate) fn explain(
    policy: &Policy,
    attributes: &dyn Attributes,
    now: Timestamp,
    scope: ExplainScope,
) -> Explanation {
    let facts = Facts::new(attributes, policy.path_case());
    let tier = Tier::of(&facts, policy.rules(), policy.directory());
    let matches =
        policy.rules().iter().map(|rule| matched(rule, &facts, tier.name())).collect::<Vec<_>>();
    let mut replacements: HashMap<usize, &Rule> = HashMap::new();
    for (rule, matched) in policy.rules().iter().zip(&matches) {
        if matched.as_ref().is_ok_and(|matched| matched.met == Met::Proven) {
            for replaced in &rule.replaces {
                replacements.entry(*replaced).or_insert(rule);
            }
        }
    }
    let is_shown = |(_, (rule, _)): &(usize, (&Rule, &Result<Match<'_>, String>))| {
        scope == ExplainScope::All
            || rule.tenant.is_none()
            || rule.tenant.as_deref() == facts.tenant
    };
    let explain_rule = |(at, (rule, matched)): (usize, (&Rule, &Result<Match<'_>, String>))| {
        let replaced_by = replacements.get(&at).filter(|_| matched.is_ok());
        let replaced_by = replaced_by.map(|other| other.id.to_string());
        let endpoint = matched.as_ref().map_or(EVERYTHING, |matched| matched.endpoint);
        let is_counted = matched.as_ref().is_ok_and(|matched| !matched.refuses);
        let banned_until = banned_until(policy, rule, &facts, endpoint, now)
            .filter(|_| is_counted && replaced_by.is_none());
        RuleExplanation {
            rule_id: rule.id.to_string(),
            candidate_of: rule.candidate_of.as_deref().map(str::to_owned),
            applies: matched.is_ok() && replaced_by.is_none(),
            because: match (matched, &replaced_by) {
                (Err(unmet), _) => unmet.clone(),
                (Ok(_), Some(other)) => format!("{other} takes its place"),
                (Ok(matched), None) => match &banned_until {
                    Some(until) => format!("{}; banned until {until} by penalty", matched.because),
                    None => matched.because.clone(),
                },
            },
            banned_until,
            refuses: matched.as_ref().is_ok_and(|matched| matched.refuses) && replaced_by.is_none(),
            log_only: rule.mode == Mode::Shadow,
            replaced_by,
            key: matched.as_ref().map_or(Vec::new(), |matched| key(rule, &facts, matched.endpoint)),
            cost: rule.cost(&facts),
            quota: quota(policy, rule, &facts, endpoint, now),
        }
    };
    Explanation {
        revision: policy.revision(),
        path: facts.path.as_deref().map(str::to_owned),
        tier: tier.name().map(str::to_owned),
        tier_from: match tier {
            Tier::Directory(_, kind) => TierOrigin::Directory(kind.to_string()),
            Tier::Request(_) => TierOrigin::Request,
            Tier::Default(_) => TierOrigin::Default,
            Tier::None => TierOrigin::Untiered,
        },
        listed: policy.directory().listing(&facts, now).map(ListedExplanation::new),
        rules: {
            let rules = policy.rules().iter().zip(&matches).enumerate();
            rules.filter(is_shown).map(explain_rule).collect()
        },
    }
}

/// A rule whose conditions are fulfilled.
struct Match<'a> {
    endpoint: &'a str,
    refuses: bool,
    because: String,
    met: Met,
}

/// Whether a rule matches by itself, others aside; if not, the first reason.
fn matched<'a>(rule: &'a Rule, facts: &Facts<'_>, tier: Option<&str>) -> Result<Match<'a>, String> {
    if !rule.enabled {
        return Err("the rule is switched off".to_owned());
    }
    let conditions = &rule.conditions;
    let met = match conditions.unmet_place(facts) {
        Some(unmet) => Err(unmet),
        None => conditions.check_detail(facts, tier),
    };
    let mut met = met.map_err(|unmet| describe_unmet(&unmet, rule, facts, tier))?;
    let endpoint = conditions.endpoint_of(facts).map_or(EVERYTHING, |pattern| &pattern.text);
    let mut values = rule.identifiers.iter().map(|one| (one, facts.value(one, endpoint)));
    if let Some((first, Some(value))) = values.clone().next() {
        match matches_pattern(&rule.key_pattern, value, facts) {
            Some(true) => {}
            None => met = Met::Assumed,
            Some(false) => return Err(format!("the {first} does not match the key_pattern")),
        }
    }
    if let Some((missing, _)) = values.find(|(_, value)| value.is_none()) {
        let because = describe_missing(missing, facts);
        if !rule.refuses_missing() {
            return Err(because);
        }
        let because = format!("{because}, and the rule refuses such requests");
        return Ok(Match { endpoint, refuses: true, because, met });
    }
    let because = match met {
        Met::Proven => describe_match(rule, endpoint, tier),
        Met::Assumed => "its values are too long to compare with all globs".to_owned(),
    };
    Ok(Match { endpoint, refuses: false, because, met })
}

/// What cannot be read as an address counts for nothing, but it is there.
fn describe_missing(identifier: &Identifier, facts: &Facts<'_>) -> String {
    match (identifier, facts.get(Attribute::Ip)) {
        (Identifier::Ip, Some(other)) => format!("its ip {} is not an address", shortened(other)),
        _ => format!("the request has no {identifier}"),
    }
}

fn describe_unmet(unmet: &Unmet<'_>, rule: &Rule, facts: &Facts<'_>, tier: Option<&str>) -> String {
    let conditions = &rule.conditions;
    let is_not = |name: &str, value: Option<&str>, wanted: &str| match value {
        Some(value) => format!("the {name} is {}, {wanted}", shortened(value)),
        None => format!("the request has no {name}"),
    };
    match unmet {
        Unmet::Tenant => {
            let wanted = conditions.tenant.as_deref().unwrap_or_default();
            is_not("tenant", facts.tenant, &format!("not {wanted}"))
        }
        Unmet::Host => is_not("host", facts.host().as_deref(), "which is none of its hosts"),
        Unmet::Endpoint => is_not("path", facts.path.as_deref(), "which is none of its endpoints"),
        Unmet::Method => {
            let methods = conditions.methods.as_ref().map(ToString::to_string).unwrap_or_default();
            is_not("method", facts.get(Attribute::Method), &format!("not {methods}"))
        }
        Unmet::Tier => is_not("tier", tier, &format!("not {}", conditions.tiers.join(" or "))),
        Unmet::Attribute(identifier) => format!("the {identifier} is missing or does not match"),
    }
}

fn describe_match(rule: &Rule, endpoint: &str, tier: Option<&str>) -> String {
    let conditions = &rule.conditions;
    let mut met = Vec::new();
    if let Some(tenant) = &conditions.tenant {
        met.push(format!("tenant {tenant}"));
    }
    if !conditions.hosts.is_empty() {
        met.push("host".to_owned());
    }
    if !conditions.endpoints.is_empty() {
        met.push(format!("endpoint {endpoint}"));
    }
    if conditions.methods.is_some() {
        met.push("method".to_owned());
    }
    if let Some(tier) = tier.filter(|_| !conditions.tiers.is_empty()) {
        met.push(format!("tier {tier}"));
    }
    met.extend(conditions.attributes.iter().map(|(identifier, _)| identifier.to_string()));
    if met.is_empty() {
        return "it applies to every request".to_owned();
    }
    format!("{} matched", met.join(", "))
}

fn key(rule: &Rule, facts: &Facts<'_>, endpoint: &str) -> Vec<KeyPart> {
    let part = |identifier: &Identifier| {
        let value = facts.value(identifier, endpoint)?;
        let value = if identifier.is_secret() { cut(value) } else { value.to_owned() };
        Some(KeyPart { identifier_type: identifier.to_string(), value })
    };
    rule.identifiers.iter().filter_map(part).collect()
}

/// When the ban of the client ends, if there is one.
fn banned_until(
    policy: &Policy,
    rule: &Rule,
    facts: &Facts<'_>,
    endpoint: &str,
    now: Timestamp,
) -> Option<String> {
    let values = rule.identifiers.iter().map(|identifier| facts.value(identifier, endpoint));
    let values: Vec<&str> = values.collect::<Option<_>>()?;
    let values = values.iter().map(|value| value.as_bytes());
    policy.directory().banned_until(rule, values, now).map(format_time)
}

/// The limit as it counts for the client of a request.
fn quota(
    policy: &Policy,
    rule: &Rule,
    facts: &Facts<'_>,
    endpoint: &str,
    now: Timestamp,
) -> QuotaExplanation {
    let exception = policy.directory().exception(rule, facts, endpoint, now);
    let own = exception.and_then(|(exception, kind)| Some((exception.limit(&rule.quota)?, kind)));
    let limit = rule.own_limit(exception.map(|(exception, _)| exception), facts);
    let limit = limit.unwrap_or(rule.limit);
    let limit_from = rule.limit_from.as_deref().filter(|_| exception.is_none());
    let times = exception.filter(|_| own.is_some()).map(|(exception, _)| exception);
    let next = policy.directory().next_exception(rule, facts, endpoint, now);
    let window = limit.calendar().map_or(limit.window(), |_| limit.refill_time_at(now));
    QuotaExplanation {
        algorithm: limit.algorithm().name(),
        limit: limit.limit(),
        window_ms: window.as_millis_ceil(),
        calendar: limit.calendar().map(ToString::to_string),
        capacity: limit.capacity(),
        limit_from: limit_from.map(|from| from.explain(facts)),
        override_by: own.map(|(_, kind)| kind.to_string()),
        override_starts_at: times.and_then(|it| it.starts_at).map(format_time),
        override_expires_at: times.and_then(|it| it.expires_at).map(format_time),
        next_override_at: next.map(format_time),
    }
}

impl ListedExplanation {
    fn new(hit: Hit<'_>) -> Self {
        Self {
            list: hit.list,
            by: match hit.by {
                ListMatch::Kind(kind) => kind.to_string(),
                ListMatch::Network(network) => network.to_string(),
            },
            reason: hit.listing.reason.as_deref().map(str::to_owned),
            expires_at: hit.listing.expires_at.map(format_time),
        }
    }
}

/// Enough of a secret to recognise it by, and never much of it.
fn cut(secret: &str) -> String {
    let shown = (secret.chars().count() / 4).min(4);
    secret.chars().take(shown).chain(['…']).collect()
}

/// Values of requests can be long, so they are never quoted in full.
fn shortened(value: &str) -> String {
    let mut chars = value.chars();
    let start = chars.by_ref().take(100).collect::<String>();
    if chars.next().is_some() { format!("`{start}…`") } else { format!("`{start}`") }
}
