//! One rule: as it is, as it is being edited, and what the edit would do to real traffic.

use super::rules::{CandidateFigures, RuleState};
use super::series::RequestSeries;
use super::shared::{ClientRef, FiguresOf, Quota, Section, TopClient};
use super::time::Time;

/// The page of one rule, or of a new one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EditedRule {
    /// Its id; empty for a new rule.
    pub rule_id: String,
    /// Whether the catalog has no such rule yet.
    pub is_new: bool,
    /// Whether it is enforced, as saved.
    pub state: RuleState,
    /// Its limit, as saved.
    pub quota: Option<Quota>,
    /// Which requests it applies to, in a few words: "POST /login"; empty for all.
    pub applies_to: String,
    /// The version of the saved rule, which a save has to be based on; posted in the field `version`.
    pub version: Option<u64>,
    /// What another person changed since the form began.
    pub conflict: Option<EditConflict>,
    /// When it was last changed.
    pub updated_at: Option<Time>,
    /// The token that changed it last.
    pub updated_by: Option<String>,
    /// Whether the viewer may write this rule.
    pub is_writable: bool,
    /// How it is edited: as a form or as text.
    pub mode: EditMode,
    /// The fields as edited, as text. The page shows them in mode `Form`.
    pub form: RuleForm,
    /// The rule as edited, in YAML. In mode `Form` it is the document that the fields are put into.
    pub yaml: String,
    /// The values that fields of the form can have.
    pub choices: RuleChoices,
    /// Errors and advice of the linter for the edited rule.
    pub findings: Vec<Finding>,
    /// What differs from the saved rule; empty if nothing does, or if the edited rule cannot be read.
    pub diff: Vec<DiffLine>,
    /// What the edited rule would have done to recent traffic.
    pub effect: EffectPreview,
    /// Requests that the rule counted over the range.
    pub course: RequestSeries,
    /// The clients that it refuses most.
    pub most_refused: Vec<TopClient>,
    /// Whose refusals that ranking counts.
    pub most_refused_of: FiguresOf,
    /// How far back it goes, in seconds.
    pub top_seconds: u64,
    /// The limit that is tried beside it, as saved.
    pub candidate: Option<CandidateFigures>,
    /// How many overrides of this rule there are.
    pub overrides: u64,
    /// How many clients it has banned.
    pub bans: u64,
    /// Its changes, the newest first.
    pub history: Section<Vec<RuleRevision>>,
}

/// What another person changed in a rule since the form began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EditConflict {
    /// The version that the form began with; posted in `version`.
    pub based_on: u64,
    /// The version in force, which a save over it names in the field `over`.
    pub version: u64,
    /// What the other person changed, line by line; empty if the version that the form began with is not known any more.
    pub diff: Vec<DiffLine>,
}

/// How a rule is edited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditMode {
    /// Field by field.
    #[default]
    Form,
    /// As text.
    Yaml,
}

/// The fields of a rule as text, as they were typed. Lists are separated by commas or lines. Each is posted in the
/// field of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleForm {
    /// The id.
    pub rule_id: String,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Units per window.
    pub limit: String,
    /// The window: `500ms`, `10s`, `1h`, `1 month`.
    pub window: String,
    /// The time zone of a window of the calendar.
    pub time_zone: String,
    /// How usage is counted.
    pub algorithm: String,
    /// The capacity of a bucket.
    pub burst: String,
    /// What counters are kept by.
    pub identifier_type: String,
    /// Whether requests without the identifier are refused.
    pub on_missing: String,
    /// The tenant.
    pub tenant: String,
    /// Hosts it applies to.
    pub hosts: String,
    /// Paths it applies to.
    pub endpoints: String,
    /// Methods it applies to.
    pub methods: String,
    /// Tiers it applies to.
    pub user_tiers: String,
    /// What a request costs.
    pub cost: String,
    /// What happens beyond the limit.
    pub action: String,
    /// The longest delay of `throttle`.
    pub max_delay_ms: String,
    /// The share from which on clients are warned.
    pub warn_at: String,
    /// Units admitted above the limit.
    pub grace: String,
    /// Higher ones are reported first.
    pub priority: String,
    /// Whether nodes share the counter.
    pub consistency: String,
    /// What happens when the shared store is away.
    pub on_store_failure: String,
    /// What each node allows meanwhile.
    pub fallback_factor: String,
    /// Refusals that lead to a ban.
    pub penalty_after: String,
    /// Within which time.
    pub penalty_within_seconds: String,
    /// How long the ban lasts.
    pub penalty_ban_seconds: String,
    /// A limit to try beside the one in force.
    pub candidate_limit: String,
    /// Whether the rule applies at all. Posted as `enabled=on` or not at all.
    pub enabled: bool,
    /// Fields of the rule that only the text shows: `costs`, `replaces`, `refusal`...
    pub others: Vec<String>,
}

