//! Records resets of counters and refunds in the log of changes: who made them, and what was left before and
//! afterwards, or what a decision got back. Neither waits for the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tollgate::http::remaining;
use tollgate::rules::{Identifier, Rule, RuleSet, candidate_of};
use tollgate::{Decision, RuleOutcome, Timestamp};
use tollgate_catalog::{Author, Catalog, Reset, ResetRecord};

use super::decision_event::RequestContext;
use super::retrying_writer::{RetryingWriter, Rows};
use super::{AuditCounts, AuditOutcomes, client_identity};
use crate::app::state::Shared;
use crate::edge::listen::Shutdown;
use crate::policy::source::PolicySource;

/// How many resets wait at most. One takes about a kilobyte, and never more than a few.
const QUEUE_CAPACITY: usize = 1_024;
/// How many resets are written together.
const MAX_TOGETHER: usize = 100;

/// Records resets in the background.
#[derive(Debug)]
pub(crate) struct Resets {
    queue: mpsc::Sender<ResetRecord>,
    /// The receiver, until `write` takes it.
    taker: Mutex<Option<mpsc::Receiver<ResetRecord>>>,
    counts: AuditCounts,
}

impl Default for Resets {
    fn default() -> Self {
        let (queue, taker) = mpsc::channel(QUEUE_CAPACITY);
        Self { queue, taker: Mutex::new(Some(taker)), counts: AuditCounts::default() }
    }
}

impl Resets {
    /// Queues resets; those that find the queue full are lost.
    pub(crate) fn note(&self, records: Vec<ResetRecord>) {
        for record in records {
            // Logged once: later losses are counted, and logged after the next write.
            if self.queue.try_send(record).is_err() && self.counts.missed.fetch_add(1, Relaxed) == 0
            {
                tracing::warn!("too many resets wait for the log: some will be missing there");
            }
        }
    }

    /// How many resets were written to the log, lost, and dropped after failures.
    pub(crate) fn outcomes(&self) -> AuditOutcomes {
        self.counts.outcomes()
    }

    /// Writes resets until shutdown, then what is left.
    pub(super) async fn write(&self, catalog: &Catalog, ending: &Shutdown) {
        let Some(mut records) = self.taker.lock().take() else { return };
        let keeper = RetryingWriter::new(catalog, &self.counts, ending);
        let (mut together, mut told) = (Vec::with_capacity(MAX_TOGETHER), 0);
        loop {
            tokio::select! {
                // What is left at shutdown is written first.
                biased;
                _ = records.recv_many(&mut together, MAX_TOGETHER) => {
                    keeper.keep(Rows::Resets(&together)).await;
                    together.clear();
                }
                () = ending.requested() => return,
            }
            let missing = self.counts.missed.load(Relaxed) + self.counts.failed.load(Relaxed);
            if missing > told {
                tracing::warn!(missing, "resets are missing in the log");
                told = missing;
            }
        }
    }
}

/// What was done to counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterChange {
    Reset,
    Refund,
}

impl CounterChange {
    /// What a record says was done: only refunds have what was refunded.
    pub(super) fn of(becomes: Option<&Value>) -> Self {
        let is_refund = becomes.is_some_and(|becomes| becomes.get("refunded").is_some());
        if is_refund { Self::Refund } else { Self::Reset }
    }

    /// The action in the log.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Refund => "refund",
        }
    }
}

/// Records a change of counters in the audit log, or in the program log where there is no catalog.
pub(crate) fn note(app: &Shared, change: CounterChange, records: Vec<ResetRecord>) {
    match &app.policy_source {
        PolicySource::Catalog(_) => app.audit_log.resets.note(records),
        PolicySource::File(_) => {
            let Some(ResetRecord { author, .. }) = records.first() else { return };
            let Author { actor, address, .. } = author;
            let rules: BTreeSet<String> = records.iter().filter_map(rule_of).collect();
            let rules = rules.into_iter().collect::<Vec<_>>().join(", ");
            match change {
                CounterChange::Reset => {
                    tracing::info!(actor, address, rules, "counters were reset");
                }
                CounterChange::Refund => {
                    tracing::info!(actor, address, rules, "charges were refunded");
                }
            }
        }
    }
}

/// The rule of a record: the name of its entry begins with it.
fn rule_of(record: &ResetRecord) -> Option<String> {
    let entry: Vec<Value> = serde_json::from_str(&record.reset.entry).ok()?;
    entry.first()?.as_str().map(str::to_owned)
}

