//! What a fault did to clients, and whether that is within the bounds.
//!
//! Two rules are measured, each for many clients, so that all servers of a cluster have some of them.
//! The limits of one are exhausted before the fault: whatever passes afterwards is beyond the limit.
//! Those of the other are never exhausted. It is charged all the time and never without the store, so
//! what the store has counted at the end can be compared with what was admitted.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Fault, Forgets};
use crate::load::{Load, Question, Sighting, Verdict};
use crate::nodes::check_of;
use tollgate_e2e::server::{PEEK, Server};
use tollgate_e2e::until;

pub(super) const NODES: usize = 2;
const CLIENTS: usize = 24;
const LIMIT: u64 = 30;
const FACTOR: u64 = 2;
const PLENTY: u64 = 1_000_000_000;

const USED_UP: &str = "used_up";
const STEADY: &str = "steady";

/// How long the load runs before the fault, to compare with.
const BEFORE: Duration = Duration::from_secs(1);
/// The default of `store_failure.deadline`, by which a campaign measures.
const DEADLINE: Duration = Duration::from_millis(50);
/// What a busy machine may add: less than any of these faults lasts.
const SLACK: Duration = Duration::from_millis(2_500);
/// The longest that a replica may lag behind.
const LAG: Duration = Duration::from_secs(1);

/// The deadline of the store. Beside other tests, a process may not be scheduled for longer than the
/// default, and a healthy store would look unavailable.
pub(super) const fn settings(is_soak: bool) -> &'static str {
    if is_soak { "{}" } else { "store_failure: {deadline: 250ms}" }
}

pub(super) fn rules() -> String {
    format!(
        "rules:
- {{rule_id: {USED_UP}, limit: {LIMIT}, window: 300d, algorithm: fixed_window, \
    identifier_type: user_id, on_store_failure: local, fallback_factor: {FACTOR}}}
- {{rule_id: {STEADY}, limit: {PLENTY}, window: 300d, algorithm: fixed_window, \
    identifier_type: user_id, on_store_failure: closed}}
"
    )
}

/// What a fault did.
pub(super) struct Row {
    store: String,
    fault: &'static str,
    answers: usize,
    /// Decisions made without the store.
    degraded: usize,
    errors: usize,
    /// How much longer than before the fault the slowest response took.
    added_latency: Duration,
    /// From the first decision without the store to the last.
    degraded_for: Duration,
    /// From the end of the fault to the last decision without the store.
    recovery: Duration,
    /// Admitted by nodes without the store, and how many may be.
    by_nodes: (u64, u64),
    /// Admitted by the store beyond the limit, and how many may be.
    by_store: (u64, u64),
    /// Charges that the store has forgotten, and how many it may forget.
    forgotten: (u64, u64),
    /// Charges a second before the fault.
    rate: f64,
    /// Bounds that were not kept.
    pub(super) broken: Vec<String>,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
        let of = |(found, most): (u64, u64)| format!("{found} of {most}");
        write!(
            f,
            "| {} | {} | {} of {} | {} | {} ms | {} | {} | {} | {} | {} at {:.0}/s | {} |",
            self.store,
            self.fault,
            self.degraded,
            self.answers,
            self.errors,
            self.added_latency.as_millis(),
            seconds(self.degraded_for),
            seconds(self.recovery),
            of(self.by_nodes),
            of(self.by_store),
            of(self.forgotten),
            self.rate,
            if self.broken.is_empty() { "yes" } else { "**no**" },
        )
    }
}

/// Causes the fault under load.
pub(super) fn measure(store: &str, nodes: &[Server], fault: &Fault<'_>) -> Row {
    let questions: Vec<Question> = [USED_UP, STEADY]
        .into_iter()
        .flat_map(|rule| (0..CLIENTS).map(move |number| (rule, number)))
        .map(|(rule, number)| Question { rule, client: format!("{store} {} {number}", fault.name) })
        .collect();
    let (mut struck, mut over) = (Duration::ZERO, Duration::ZERO);
    let seen = Load::run(nodes, &questions, |load| {
        load.until_each("a limit that is used up", Duration::ZERO, is_as_usual);
        load.wait(load.now(), BEFORE);
        struck = load.now();
        (fault.strike)(load);
        over = load.now();
        load.until_each("a limit that is used up again", over, is_as_usual);
    });
    let measured = Measured { nodes, questions: &questions, seen: &seen, struck, over };
    measured.row(store, fault)
}

/// Whether the decision is the one of a healthy store.
fn is_as_usual(question: &Question, verdict: Verdict) -> bool {
    !verdict.is_degraded && verdict.is_allowed == (question.rule == STEADY)
}

/// What clients saw of a fault.
struct Measured<'a> {
    nodes: &'a [Server],
    questions: &'a [Question],
    seen: &'a [Sighting],
    struck: Duration,
    over: Duration,
}

