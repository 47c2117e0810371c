//! What happened to whom, by which rule, and when: sums over all decisions of a replay.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use tollgate::rules::Rule;
use tollgate::{Decision, DecisionReason, Micros, Mode, Policy, SoftState, Timestamp};

use crate::traffic::{RecordView, Traffic};

/// How many columns the course of time is drawn in.
const COLUMNS: usize = 60;

/// Sums over one replay.
#[derive(Debug)]
pub struct Tally<'t> {
    /// All requests.
    pub requests: u64,
    /// Those that passed, delayed ones included.
    pub allowed: u64,
    /// Those that did not pass.
    pub refused: u64,
    /// Requests no rule applied to.
    pub unlimited: u64,
    /// Requests on a list: allowed, denied.
    pub listed: (u64, u64),
    /// Requests that lacked an identifier which a rule insists on.
    pub unidentified: u64,
    /// Requests of clients that had been banned.
    pub banned: u64,
    /// Requests that passed while their client was close to a limit.
    pub warned: u64,
    /// The sum over all rules of the clients over their limits: what a tally takes in memory.
    pub exceeding: usize,
    /// Requests that passed after a delay.
    pub delayed: u64,
    /// The longest delay.
    pub longest_delay_ms: u64,
    /// Sums for each rule, in the order of the policy.
    pub rules: Vec<RuleTally<'t>>,
    /// Sums for each client, by its name.
    pub clients: HashMap<&'t str, ClientTally, RandomState>,
    /// Requests and refusals over time.
    pub course: Course,
}

/// Sums for one rule.
#[derive(Debug)]
pub struct RuleTally<'t> {
    /// The rule.
    pub rule_id: String,
    /// Whether it only counts and reports.
    pub is_shadow: bool,
    /// Requests it applied to.
    pub applied: u64,
    /// Requests over its limit.
    pub exceeded: u64,
    /// Clients with a request over its limit, and how many such requests each had.
    pub clients_exceeding: HashMap<&'t str, u64, RandomState>,
    /// Requests over the limit, in the columns of the course of time.
    pub exceeded_over_time: Vec<u64>,
}

impl RuleTally<'_> {
    fn new(rule: &Rule) -> Self {
        Self {
            rule_id: rule.id.to_string(),
            is_shadow: rule.mode == Mode::Shadow,
            applied: 0,
            exceeded: 0,
            clients_exceeding: HashMap::default(),
            exceeded_over_time: vec![0; COLUMNS],
        }
    }
}

/// Sums for one client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientTally {
    /// Its requests.
    pub requests: u64,
    /// Those that were refused.
    pub refused: u64,
}

/// A client over the limit of a rule that refuses nothing: a shadow rule or a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowRefusals<'t> {
    /// The client.
    pub client: &'t str,
    /// The place of the rule, in the order of the policy.
    pub rule: usize,
    /// All requests of the client.
    pub requests: u64,
    /// Those over the limit of the rule.
    pub exceeded: u64,
}

/// Requests and refusals over time, in columns of equal width.
#[derive(Debug)]
pub struct Course {
    /// The first request.
    pub first: Timestamp,
    /// The last request.
    pub last: Timestamp,
    /// The width of a column in microseconds.
    pub width: u64,
    /// Requests of each column.
    pub requests: Vec<u64>,
    /// Refusals of each column.
    pub refused: Vec<u64>,
}

impl<'t> Tally<'t> {
    /// Nothing yet: a line for every rule of the policy, also for those that will not apply.
    #[must_use]
    pub fn new(policy: &Policy, traffic: &Traffic) -> Self {
        Self {
            requests: 0,
            allowed: 0,
            refused: 0,
            unlimited: 0,
            listed: (0, 0),
            unidentified: 0,
            banned: 0,
            warned: 0,
            exceeding: 0,
            delayed: 0,
            longest_delay_ms: 0,
            rules: policy.rules().iter().map(RuleTally::new).collect(),
            clients: HashMap::default(),
            course: Course::new(traffic),
        }
    }