/// What a rule got back of a decision.
#[derive(Serialize)]
struct RefundedCharge<'a> {
    rule_id: &'a str,
    decision_id: &'a str,
    refunded: u64,
}

/// The records of the refund of a decision: one for each rule that was charged, with how much.
pub(crate) fn refund_records<'c>(
    author: &Author,
    rules: &RuleSet,
    at: Timestamp,
    decision_id: &str,
    charges: impl Iterator<Item = (&'c str, u64)>,
) -> Vec<ResetRecord> {
    let record = |(rule_id, units): (&str, u64)| {
        // Text and numbers always serialise.
        let refunded = |refunded: u64| {
            let charge = RefundedCharge { rule_id, decision_id, refunded };
            serde_json::to_string(&charge).unwrap_or_default()
        };
        let reset = Reset {
            entry: serde_json::to_string(&[rule_id, "decision", decision_id]).unwrap_or_default(),
            tenant: rules.find(rule_id).and_then(|rule| rule.tenant.as_deref().map(str::to_owned)),
            was: refunded(0),
            becomes: refunded(units),
        };
        ResetRecord { at, author: author.clone(), reset }
    };
    charges.filter(|(rule_id, _)| candidate_of(rule_id).is_none()).map(record).collect()
}

/// What a client has left of a limit.
#[derive(Serialize)]
struct Left<'a> {
    rule_id: &'a str,
    identifiers: &'a BTreeMap<String, String>,
    limit: u64,
    /// `None` if the store was unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// The cost of the check that was refunded, if it was not a reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    refunded: Option<u64>,
}

/// The records of a reset, or of a refund of a check: one for each rule whose counter was changed.
pub(crate) fn records_of(
    author: &Author,
    context: &RequestContext<'_>,
    refunded: Option<u64>,
    before: &Decision,
    after: &Decision,
) -> Vec<ResetRecord> {
    let record = |outcome: RuleOutcome<'_>| {
        let rule = outcome.rule;
        let identifiers = client_identity::identifiers(context, &rule.identifiers);
        let left = |decision: &Decision, refunded: Option<u64>| {
            let told = decision.outcomes().filter(|_| decision.degraded().is_none());
            let mut own = told.filter(|it| it.rule.id == rule.id);
            let own = own.next();
            let limit = own.as_ref().unwrap_or(&outcome).outcome.limit;
            let remaining = own.map(|it| remaining(&it.outcome));
            let (rule_id, identifiers) = (&*rule.id, &identifiers);
            let left = Left { rule_id, identifiers, limit, remaining, refunded };
            // Text and numbers always serialise.
            serde_json::to_string(&left).unwrap_or_default()
        };
        let reset = Reset {
            entry: name_of(rule, &identifiers, context),
            tenant: rule.tenant.as_deref().map(str::to_owned),
            was: left(before, None),
            becomes: left(after, refunded),
        };
        ResetRecord { at: before.now(), author: author.clone(), reset }
    };
    before.outcomes().filter(|it| !it.rule.is_candidate()).map(record).collect()
}

/// The name of a counter: the rule, then each of its identifiers with the client's value.
fn name_of(
    rule: &Rule,
    identifiers: &BTreeMap<String, String>,
    context: &RequestContext<'_>,
) -> String {
    let mut parts = vec![rule.id.to_string()];
    for identifier in &rule.identifiers {
        let name = identifier.to_string();
        let value = match identifier {
            Identifier::Global => continue,
            Identifier::Endpoint | Identifier::Path => context.path(),
            _ => identifiers.get(&name).cloned(),
        };
        if value.is_none() && !context.entries.is_empty() {
            // A limit of Envoy's files counts by all entries of the descriptor.
            for (key, _) in context.entries {
                let value = identifiers.get(client_identity::shortened(key)).cloned();
                parts.extend([(*key).to_owned(), value.unwrap_or_default()]);
            }
            continue;
        }
        parts.extend([name, value.unwrap_or_default()]);
    }
    serde_json::to_string(&parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_that_find_the_queue_full_are_counted() {
        let text = String::new;
        let reset = Reset { entry: text(), tenant: None, was: text(), becomes: text() };
        let at = Timestamp::from_secs(1);
        let record = ResetRecord { at, author: Author::program("a test"), reset };
        let resets = Resets::default();
        resets.note(vec![record.clone(); QUEUE_CAPACITY]);
        assert_eq!(resets.counts.missed.load(Relaxed), 0);
        resets.note(vec![record; 3]);
        assert_eq!(resets.counts.missed.load(Relaxed), 3);
    }
}
