//! A second pass over the traffic, with the result of each request known: over time, by client, by endpoint.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::{Decision, DecisionReason, Timestamp};

use crate::outcome::Outcome;
use crate::recommend::endpoint_of;
use crate::tally::{Tally, client_of};
use crate::traffic::{RecordView, Traffic};

/// Most columns of the course of time.
const MAX_COLUMNS: u64 = 120;
/// Columns of the small charts of clients.
const CLIENT_COLUMNS: usize = 40;
/// Most paths of one client that are counted.
const MAX_PATHS_OF_CLIENT: usize = 1_000;
/// Lengths of a column in seconds.
const STEPS: [u64; 22] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    86_400, 172_800, 604_800, 2_592_000, 31_536_000,
];

/// Requests by their outcome, in columns of a round length.
#[derive(Debug)]
pub struct Timeline {
    /// Seconds since the epoch at which the first column begins.
    first: u64,
    /// Seconds that a column lasts.
    pub step: u64,
    /// Requests of each column that passed at once.
    pub allowed: Vec<u64>,
    /// Requests of each column that passed after a delay.
    pub throttled: Vec<u64>,
    /// Requests of each column that did not pass.
    pub refused: Vec<u64>,
}

impl Timeline {
    fn new(first: Timestamp, last: Timestamp) -> Self {
        let (first, last) = (first.as_micros() / 1_000_000, last.as_micros() / 1_000_000);
        let columns = |step: u64| last / step - first / step + 1;
        let fits = |step: &u64| columns(*step) <= MAX_COLUMNS;
        let step = STEPS.into_iter().find(fits).unwrap_or((last - first) / (MAX_COLUMNS - 1) + 1);
        let length = usize::try_from(columns(step)).unwrap_or(0);
        let empty = vec![0; length];
        let first = first / step * step;
        Self { first, step, allowed: empty.clone(), throttled: empty.clone(), refused: empty }
    }

    /// The column of a time.
    #[must_use]
    pub fn column(&self, time: Timestamp) -> usize {
        let second = time.as_micros() / 1_000_000;
        usize::try_from(second.saturating_sub(self.first) / self.step).unwrap_or(0)
    }

    fn add(&mut self, time: Timestamp, outcome: Outcome) {
        let column = self.column(time);
        let row = match outcome {
            Outcome::Allowed => &mut self.allowed,
            Outcome::Throttled => &mut self.throttled,
            Outcome::Refused => &mut self.refused,
        };
        if let Some(count) = row.get_mut(column) {
            *count += 1;
        }
    }

    /// When each column begins, in seconds since the epoch.
    #[must_use]
    pub fn times(&self) -> Vec<i64> {
        let begin = |column: u64| self.first.saturating_add(column * self.step);
        let columns = 0..self.allowed.len() as u64;
        columns.map(|column| i64::try_from(begin(column)).unwrap_or(i64::MAX)).collect()
    }

    /// All requests of a column.
    #[must_use]
    pub fn requests(&self) -> Vec<u64> {
        let sum = |i: usize| self.allowed[i] + self.throttled[i] + self.refused[i];
        (0..self.allowed.len()).map(sum).collect()
    }
}

/// The outcome of one request, and by which rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// The outcome.
    pub outcome: Outcome,
    /// The place of the rule that refused, in the order of the policy.
    rule: u16,
}

impl RequestResult {
    /// Stands for no rule. Rules beyond it are not told apart.
    const NO_RULE: u16 = u16::MAX;

    /// The result of a decision.
    #[must_use]
    pub fn of(decision: &Decision) -> Self {
        let outcome = Outcome::of(decision);
        let rule = match decision.reason() {
            DecisionReason::MissingIdentifier { rule } | DecisionReason::Banned { rule, .. } => {
                Some(*rule)
            }
            _ => decision.binding().map(|binding| binding.outcome.rule),
        };
        let rule = rule.filter(|_| outcome == Outcome::Refused);
        let rule = rule.and_then(|rule| u16::try_from(rule).ok());
        Self { outcome, rule: rule.unwrap_or(Self::NO_RULE) }
    }

    /// The place of the rule that refused, in the order of the policy.
    #[must_use]
    pub fn rule(self) -> Option<usize> {
        (self.rule != Self::NO_RULE).then_some(usize::from(self.rule))
    }
}

/// One of the clients refused most often.
#[derive(Debug)]
pub struct ClientRow<'t> {
    /// Its name.
    pub name: &'t str,
    /// The first refusal.
    pub first_refused: Option<Timestamp>,
    /// Refusals by rule, by its place in the policy.
    rules: HashMap<usize, u64, RandomState>,
    /// Its requests.
    pub requests: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Refusals over time.
    pub over_time: Vec<u64>,
    /// Refusals by path.
    paths: HashMap<&'t str, u64, RandomState>,
    /// The last user agent that was refused.
    pub user_agent: Option<&'t str>,
}

