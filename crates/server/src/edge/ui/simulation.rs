//! Replays an uploaded log against a policy, in bounded time and memory, and sums up what pages show of it.

use std::io::{self, Read};
use std::time::Duration;

use http::StatusCode;
use tollgate::Timestamp;
use tollgate::rules::candidate_of;
use tollgate::rules::document::RuleDocument;
use tollgate_dashboard::model::{
    AlgorithmRow, RequestSeries, ShadowedClient, SimulatedClient, SimulatedRule, SimulationReport,
};
use tollgate_simulate::traffic::{FormatChoice, InputError, Loader, Options, Traffic};
use tollgate_simulate::{
    AlgorithmFigures, Breakdown, ClientRow, CompareError, ReplayOptions, RequestResult, Tally,
    Timeline, compare, replay,
};

use super::convert::{quota_of, time};
use crate::edge::http::problem::Problem;
use crate::observe::preview::changed_policy::ChangedPolicy;
use crate::observe::replay_budget::ReplayBudget;
use crate::settings::ByteSize;

/// How long a simulation takes at most.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(30);
/// How much memory the counters of a replay take.
pub(super) const STORE_BYTES: usize = 64 << 20;
/// How many times the size of the largest log its requests may take in memory.
const MEMORY_PER_LOG_BYTE: usize = 4;
/// How many clients are listed.
const LISTED: usize = 12;
/// The most clients over the limits of rules, each counted for each rule.
const MAX_EXCEEDING: usize = 1_000_000;
/// How many points the course of an algorithm has.
const POINTS: usize = 40;
/// Longer texts of a log are cut.
const MAX_TEXT: usize = 200;

/// A log, and what it is replayed against.
pub(super) struct SimulationJob<'b> {
    pub(super) log: &'b [u8],
    /// The name of the file.
    pub(super) file: &'b str,
    pub(super) format: FormatChoice,
    /// The largest log.
    pub(super) max_log_bytes: usize,
    pub(super) policy: ChangedPolicy,
    /// The tenant that requests without one are of.
    pub(super) tenant: Option<&'b str>,
    pub(super) options: ReplayOptions,
    pub(super) budget: ReplayBudget,
}

/// A log that ends with an error when the time is over.
struct BudgetedLog<'b> {
    log: &'b [u8],
    budget: &'b ReplayBudget,
}

impl Read for BudgetedLog<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.budget.is_spent() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.log.read(buffer)
    }
}

