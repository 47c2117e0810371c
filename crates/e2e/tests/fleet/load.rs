//! Clients that keep sending checks, and all responses. Figures of an outage are computed from them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tollgate::Stopwatch;

use crate::nodes::check_of;
use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::server::{CHECK, JSON, Server};
use tollgate_e2e::{beside, until};

/// How long a client waits between two checks.
const REST: Duration = Duration::from_millis(1);
/// How many equal responses in a row count as a stable state.
const ENOUGH: usize = 3;

/// A check that is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) rule: &'static str,
    pub(crate) client: String,
}

/// The decision that a client got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) is_allowed: bool,
    /// Decided without the store.
    pub(crate) is_degraded: bool,
    /// Refused because the store was unavailable.
    pub(crate) is_closed: bool,
}

/// One check, and its response.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    /// When the response came, since the load began.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) node: usize,
    /// The index of the check.
    pub(crate) question: usize,
    /// An error is any response that is not a decision.
    pub(crate) verdict: Result<Verdict, String>,
}

impl Sighting {
    pub(crate) fn asked_at(&self) -> Duration {
        self.at.saturating_sub(self.took)
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.verdict.as_ref().is_ok_and(|verdict| verdict.is_degraded)
    }

    pub(crate) fn is_allowed(&self) -> bool {
        self.verdict.as_ref().is_ok_and(|verdict| verdict.is_allowed)
    }
}

/// Clients at work.
pub(crate) struct Load<'a> {
    nodes: &'a [Server],
    questions: &'a [Question],
    stopwatch: Stopwatch,
    seen: Mutex<Vec<Sighting>>,
}

impl<'a> Load<'a> {
    /// Runs clients while `act` runs: for each rule one client of each node, over one connection that
    /// stays open. Returns what they saw.
    pub(crate) fn run(
        nodes: &'a [Server],
        questions: &'a [Question],
        act: impl FnOnce(&Self),
    ) -> Vec<Sighting> {
        let load = Self { nodes, questions, stopwatch: Stopwatch::start(), seen: Mutex::default() };
        let mut by_rule: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, question) in questions.iter().enumerate() {
            by_rule.entry(question.rule).or_default().push(place);
        }
        let by_rule: Vec<Vec<usize>> = by_rule.into_values().collect();
        let next = AtomicUsize::new(0);
        let ask = |is_over: &AtomicBool| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            load.ask(number % nodes.len(), &by_rule[number / nodes.len()], is_over);
        };
        beside(nodes.len() * by_rule.len(), ask, || act(&load));
        load.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it has been going on.
    pub(crate) fn now(&self) -> Duration {
        self.stopwatch.elapsed()
    }

    /// Waits until so much time has passed since then.
    pub(crate) fn wait(&self, since: Duration, time: Duration) {
        until("some time to pass", || (self.now() >= since + time).then_some(()));
    }

    /// Waits until every client of every node has got the expected decision on each of its checks, a few
    /// times in a row. Only checks sent since then count. Not all have to get it at the same time: of
    /// hundreds of responses, a busy machine always delays one.
    pub(crate) fn until_each(
        &self,
        what: &str,
        since: Duration,
        is_so: impl Fn(&Question, Verdict) -> bool,
    ) {
        until(what, || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let pairs = self.nodes.len() * self.questions.len();
            let (mut in_a_row, mut is_done) = (vec![0; pairs], vec![false; pairs]);
            let recent = seen.iter().rev().take_while(|sighting| sighting.at >= since);
            let recent: Vec<&Sighting> = recent.filter(|one| one.asked_at() >= since).collect();
            for sighting in recent.into_iter().rev() {
                let is_so = sighting
                    .verdict
                    .as_ref()
                    .is_ok_and(|verdict| is_so(&self.questions[sighting.question], *verdict));
                let pair = sighting.node * self.questions.len() + sighting.question;
                in_a_row[pair] = if is_so { in_a_row[pair] + 1 } else { 0 };
                is_done[pair] |= in_a_row[pair] >= ENOUGH;
            }
            is_done.iter().all(|is_done| *is_done).then_some(())
        });
    }

    /// One client.
    fn ask(&self, node: usize, questions: &[usize], is_over: &AtomicBool) {
        let address = self.nodes[node].address;
        let requests: Vec<(usize, Vec<u8>)> = questions
            .iter()
            .map(|place| {
                let Question { rule, client } = &self.questions[*place];
                (*place, request("POST", CHECK, &[JSON], check_of(rule, client).as_bytes()))
            })
            .collect();
        let mut connection = Connection::open(address);
        for (question, request) in requests.iter().cycle() {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let began = self.now();
            let answer = connection.send(request).and_then(|()| connection.answer());
            let at = self.now();
            let verdict =
                answer.map_err(|error| error.to_string()).and_then(|answer| read(&answer));
            if verdict.is_err() {
                connection = Connection::open(address);
            }
            let (took, question) = (at.saturating_sub(began), *question);
            let sighting = Sighting { at, took, node, question, verdict };
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(sighting);
            thread::sleep(REST);
        }
    }
}

fn read(answer: &Answer) -> Result<Verdict, String> {
    if answer.status != 200 {
        return Err(format!("{answer:?}"));
    }
    let told = answer.json();
    Ok(Verdict {
        is_allowed: told["allowed"] == true,
        is_degraded: told.get("degraded").is_some(),
        is_closed: told["reason"] == "store_unavailable",
    })
}