    /// Adds a request and the decision about it.
    pub fn add(&mut self, record: RecordView<'t>, decision: &Decision) {
        let is_allowed = decision.is_allowed();
        self.requests += 1;
        *if is_allowed { &mut self.allowed } else { &mut self.refused } += 1;
        match decision.reason() {
            DecisionReason::NoRule => self.unlimited += 1,
            DecisionReason::AllowListed { .. } => self.listed.0 += 1,
            DecisionReason::DenyListed { .. } => self.listed.1 += 1,
            DecisionReason::MissingIdentifier { .. } => self.unidentified += 1,
            DecisionReason::Banned { .. } => self.banned += 1,
            DecisionReason::Rules | DecisionReason::StoreUnavailable { .. } => {}
        }
        self.warned += u64::from(decision.state() == SoftState::Warning && is_allowed);
        let delay = decision.delay().map_or(0, Micros::as_millis_ceil);
        self.delayed += u64::from(delay > 0);
        self.longest_delay_ms = self.longest_delay_ms.max(delay);

        let name = client_of(record);
        let client = self.clients.entry(name).or_default();
        client.requests += 1;
        client.refused += u64::from(!is_allowed);
        let column = self.course.column(record.time());
        self.course.add(column, !is_allowed);

        for outcome in decision.outcomes() {
            let Some(tally) = self.rules.get_mut(outcome.outcome.rule) else { continue };
            // A candidate is for what would be refused besides.
            if outcome.rule.is_candidate() && !is_allowed {
                continue;
            }
            tally.applied += 1;
            if outcome.is_exceeded() {
                tally.exceeded += 1;
                tally.exceeded_over_time[column] += 1;
                let exceeded = tally.clients_exceeding.entry(name).or_default();
                self.exceeding += usize::from(*exceeded == 0);
                *exceeded += 1;
            }
        }
    }

    /// The clients refused most often, and of equals those with more requests.
    #[must_use]
    pub fn most_refused(&self, count: usize) -> Vec<(&'t str, ClientTally)> {
        let mut refused: Vec<(&'t str, ClientTally)> = self
            .clients
            .iter()
            .filter(|(_, client)| client.refused > 0)
            .map(|(name, client)| (*name, *client))
            .collect();
        refused.sort_unstable_by(|(a_name, a), (b_name, b)| {
            let by_count = (b.refused, b.requests).cmp(&(a.refused, a.requests));
            by_count.then_with(|| a_name.cmp(b_name))
        });
        refused.truncate(count);
        refused
    }

    /// The clients that shadow rules and candidates would have refused most often, once for each such rule.
    #[must_use]
    pub fn most_refused_in_shadow(&self, count: usize) -> Vec<ShadowRefusals<'t>> {
        let shadow_rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.is_shadow);
        let mut refused: Vec<ShadowRefusals<'t>> = shadow_rules
            .flat_map(|(place, rule)| {
                rule.clients_exceeding.iter().map(move |(client, exceeded)| ShadowRefusals {
                    client,
                    rule: place,
                    requests: self.clients.get(client).map_or(0, |it| it.requests),
                    exceeded: *exceeded,
                })
            })
            .collect();
        refused.sort_unstable_by_key(|it| (Reverse(it.exceeded), it.client, it.rule));
        refused.truncate(count);
        refused
    }

    /// How many clients had a request refused.
    #[must_use]
    pub fn clients_refused(&self) -> u64 {
        self.clients.values().filter(|client| client.refused > 0).count() as u64
    }
}

/// What digests of API keys begin with.
const DIGEST: &str = "sha256:";

/// Whom a request is listed under: the most personal name it has. API keys are secrets, their digests are not.
#[must_use]
pub fn client_of(record: RecordView<'_>) -> &str {
    record
        .key()
        .or_else(|| record.user())
        .or_else(|| record.api_key().filter(|key| key.starts_with(DIGEST)))
        .or_else(|| record.ip())
        .or_else(|| record.tenant())
        .unwrap_or("(unknown)")
}

impl Course {
    fn new(traffic: &Traffic) -> Self {
        let times = || traffic.iter().map(RecordView::time);
        let first = times().min().unwrap_or_default();
        let last = times().max().unwrap_or_default();
        // A column more than fits, so that the last moment lies within.
        let width = last.since(first).get() / COLUMNS as u64 + 1;
        Self { first, last, width, requests: vec![0; COLUMNS], refused: vec![0; COLUMNS] }
    }

    /// The column of a time.
    fn column(&self, time: Timestamp) -> usize {
        let column = usize::try_from(time.since(self.first).get() / self.width).unwrap_or(0);
        column.min(COLUMNS - 1)
    }

    fn add(&mut self, column: usize, is_refused: bool) {
        self.requests[column] += 1;
        self.refused[column] += u64::from(is_refused);
    }
}