impl SimulationJob<'_> {
    /// Reads the log and replays it under its rules, then under each algorithm.
    pub(super) fn run(self) -> Result<SimulationReport, Problem> {
        let traffic = self.load()?;
        let ChangedPolicy { document, policy } = &self.policy;
        let mut tally = Tally::new(policy, &traffic);
        let mut results = Vec::with_capacity(traffic.len());
        let doubt = replay(policy.clone(), &traffic, &self.options, |record, decision| {
            self.budget.check(results.len())?;
            if tally.exceeding > MAX_EXCEEDING {
                return Err(tollgate_simulate::Stopped);
            }
            tally.add(record, decision);
            results.push(RequestResult::of(decision));
            Ok(())
        });
        let is_too_large = tally.exceeding > MAX_EXCEEDING;
        let doubt =
            doubt.map_err(
                |tollgate_simulate::Stopped| {
                    if is_too_large { too_many_clients() } else { took_too_long() }
                },
            )?;
        let breakdown = Breakdown::new(&traffic, &tally, &results, LISTED);
        let directory = policy.directory();
        let compared = compare(
            document,
            &traffic,
            &self.options,
            &|other| other.with_directory(directory.clone()),
            &mut |replayed| self.budget.check(replayed),
        );
        let mut caveats = Vec::new();
        if let Some(tenant) = self.tenant {
            caveats.push(format!(
                "Only the rules of tenant {tenant} are replayed, without lists and exceptions; requests without a \
                 tenant count as its own."
            ));
        }
        let algorithms = compared.unwrap_or_else(|error| {
            caveats.push(match error {
                CompareError::Stopped => "The algorithms are not compared: that took too long. A shorter log can be.",
                CompareError::Policy(_) => "The algorithms are not compared: some rules are valid under one of them only.",
            }.to_owned());
            Vec::new()
        });
        if doubt.is_some() || algorithms.iter().any(|row| row.doubt.is_some()) {
            let memory = ByteSize::new(STORE_BYTES as u64);
            caveats.push(format!(
                "There are more counters than fit into {memory}: some were forgotten, and more was allowed than should be."
            ));
        }
        let course = |row: &AlgorithmFigures| refusals(&traffic, row, &tally);
        let is_in_use = |name: &str| {
            document.rules.iter().any(|rule| rule.enabled && rule.algorithm.0.name() == name)
        };
        let bad = traffic.bad_lines().first();
        Ok(SimulationReport {
            file: shortened(self.file),
            format: traffic.sources().first().map_or("", |it| it.format.name()).to_owned(),
            skipped_lines: traffic.unparsable(),
            first_skipped: bad.map(|it| format!("line {}: {}: {}", it.line, it.reason, it.excerpt)),
            from: time(tally.course.first),
            until: time(tally.course.last),
            requests: tally.requests,
            allowed: tally.allowed,
            refused: tally.refused,
            delayed: tally.delayed,
            longest_delay_ms: tally.longest_delay_ms,
            unlimited: tally.unlimited,
            clients: tally.clients.len() as u64,
            clients_refused: tally.clients_refused(),
            course: series(&breakdown.timeline),
            rules_in_force: Vec::new(),
            rules: rules(&tally, &document.rules),
            top: breakdown.clients.iter().map(|row| client(row, &tally)).collect(),
            in_shadow: in_shadow(&tally),
            algorithms: algorithms
                .iter()
                .map(|row| algorithm(row, is_in_use(row.algorithm), course(row)))
                .collect(),
            caveat: (!caveats.is_empty()).then(|| caveats.join(" ")),
        })
    }

    fn load(&self) -> Result<Traffic, Problem> {
        let max_bytes = self.max_log_bytes.saturating_mul(MEMORY_PER_LOG_BYTE);
        let options = Options { format: self.format, sort: true, max_bytes };
        let mut loader = Loader::new(options).of_tenant(self.tenant);
        let log = BudgetedLog { log: self.log, budget: &self.budget };
        loader.add(&shortened(self.file), log).map_err(|error| match error {
            InputError::Read { .. } if self.budget.is_spent() => took_too_long(),
            InputError::TooMuchMemory { line, max_bytes, .. } => {
                let max = ByteSize::new(max_bytes as u64);
                invalid_log(format!(
                    "the requests up to line {line} take more than {max} of memory: send a part of the log"
                ))
            }
            // The name of the file comes first, and is no word of a sentence.
            error => invalid_log(format!("the log cannot be used: {error}")),
        })?;
        Ok(loader.finish())
    }
}

fn invalid_log(detail: String) -> Problem {
    Problem::unprocessable("invalid_log", detail)
}

fn too_many_clients() -> Problem {
    let detail = "too many clients exceed too many rules: send a part of the log, try fewer rules, or replay it with \
                  `tollgate simulate`";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "log_too_large", detail)
}

fn took_too_long() -> Problem {
    let seconds = MAX_DURATION.as_secs();
    let detail = format!(
        "the replay took longer than {seconds} s: send a part of the log, or replay it with `tollgate simulate`"
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "replay_too_long", detail)
}

/// A text of the log, which may be long.
fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_TEXT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Requests in each column of time of the log.
fn series(timeline: &Timeline) -> RequestSeries {
    let values = |counts: &[u64]| counts.iter().map(|count| Some(*count as f64)).collect();
    let start = timeline.times().first().copied().unwrap_or(0);
    RequestSeries {
        start: time(Timestamp::from_secs(u64::try_from(start).unwrap_or(0))),
        step_seconds: timeline.step,
        allowed: values(&timeline.allowed),
        throttled: values(&timeline.throttled),
        refused: values(&timeline.refused),
        ..RequestSeries::default()
    }
}