impl<'t> ClientRow<'t> {
    /// The place of the rule that refused most often, in the order of the policy.
    #[must_use]
    pub fn rule(&self) -> Option<usize> {
        let most = self.rules.iter().max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
        most.map(|(rule, _)| *rule)
    }

    /// The path refused most often.
    #[must_use]
    pub fn path(&self) -> Option<&'t str> {
        let most = self.paths.iter().max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
        most.map(|(path, _)| *path)
    }
}

/// Requests of one endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointRow {
    /// Its pattern, like `/users/{id}`.
    pub endpoint: String,
    /// Its requests.
    pub requests: u64,
    /// Those that were refused.
    pub refused: u64,
}

/// Requests over time, by client and by endpoint.
#[derive(Debug)]
pub struct Breakdown<'t> {
    /// Requests over time.
    pub timeline: Timeline,
    /// The clients refused most often.
    pub clients: Vec<ClientRow<'t>>,
    /// The endpoints refused most often.
    pub endpoints: Vec<EndpointRow>,
}

impl<'t> Breakdown<'t> {
    /// Goes through traffic whose outcomes are known, one result for each request, and lists up to `top` of each.
    #[must_use]
    pub fn new(
        traffic: &'t Traffic,
        tally: &Tally<'t>,
        results: &[RequestResult],
        top: usize,
    ) -> Self {
        let (first, last) = (tally.course.first, tally.course.last);
        let mut timeline = Timeline::new(first, last);
        let mut clients: Vec<ClientRow<'t>> = tally
            .most_refused(top)
            .into_iter()
            .map(|(name, client)| ClientRow {
                name,
                first_refused: None,
                rules: HashMap::default(),
                requests: client.requests,
                refused: client.refused,
                over_time: vec![0; CLIENT_COLUMNS],
                paths: HashMap::default(),
                user_agent: None,
            })
            .collect();
        let places: HashMap<&str, usize, RandomState> =
            clients.iter().enumerate().map(|(i, client)| (client.name, i)).collect();
        let width = last.since(first).get() / CLIENT_COLUMNS as u64 + 1;
        let column = |record: RecordView<'t>| {
            let column = record.time().since(first).get() / width;
            usize::try_from(column).unwrap_or(0).min(CLIENT_COLUMNS - 1)
        };
        // Requests and refusals of each path.
        let mut paths: HashMap<&'t str, (u64, u64), RandomState> = HashMap::default();
        for (record, result) in traffic.iter().zip(results) {
            timeline.add(record.time(), result.outcome);
            let is_refused = result.outcome == Outcome::Refused;
            if let Some(path) = record.path() {
                let (requests, refused) = paths.entry(path).or_default();
                *requests += 1;
                *refused += u64::from(is_refused);
            }
            let place = places.get(client_of(record)).filter(|_| is_refused);
            let Some(client) = place.and_then(|place| clients.get_mut(*place)) else { continue };
            client.over_time[column(record)] += 1;
            client.first_refused = client.first_refused.or(Some(record.time()));
            if let Some(rule) = result.rule() {
                *client.rules.entry(rule).or_default() += 1;
            }
            client.user_agent = record.header("user-agent").or(client.user_agent);
            if let Some(path) = record.path()
                && (client.paths.len() < MAX_PATHS_OF_CLIENT || client.paths.contains_key(path))
            {
                *client.paths.entry(path).or_default() += 1;
            }
        }
        Self { timeline, clients, endpoints: endpoints(paths, top) }
    }
}

fn endpoints(paths: HashMap<&str, (u64, u64), RandomState>, top: usize) -> Vec<EndpointRow> {
    let mut endpoints: HashMap<String, EndpointRow, RandomState> = HashMap::default();
    for (path, (requests, refused)) in paths {
        let endpoint = endpoint_of(path);
        let row = endpoints.entry(endpoint.clone()).or_default();
        row.endpoint = endpoint;
        row.requests += requests;
        row.refused += refused;
    }
    let mut endpoints: Vec<EndpointRow> =
        endpoints.into_values().filter(|row| row.refused > 0).collect();
    endpoints.sort_unstable_by(|a, b| {
        let by_count = (b.refused, b.requests).cmp(&(a.refused, a.requests));
        by_count.then_with(|| a.endpoint.cmp(&b.endpoint))
    });
    endpoints.truncate(top);
    endpoints
}
