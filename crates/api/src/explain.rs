//! Whether a request would pass, and why. The server writes it from the library's own types.

use serde::{Deserialize, Serialize};

use crate::response::State;

/// Whether a request would pass, and why.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ExplainResponse {
    /// Which version of the policy it is about.
    pub revision: PolicyRevision,
    /// The path as it was matched.
    pub path: Option<String>,
    /// The tier of the client.
    pub tier: Option<String>,
    /// What put the client into its tier.
    pub tier_from: TierOrigin,
    /// The list entry that decides, whatever the rules say.
    pub listed: Option<ListEntry>,
    /// The rules, in the order of reports.
    pub rules: Vec<RuleExplanation>,
    /// Whether the request would pass.
    pub would_pass: bool,
    /// Milliseconds until it would, if it would not; none if it never will, or no limit refuses it.
    pub retry_ms: Option<u64>,
    /// The rule that binds, if an enforced one applies.
    pub binding: Option<String>,
    /// What is left of each rule that applies.
    pub figures: Vec<CounterFigures>,
    /// Why the figures are not those of the shared store, if it is away: they are of that node alone, which may let more
    /// pass than is left, up to the limit times the fallback factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Whether the rule that binds refuses because the store is away: it fails closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub store_unavailable: bool,
    /// Whether there are limits of files of envoyproxy/ratelimit, which this says nothing of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_envoy_limits: bool,
}

/// Which version of which catalog a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PolicyRevision {
    /// Set when a catalog is created, so that two catalogs are never confused.
    pub epoch: u64,
    /// Counts the changes.
    pub number: u64,
}

/// What put a client into its tier.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TierOrigin {
    /// The policy's clients, by these identifier types.
    Directory(String),
    /// The request itself.
    Request,
    /// The policy, for clients in no other tier.
    Default,
    /// There is no tier.
    #[serde(rename = "nobody")]
    Untiered,
    /// A value that only newer servers know.
    #[serde(other, skip_serializing)]
    Other,
}

/// The list entry that a request met.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListEntry {
    /// The list.
    pub list: ListName,
    /// What the entry was found by: identifier types, or a network.
    pub by: String,
    /// Why it is listed.
    pub reason: Option<String>,
    /// When the entry ends.
    pub expires_at: Option<String>,
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListName {
    /// Never limited, not even counted.
    Allow,
    /// Always refused.
    Deny,
}

/// How one rule sees the request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RuleExplanation {
    /// The rule.
    pub rule_id: String,
    /// Of a candidate: the rule that it is tried beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub quota: QuotaFigures,
}

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeyPart {
    /// The kind of identifier.
    pub identifier_type: String,
    /// Its value; secrets are cut short.
    pub value: String,
}

/// A limit in figures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct QuotaFigures {
    /// How usage is counted.
    pub algorithm: String,
    /// Units per window.
    pub limit: u64,
    /// The window in milliseconds; of the calendar, the current one.
    pub window_ms: u64,
    /// Which windows of the calendar, if they are of one: `month (Europe/Berlin)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// The most that can be in use at once.
    pub capacity: u64,
    /// For a rule with `limit_from`: where the limit comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_from: Option<String>,
    /// The identifier types of the override it comes from; none if it is the rule's own.
    pub override_by: Option<String>,
    /// When that override began, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_starts_at: Option<String>,
    /// When that override ends, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_expires_at: Option<String>,
    /// When the next override for the client begins, as an RFC 3339 time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_override_at: Option<String>,
}

/// What is left of one rule's limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CounterFigures {
    /// The rule.
    pub rule_id: String,
    /// The most that can be in use.
    pub limit: u64,
    /// Whether the request does not fit into it.
    pub exceeded: bool,
    /// The largest cost that would be admitted now.
    pub remaining: u64,
    /// Milliseconds until the limit resets: `fixed_window` and `sliding_window_counter` at the end of the current window,
    /// others when nothing is in use. Older servers do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_reset_ms: Option<u64>,
    /// Milliseconds until nothing is in use.
    pub reset_ms: u64,
    /// Milliseconds until more is left than now; none when nothing is in use.
    pub next_ms: Option<u64>,
    /// How close the client is to the limit.
    pub state: State,
    /// The key in Redis of the record that has the counter; none if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_key: Option<String>,
}