fn rules(tally: &Tally<'_>, documents: &[RuleDocument]) -> Vec<SimulatedRule> {
    let rule = |own: &tollgate_simulate::RuleTally<'_>| {
        let document = |id: &str| documents.iter().find(|rule| rule.rule_id == id);
        let quota = match candidate_of(&own.rule_id) {
            Some(id) => document(id).and_then(RuleDocument::promoted).as_ref().map(quota_of),
            None => document(&own.rule_id).map(quota_of),
        };
        SimulatedRule {
            rule_id: own.rule_id.clone(),
            quota: quota.unwrap_or_default(),
            is_shadow: own.is_shadow,
            applied: own.applied,
            exceeded: own.exceeded,
            clients: own.clients_exceeding.len() as u64,
        }
    };
    tally.rules.iter().map(rule).collect()
}

fn client(row: &ClientRow<'_>, tally: &Tally<'_>) -> SimulatedClient {
    SimulatedClient {
        client: row.name.to_owned(),
        requests: row.requests,
        refused: row.refused,
        rule_id: row.rule().and_then(|rule| tally.rules.get(rule)).map(|it| it.rule_id.clone()),
        first_refused: row.first_refused.map(time),
        path: row.path().map(shortened),
        user_agent: row.user_agent.map(shortened),
    }
}

fn in_shadow(tally: &Tally<'_>) -> Vec<ShadowedClient> {
    let refused = tally.most_refused_in_shadow(LISTED).into_iter();
    refused
        .map(|it| ShadowedClient {
            client: it.client.to_owned(),
            rule_id: tally.rules[it.rule].rule_id.clone(),
            requests: it.requests,
            exceeded: it.exceeded,
        })
        .collect()
}

fn algorithm(row: &AlgorithmFigures, is_in_use: bool, course: Vec<f64>) -> AlgorithmRow {
    AlgorithmRow {
        algorithm: row.algorithm.to_owned(),
        is_in_use,
        allowed: row.allowed,
        refused: row.refused,
        clients_refused: row.clients_refused,
        delayed: row.delayed,
        longest_delay_ms: row.longest_delay_ms,
        unlike_log: row.unlike_log,
        course,
    }
}

/// Refusals under an algorithm over the time of the log.
fn refusals(traffic: &Traffic, row: &AlgorithmFigures, tally: &Tally<'_>) -> Vec<f64> {
    let (first, last) = (tally.course.first, tally.course.last);
    let width = last.since(first).get() / POINTS as u64 + 1;
    let mut counts = vec![0.0; POINTS];
    for (record, is_allowed) in traffic.iter().zip(&row.verdicts) {
        let column = usize::try_from(record.time().since(first).get() / width).unwrap_or(0);
        if let Some(count) = counts.get_mut(column).filter(|_| !is_allowed) {
            *count += 1.0;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::replay_budget::CancelOnDrop;
    use tollgate::Policy;
    use tollgate::rules::Source;

    fn run(budget: ReplayBudget) -> Result<SimulationReport, Problem> {
        let text = "rules: [{rule_id: a, limit: 1, window: 1m, identifier_type: ip}]";
        let source = Source::parse(text);
        let policy = Policy::compile(&source).expect("a policy");
        let line = "192.0.2.1 - - [15/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n";
        SimulationJob {
            log: line.repeat(1_000).as_bytes(),
            file: "a.log",
            format: FormatChoice::Auto,
            max_log_bytes: 1 << 20,
            policy: ChangedPolicy { document: source.document, policy },
            tenant: None,
            options: ReplayOptions { store_bytes: 1 << 20, ..ReplayOptions::default() },
            budget,
        }
        .run()
    }

    #[test]
    fn a_replay_ends_when_its_caller_leaves_or_its_time_is_over() {
        let caller = CancelOnDrop::default();
        let report = run(ReplayBudget::new(caller.flag(), MAX_DURATION)).expect("a report");
        assert_eq!((report.requests, report.refused, report.algorithms.len()), (1_000, 999, 6));
        let spent = run(ReplayBudget::new(caller.flag(), Duration::ZERO));
        assert_eq!(spent.map_err(|it| it.code()).err(), Some("replay_too_long"));
        let left = ReplayBudget::new(caller.flag(), MAX_DURATION);
        drop(caller);
        assert_eq!(run(left).map_err(|it| it.code()).err(), Some("replay_too_long"));
    }
}
