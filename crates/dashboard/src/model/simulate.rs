//! An access log against rules: who would have been refused, when, by which rule; and all algorithms side by side.

use super::rule::Finding;
use super::series::RequestSeries;
use super::shared::Quota;
use super::time::Time;

/// The page that replays an access log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// The form as it was sent.
    pub form: SimulateForm,
    /// What is wrong with the log or the form, as a sentence.
    pub problem: Option<String>,
    /// What is wrong with the edited policy.
    pub findings: Vec<Finding>,
    /// What the replay showed.
    pub report: Option<SimulationReport>,
}

/// The form: a log and a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulateForm {
    /// The largest log that is accepted, in bytes.
    pub max_bytes: u64,
    /// The formats of logs that can be read; posted in `format`, `auto` first.
    pub formats: Vec<String>,
    /// The chosen format.
    pub format: String,
    /// Whether the policy is the one in force (`policy=in_force`) or the text (`policy=edited`).
    pub is_edited: bool,
    /// The policy as text, posted in `document`.
    pub yaml: String,
}

/// What a replay showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulationReport {
    /// The name of the file.
    pub file: String,
    /// The format it was read as.
    pub format: String,
    /// Lines that could not be read.
    pub skipped_lines: u64,
    /// The first such line and what is wrong with it.
    pub first_skipped: Option<String>,
    /// The first request.
    pub from: Time,
    /// The last request.
    pub until: Time,
    /// All requests.
    pub requests: u64,
    /// Those that passed, delayed ones included.
    pub allowed: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those that passed after a delay.
    pub delayed: u64,
    /// The longest delay.
    pub longest_delay_ms: u64,
    /// Those that no rule applied to.
    pub unlimited: u64,
    /// Clients in the log.
    pub clients: u64,
    /// Clients that were refused at least once.
    pub clients_refused: u64,
    /// Requests over the time of the log, in each step of the course.
    pub course: RequestSeries,
    /// The rules with a page that says what was replayed: those in force, unless edited ones were replayed.
    pub rules_in_force: Vec<String>,
    /// What each rule did.
    pub rules: Vec<SimulatedRule>,
    /// The clients that were refused most.
    pub top: Vec<SimulatedClient>,
    /// The clients that shadow rules and candidates would have refused most.
    pub in_shadow: Vec<ShadowedClient>,
    /// The same limits under every algorithm.
    pub algorithms: Vec<AlgorithmRow>,
    /// What the replay could not know, as a sentence.
    pub caveat: Option<String>,
}

/// What a rule did in a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedRule {
    /// The rule.
    pub rule_id: String,
    /// Its limit.
    pub quota: Quota,
    /// Whether it only counts and reports.
    pub is_shadow: bool,
    /// Requests it applied to.
    pub applied: u64,
    /// Requests beyond its limit.
    pub exceeded: u64,
    /// Clients beyond its limit.
    pub clients: u64,
}

/// A client in a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedClient {
    /// What the log calls it. This server may not know it.
    pub client: String,
    /// Its requests.
    pub requests: u64,
    /// Those that were refused.
    pub refused: u64,
    /// The rule that refused most of them.
    pub rule_id: Option<String>,
    /// The first refusal.
    pub first_refused: Option<Time>,
    /// The path that was refused most.
    pub path: Option<String>,
    /// Its last user agent.
    pub user_agent: Option<String>,
}

/// A client that a shadow rule or a candidate would have refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShadowedClient {
    /// What the log calls it. This server may not know it.
    pub client: String,
    /// The shadow rule or candidate.
    pub rule_id: String,
    /// All requests of the client.
    pub requests: u64,
    /// Those over the limit of the rule.
    pub exceeded: u64,
}

/// The result of a log under one algorithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlgorithmRow {
    /// The algorithm.
    pub algorithm: String,
    /// Whether rules of the policy use it.
    pub is_in_use: bool,
    /// Requests that passed.
    pub allowed: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Clients that were refused at least once.
    pub clients_refused: u64,
    /// Requests that were delayed.
    pub delayed: u64,
    /// The longest delay.
    pub longest_delay_ms: u64,
    /// Requests with another decision than by the log, which is exact.
    pub unlike_log: u64,
    /// Refusals over the time of the log, for a sparkline.
    pub course: Vec<f64>,
}