impl Measured<'_> {
    fn row(&self, store: &str, fault: &Fault<'_>) -> Row {
        let degraded = || self.seen.iter().filter(|one| one.is_degraded() && one.at >= self.struck);
        let first = degraded().map(Sighting::asked_at).min().unwrap_or_default();
        let last = degraded().map(|one| one.at).max().unwrap_or_default();
        let before = self.seen.iter().filter(|one| self.is_before(one));
        let rate = before.filter(|one| self.is_of(one, STEADY) && one.is_allowed()).count() as f64
            / BEFORE.as_secs_f64();
        let mut row = Row {
            store: store.to_owned(),
            fault: fault.name,
            answers: self.seen.len(),
            degraded: degraded().count(),
            errors: self.seen.iter().filter(|one| one.verdict.is_err()).count(),
            added_latency: self.added_latency(),
            degraded_for: last.saturating_sub(first),
            recovery: last.saturating_sub(self.over),
            by_nodes: self.by_nodes(),
            by_store: self.by_store(fault.forgets),
            forgotten: self.forgotten(fault.forgets, rate),
            rate,
            broken: Vec::new(),
        };
        let mut bound = |is_kept: bool, what: &str| {
            if !is_kept {
                row.broken.push(format!("{store}, {}: {what}", fault.name));
            }
        };
        bound(row.degraded > 0 || fault.is_harmless, "the fault was none");
        bound(row.errors == 0, "clients saw errors");
        bound(row.added_latency <= DEADLINE + SLACK, "clients waited longer than the deadline");
        bound(row.by_nodes.0 <= row.by_nodes.1, "nodes admitted too much");
        bound(row.by_store.0 <= row.by_store.1, "the store admitted too much");
        bound(row.forgotten.0 <= row.forgotten.1, "the store forgot too much");
        row
    }

    fn is_of(&self, sighting: &Sighting, rule: &str) -> bool {
        self.questions[sighting.question].rule == rule
    }

    fn is_before(&self, sighting: &Sighting) -> bool {
        sighting.at < self.struck && sighting.at + BEFORE >= self.struck
    }

    fn added_latency(&self) -> Duration {
        let times = |is_before: bool| {
            let seen = self.seen.iter().filter(move |one| {
                if is_before { self.is_before(one) } else { one.at >= self.struck }
            });
            let mut times: Vec<Duration> = seen.map(|one| one.took).collect();
            times.sort_unstable();
            times
        };
        let usual = times(true);
        let usual = usual.get(usual.len() / 2).copied().unwrap_or_default();
        times(false).last().copied().unwrap_or_default().saturating_sub(usual)
    }

    /// What was admitted, with the store or without, by client.
    fn admitted(&self, rule: &str, is_degraded: bool) -> BTreeMap<&str, u64> {
        let clients = self.questions.iter().filter(|question| question.rule == rule);
        let mut admitted: BTreeMap<&str, u64> =
            clients.map(|question| (&*question.client, 0)).collect();
        let seen = self.seen.iter().filter(|one| self.is_of(one, rule) && one.is_allowed());
        for sighting in seen.filter(|one| one.is_degraded() == is_degraded) {
            *admitted.entry(&self.questions[sighting.question].client).or_default() += 1;
        }
        admitted
    }

    fn by_nodes(&self) -> (u64, u64) {
        let most_each = NODES as u64 * FACTOR * LIMIT;
        (self.admitted(USED_UP, true).values().sum(), most_each * CLIENTS as u64)
    }

    /// A store that forgets everything admits one more limit for each client.
    fn by_store(&self, forgets: Forgets) -> (u64, u64) {
        let admitted = self.admitted(USED_UP, false);
        let beyond = admitted.values().map(|admitted| admitted.saturating_sub(LIMIT)).sum();
        let most_each = if forgets == Forgets::Nothing { 0 } else { LIMIT };
        (beyond, most_each * CLIENTS as u64)
    }

    /// Compares what was admitted with what the store says was used.
    fn forgotten(&self, forgets: Forgets, rate: f64) -> (u64, u64) {
        let admitted = self.admitted(STEADY, false);
        let forgotten = admitted.iter().map(|(client, admitted)| {
            let used = PLENTY - self.remaining(client);
            admitted.saturating_sub(used)
        });
        let most = match forgets {
            Forgets::Nothing => 0,
            Forgets::WhatWasOnItsWay => (rate * LAG.as_secs_f64()) as u64,
            Forgets::Everything => admitted.values().sum(),
        };
        (forgotten.sum(), most)
    }

    fn remaining(&self, client: &str) -> u64 {
        until("what is left", || {
            let answer = self.nodes[0].post(PEEK, &check_of(STEADY, client)).json();
            let left = answer["remaining"].as_u64();
            left.filter(|_| answer.get("degraded").is_none())
        })
    }
}
