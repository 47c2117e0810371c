//! Why a request passes or not: the form, the explanation as a tree, and a decision of the past.

use super::shared::{DecisionRow, Identifier, Outcome, Quota};
use super::time::Time;

/// The page that explains a composed request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TryRequest {
    /// The request as typed.
    pub form: TryForm,
    /// What is wrong with it, as a sentence.
    pub problem: Option<String>,
    /// What would happen to it, or did.
    pub explanation: Option<Explanation>,
    /// Whether a check, which charges, is offered beside the explanation.
    pub can_check: bool,
}

/// A request as typed. Each is a parameter of the query of the same name; empty ones are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TryForm {
    /// The method.
    pub method: String,
    /// The path.
    pub endpoint: String,
    /// The host.
    pub host: String,
    /// The user.
    pub user_id: String,
    /// The API key.
    pub api_key: String,
    /// The address.
    pub ip: String,
    /// The tenant.
    pub tenant: String,
    /// The tier, where the request has it.
    pub tier: String,
    /// What it costs, instead of what rules say.
    pub cost: String,
    /// Other attributes, one `name=value` a line.
    pub attributes: String,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    #[default]
    Passes,
    /// It passes after a delay.
    Waits,
    /// It is refused.
    Refused,
}

/// Why a request passes or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// Whether it was checked and charged; else only explained.
    pub is_charged: bool,
    /// The id of the decision, if it was checked.
    pub decision_id: Option<String>,
    /// What happens to it.
    pub verdict: Verdict,
    /// The reason in a few words, where no rule binds: "the client is on the deny list: scraper".
    pub because: Option<String>,
    /// The rule that binds.
    pub binding: Option<String>,
    /// When it would pass, in milliseconds from now; none: never, or at once.
    pub retry_ms: Option<u64>,
    /// How long it would be delayed.
    pub delay_ms: Option<u64>,
    /// The revision of the policy.
    pub revision: u64,
    /// The path as rules matched it.
    pub path: Option<String>,
    /// The identifiers that the request has.
    pub identity: Vec<Identifier>,
    /// The tier, if there is one.
    pub tier: Option<String>,
    /// Where it comes from, in a few words: `from the directory, by user_id`.
    pub tier_origin: String,
    /// The list entry that decides, if one does: whether it allows, what it was found by, and why it is listed.
    pub listed: Option<(bool, String, Option<String>)>,
    /// The rules, in the order of reports; those that apply first.
    pub rules: Vec<ExplainedRule>,
    /// Why the figures are those of this node alone, if the store is away.
    pub degraded: Option<String>,
    /// Whether limits of Envoy's files could apply, which are not explained here.
    pub has_envoy_limits: bool,
}

/// How one rule sees a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExplainedRule {
    /// The rule.
    pub rule_id: String,
    /// Whether it applies.
    pub applies: bool,
    /// What was matched, or the first condition that was not.
    pub because: String,
    /// Whether it refuses the request for lack of an identifier.
    pub lacks_identifier: bool,
    /// When the ban of the client by this rule ends.
    pub banned_until: Option<Time>,
    /// Whether it only counts and reports.
    pub is_shadow: bool,
    /// The rule that takes its place here.
    pub replaced_by: Option<String>,
    /// The key of its counter.
    pub key: Vec<Identifier>,
    /// What the request costs here.
    pub cost: u64,
    /// The limit that holds for this client.
    pub quota: Quota,
    /// Where the limit comes from, if not from the rule: `an override by user_id, until 2030-12-01`.
    pub quota_origin: Option<String>,
    /// The figures of its counter, if it was read.
    pub figures: Option<CounterFigures>,
    /// Whether it is the rule that binds.
    pub binds: bool,
    /// Whether it decided without its counter, so that there are no figures.
    pub is_uncounted: bool,
}

/// A counter at the moment of the explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterFigures {
    /// The most that can be in use.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// Whether the request is beyond it.
    pub is_exceeded: bool,
    /// When the current window ends, in milliseconds; of limits without windows, when nothing is in use.
    pub window_reset_ms: Option<u64>,
    /// When nothing is in use, in milliseconds.
    pub reset_ms: u64,
    /// When the request would pass, in milliseconds; none: never, or at once.
    pub next_ms: Option<u64>,
    /// Whether the client is warned or delayed.
    pub state: CounterState,
}

/// The state of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterState {
    /// Below the share from which on clients are warned.
    #[default]
    Normal,
    /// Above it.
    Warning,
    /// Requests are delayed.
    Throttled,
}

/// The page of one decision of the past.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExplainedDecision {
    /// The decision.
    pub decision: DecisionRow,
    /// Why, as a sentence.
    pub because: String,
    /// The identifiers of the request, if it was recorded.
    pub identifiers: Vec<Identifier>,
    /// The tier that the client was in.
    pub tier: Option<String>,
    /// The revision of the policy that was in force.
    pub revision: Option<u64>,
    /// Why no rule was counted, as a sentence, if none was.
    pub uncounted: String,
    /// How each rule saw it, as far as that is still known.
    pub rules: Vec<ExplainedRule>,
    /// Where the explanation comes from, if not from this node: "the log of decisions, which has only the rule that
    /// decided".
    pub source: Option<String>,
    /// Whether its charge can still be returned.
    pub can_refund: bool,
    /// The request, to try it again now.
    pub again: TryForm,
}

impl Outcome {
    /// Whether the request passed.
    #[must_use]
    pub const fn passed(self) -> bool {
        !matches!(self, Self::Refused | Self::Denied | Self::Error)
    }
}
