//! What a server answers, as far as people are shown it. Whatever else it says is left aside, so that
//! an older command can ask a newer server.

use serde::Deserialize;
use serde_json::Value;

/// The answer to a check or a look.
#[derive(Debug, Deserialize)]
pub(super) struct CheckAnswer {
    pub(super) allowed: bool,
    pub(super) limit: Option<u64>,
    pub(super) remaining: Option<u64>,
    pub(super) reset_at: Option<u64>,
    pub(super) rule_id: Option<String>,
    pub(super) state: String,
    pub(super) decision_id: Option<String>,
    pub(super) retry_after: Option<u64>,
    pub(super) reason: Option<String>,
    pub(super) because: Option<String>,
    pub(super) delay_ms: Option<u64>,
    pub(super) degraded: Option<String>,
    #[serde(default)]
    pub(super) rules: Vec<RuleAnswer>,
}

/// One rule's own figures.
#[derive(Debug, Deserialize)]
pub(super) struct RuleAnswer {
    pub(super) rule_id: String,
    pub(super) allowed: bool,
    #[serde(default)]
    pub(super) shadow: bool,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) window_seconds: f64,
    pub(super) cost: u64,
    pub(super) reset_at: u64,
}

/// A recent decision.
#[derive(Debug, Deserialize)]
pub(super) struct DecisionAnswer {
    pub(super) at: String,
    pub(super) because: String,
    pub(super) tier: Option<String>,
    pub(super) revision: u64,
    pub(super) answer: CheckAnswer,
    pub(super) rules: Vec<RuleAnswer>,
}

/// How a request would fare, and why.
#[derive(Debug, Deserialize)]
pub(super) struct ExplainAnswer {
    pub(super) path: Option<String>,
    pub(super) tier: Option<String>,
    pub(super) tier_from: Value,
    pub(super) listed: Option<Listed>,
    pub(super) rules: Vec<RuleExplained>,
    pub(super) would_pass: bool,
    pub(super) retry_ms: Option<u64>,
    pub(super) binding: Option<String>,
    pub(super) figures: Vec<Figures>,
}

/// The list entry that decides.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) list: String,
    pub(super) by: String,
    pub(super) reason: Option<String>,
    pub(super) expires_at: Option<String>,
}

/// How one rule sees the request.
#[derive(Debug, Deserialize)]
pub(super) struct RuleExplained {
    pub(super) rule_id: String,
    pub(super) applies: bool,
    pub(super) because: String,
    pub(super) refuses: bool,
    pub(super) log_only: bool,
    pub(super) key: Vec<KeyPart>,
    pub(super) cost: u64,
    pub(super) quota: Quota,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeyPart {
    pub(super) identifier_type: String,
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Quota {
    pub(super) capacity: u64,
    pub(super) window_ms: u64,
    pub(super) override_by: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Figures {
    pub(super) rule_id: String,
    pub(super) exceeded: bool,
    pub(super) remaining: u64,
    pub(super) reset_ms: u64,
}

/// A rule in a line. What a document leaves out has its default.
#[derive(Debug, Deserialize)]
pub(super) struct RuleRow {
    pub(super) rule_id: String,
    pub(super) limit: u64,
    pub(super) window_seconds: Option<f64>,
    pub(super) window: Option<String>,
    pub(super) algorithm: Option<String>,
    pub(super) identifier_type: OneOrMany,
    pub(super) action: Option<String>,
    pub(super) enabled: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}