/// The values that fields of a rule can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChoices {
    /// Algorithms.
    pub algorithms: Vec<String>,
    /// What happens beyond the limit.
    pub actions: Vec<String>,
    /// What happens to a request that lacks the identifier.
    pub on_missing: Vec<String>,
    /// Whether nodes share a counter.
    pub consistency: Vec<String>,
    /// What happens when the shared store is away.
    pub on_store_failure: Vec<String>,
    /// Types of identifiers, as suggestions.
    pub identifier_types: Vec<String>,
    /// Tiers, as suggestions.
    pub tiers: Vec<String>,
}

/// What the linter found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Whether the rule can be saved all the same.
    pub kind: FindingKind,
    /// The field, like `applies_to.methods[0]`; empty for the rule as a whole.
    pub field: String,
    /// The line in the YAML, from 1.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub advice: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FindingKind {
    /// The rule cannot be saved.
    Error,
    /// Allowed, but hardly meant.
    #[default]
    Advice,
}

/// One line of a difference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffLine {
    /// Whether it was removed, added or neither.
    pub kind: DiffKind,
    /// The line, without a sign before it.
    pub text: String,
}

/// What happened to a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffKind {
    /// It stayed.
    #[default]
    Same,
    /// It was removed.
    Removed,
    /// It was added.
    Added,
}

/// What an edited rule would have done to recent traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum EffectPreview {
    /// It was not replayed yet: the page offers it.
    #[default]
    NotAsked,
    /// It cannot be replayed, and why, as a sentence: the setting is off, or the rule has errors.
    Off(String),
    /// There is no recent traffic to replay.
    NoTraffic,
    /// It was replayed.
    Replayed(Effect),
}

/// The recent traffic of this node, replayed against the rule as saved and as edited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effect {
    /// The first request that was replayed.
    pub since: Time,
    /// The last one.
    pub until: Time,
    /// How many were replayed.
    pub requests: u64,
    /// Refused under the policy in force.
    pub refused_now: u64,
    /// Refused with the change.
    pub refused_then: u64,
    /// Clients that are refused under the policy in force.
    pub clients_now: u64,
    /// Clients that are refused with the change.
    pub clients_then: u64,
    /// The moment of the first point of the two courses.
    pub start: Time,
    /// The distance of two points.
    pub step_seconds: u64,
    /// Refusals in each step under the policy in force.
    pub course_now: Vec<f64>,
    /// Refusals in each step with the change.
    pub course_then: Vec<f64>,
    /// The clients that the change touches most.
    pub clients: Vec<EffectClient>,
    /// Clients that are refused as often with the change as under the policy in force.
    pub clients_unchanged: u64,
    /// What the candidate of the edited rule would have refused, if it has one.
    pub candidate: Option<Box<CandidateEffect>>,
    /// What the replay could not know, as a sentence.
    pub caveat: Option<String>,
}

/// What a change would have done to one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EffectClient {
    /// The client.
    pub client: ClientRef,
    /// Its requests that were replayed.
    pub requests: u64,
    /// Refused under the policy in force.
    pub now: u64,
    /// Refused with the change.
    pub then: u64,
}

/// What a candidate would have refused of the requests that pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateEffect {
    /// The limit that is tried.
    pub quota: Quota,
    /// Requests that pass, and that it counted.
    pub requests: u64,
    /// Requests of these that it would have refused.
    pub refused: u64,
    /// How many clients it would have refused.
    pub clients_refused: u64,
    /// The clients that it would have refused most: `now` counts nothing, `then` what it would have refused.
    pub clients: Vec<EffectClient>,
}

/// A change of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleRevision {
    /// The revision of the policy that it made.
    pub revision: u64,
    /// When.
    pub at: Time,
    /// The token that made it.
    pub actor: String,
    /// What it changed, in one line: "limit 5 → 10".
    pub summary: String,
    /// What it was for, if it was a rollback.
    pub note: Option<String>,
    /// Whether the rule as it was then can be restored; the current one cannot.
    pub can_restore: bool,
}

impl Default for RuleChoices {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Self {
            algorithms: words(&[
                "token_bucket",
                "leaky_bucket",
                "gcra",
                "fixed_window",
                "sliding_window_counter",
                "sliding_window_log",
            ]),
            actions: words(&["reject", "throttle", "log_only"]),
            on_missing: words(&["skip", "deny"]),
            consistency: words(&["strict", "local"]),
            on_store_failure: words(&["local", "open", "closed"]),
            identifier_types: words(&[
                "user_id", "api_key", "ip", "tenant", "endpoint", "path", "global",
            ]),
            tiers: Vec::new(),
        }
    }
}
