//! What happened to whom, by which rule, and when: sums over all decisions of a replay.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use tollgate::rules::Rule;
use tollgate::{Decision, DecisionReason, Micros, Mode, Policy, SoftState, Timestamp};

use crate::traffic::{RecordView, Traffic};

/// How many columns the course of time is drawn in.
const COLUMNS: usize = 60;

/// Sums over one replay.
#[derive(Debug)]
pub(crate) struct Tally<'t> {
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) refused: u64,
    /// Requests no rule applied to.
    pub(crate) unlimited: u64,
    /// Requests on a list: allowed, denied.
    pub(crate) listed: (u64, u64),
    /// Requests that lacked an identifier which a rule insists on.
    pub(crate) unidentified: u64,
    /// Requests of clients that had been banned.
    pub(crate) banned: u64,
    pub(crate) warned: u64,
    pub(crate) delayed: u64,
    pub(crate) longest_delay_ms: u64,
    pub(crate) rules: Vec<RuleTally<'t>>,
    pub(crate) clients: HashMap<&'t str, ClientTally, RandomState>,
    pub(crate) course: Course,
}

/// Sums for one rule.
#[derive(Debug)]
pub(crate) struct RuleTally<'t> {
    pub(crate) rule_id: String,
    pub(crate) is_shadow: bool,
    pub(crate) applied: u64,
    pub(crate) exceeded: u64,
    pub(crate) clients_exceeding: HashSet<&'t str, RandomState>,
    /// Requests over the limit, in the columns of the course of time.
    pub(crate) exceeded_over_time: Vec<u64>,
}

impl RuleTally<'_> {
    fn new(rule: &Rule) -> Self {
        Self {
            rule_id: rule.id.to_string(),
            is_shadow: rule.mode == Mode::Shadow,
            applied: 0,
            exceeded: 0,
            clients_exceeding: HashSet::default(),
            exceeded_over_time: vec![0; COLUMNS],
        }
    }
}

/// Sums for one client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientTally {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
}

/// Requests and refusals over time, in columns of equal width.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// The width of a column in microseconds.
    pub(crate) width: u64,
    pub(crate) requests: Vec<u64>,
    pub(crate) refused: Vec<u64>,
}

impl<'t> Tally<'t> {
    /// Nothing yet: a line for every rule of the policy, also for those that will not apply.
    pub(crate) fn new(policy: &Policy, traffic: &Traffic) -> Self {
        Self {
            requests: 0,
            allowed: 0,
            refused: 0,
            unlimited: 0,
            listed: (0, 0),
            unidentified: 0,
            banned: 0,
            warned: 0,
            delayed: 0,
            longest_delay_ms: 0,
            rules: policy.rules().iter().map(RuleTally::new).collect(),
            clients: HashMap::default(),
            course: Course::new(traffic),
        }
    }

    pub(crate) fn add(&mut self, record: RecordView<'t>, decision: &Decision) {
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
            tally.applied += 1;
            if outcome.is_exceeded() {
                tally.exceeded += 1;
                tally.exceeded_over_time[column] += 1;
                tally.clients_exceeding.insert(name);
            }
        }
    }

    /// The clients refused most often, and of equals those with more requests.
    pub(crate) fn most_refused(&self, count: usize) -> Vec<(&'t str, ClientTally)> {
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

    pub(crate) fn clients_refused(&self) -> u64 {
        self.clients.values().filter(|client| client.refused > 0).count() as u64
    }
}

/// Whom a request is listed under: the most personal name it has. API keys are secrets.
pub(crate) fn client_of(record: RecordView<'_>) -> &str {
    record
        .key()
        .or_else(|| record.user())
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
