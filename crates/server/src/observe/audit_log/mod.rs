//! Processes decisions in the background: writes them to a log, and publishes events. No check waits for it.
//!
//! A handler puts a [`DecisionEvent`] into a queue, unless that is full. From there one task passes it to
//! subscribers ([`events`]), and to the writer of the log ([`writer`]), which has a separate queue: a slow database costs
//! rows of the log, and nothing else.

pub(crate) mod channel_body;
mod client_identity;
mod decision_event;
pub(crate) mod events;
mod export;
pub(crate) mod log;
pub(crate) mod resets;
mod retrying_writer;
mod shares;
pub(crate) mod tail;
mod tried;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tollgate::{Decision, Micros, Policy};
use tollgate_catalog::Catalog;

pub(crate) use self::client_identity::{is_secret_name, recorded, shortened};
use self::decision_event::DecisionEvent;
pub(crate) use self::decision_event::{RequestContext, would_refuse_by};
use self::events::Events;
use self::export::Exports;
use self::resets::Resets;
use self::shares::WriteShares;
use self::tail::Tail;
use self::tried::TriedRequests;
use self::writer::AuditWriter;
use crate::app::state::Shared;
use crate::check::decision_id::IdText;
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::edge::listen::Shutdown;
use crate::policy::source::PolicySource;
use crate::settings::{Audit, Settings};

/// How many notes wait at most, in each of the two queues. A note takes a few hundred bytes, and never
/// more than a few thousand.
const QUEUE_CAPACITY: usize = 8_192;
/// How many notes are taken from the queue at a time.
const BATCH_CAPACITY: usize = 256;
/// Its multiples are spread evenly over all numbers of 64 bits.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
/// How often old records are removed, how many in one transaction, and in how many transactions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
const SWEPT_AT_ONCE: u64 = 500;
const MOVED_AT_ONCE: usize = 500;
const SWEEPS: u64 = 10;

/// Records decisions in the background.
#[derive(Debug)]
pub(crate) struct AuditLog {
    settings: Audit,
    notes: mpsc::Sender<Box<DecisionEvent>>,
    /// The receiver, until `keep_records` takes it.
    taker: Mutex<Option<mpsc::Receiver<Box<DecisionEvent>>>>,
    /// The number of allowed requests, if a sample of them is recorded.
    allowed: AtomicU64,
    /// A request is in the sample if its hash is below this number.
    chosen_below: u64,
    counts: AuditCounts,
    shares: Mutex<WriteShares>,
    pub(crate) events: Events,
    pub(crate) tail: Tail,
    pub(crate) tried: TriedRequests,
    pub(crate) exports: Exports,
    pub(crate) resets: Resets,
}

/// How many notes were written, lost, and dropped after failures, each with its name in metrics.
pub(crate) type AuditOutcomes = [(&'static str, u64); 3];

/// Counts of notes by outcome.
#[derive(Debug, Default)]
struct AuditCounts {
    /// Lost because the queue was full.
    missed: AtomicU64,
    /// Not written: the queue of the writer was full, or the client or tenant has used up its share.
    unwritten: AtomicU64,
    written: AtomicU64,
    failed: AtomicU64,
}

impl AuditCounts {
    fn outcomes(&self) -> AuditOutcomes {
        let Self { missed, unwritten, written, failed } = self;
        [
            ("written", written.load(Relaxed)),
            ("lost", missed.load(Relaxed) + unwritten.load(Relaxed)),
            ("failed", failed.load(Relaxed)),
        ]
    }
}

impl AuditLog {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (notes, taker) = mpsc::channel(QUEUE_CAPACITY);
        Self {
            settings: settings.audit,
            notes,
            taker: Mutex::new(Some(taker)),
            // Not 0, which would always be in the sample.
            allowed: AtomicU64::new(1),
            chosen_below: end_of(settings.audit.sample_allowed),
            counts: AuditCounts::default(),
            shares: Mutex::new(WriteShares::new(settings.audit.rows_per_second)),
            events: Events::new(settings.limits.idle_timeout),
            tail: Tail::default(),
            tried: TriedRequests::default(),
            exports: Exports::default(),
            resets: Resets::default(),
        }
    }

    /// Whether a decision is recorded: if it was not simply allowed, or if it is in the sample.
    #[inline]
    pub(crate) fn wants(&self, decision: &Decision) -> bool {
        !decision.is_allowed()
            || is_held(decision)
            || decision.would_refuse().is_some()
            || self.is_chosen()
    }

    #[inline]
    fn is_chosen(&self) -> bool {
        self.chosen_below > 0 && is_below(self.chosen_below, self.allowed.fetch_add(1, Relaxed))
    }

    /// Records a decision that is [wanted](Self::wants), unless the queue is full. Peeks are not
    /// recorded.
    pub(crate) fn note(&self, decision: &Decision, id: IdText, context: &RequestContext<'_>) {
        if context.request.cost() == 0 {
            return;
        }
        // The place is reserved first, so that a flood costs no memory.
        match self.notes.try_reserve() {
            Ok(place) => place.send(Box::new(DecisionEvent::new(decision, id, context))),
            Err(_) => drop(self.counts.missed.fetch_add(1, Relaxed)),
        }
    }

    /// How many decisions were written to the log, lost, and dropped after failures.
    pub(crate) fn outcomes(&self) -> AuditOutcomes {
        self.counts.outcomes()
    }

    /// Passes a note to the subscribers and the log.
    fn take(
        &self,
        app: &Shared,
        note: Box<DecisionEvent>,
        log: Option<&mpsc::Sender<Box<DecisionEvent>>>,
    ) {
        self.events.publish("decision", note.tenant.as_deref(), |tenant| {
            app.without_foreign_rules(note.to_entry(), tenant)
        });
        self.tail.keep(app.now(), || note.to_entry());
        let Some(log) = log else { return };
        let has_share = self.shares.lock().take(&note.client, note.tenant.as_deref(), app.now());
        if !has_share || log.try_send(note).is_err() {
            self.counts.unwritten.fetch_add(1, Relaxed);
        }
    }
}

/// The end of a share of all numbers of 64 bits.
fn end_of(share: f64) -> u64 {
    (share * u64::MAX as f64) as u64
}

/// Whether a request is in the sample, by its number. Any sequence of requests has about the share.
#[inline]
const fn is_below(end: u64, number: u64) -> bool {
    number.wrapping_mul(GOLDEN_RATIO) < end
}

/// Whether a request has to wait before it passes.
#[inline]
fn is_held(decision: &Decision) -> bool {
    decision.delay().is_some_and(|delay| delay > Micros::ZERO)
}

impl Shared {
    /// Publishes the new revision to subscribers.
    pub(crate) fn tell_revision(&self, policy: &Policy) {
        self.audit_log.events.publish("revision", None, |_| {
            let at = rfc_3339_exact(self.now());
            json!({"revision": policy.revision().number, "at": at, "rules": policy.rules().len()})
        });
    }

    /// Processes notes until shutdown, then what is left. Removes old records of both logs, where there
    /// are logs.
    pub(crate) async fn keep_records(&self, ending: &Shutdown) {
        let Some(mut notes) = self.audit_log.taker.lock().take() else { return };
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else {
            return self.take_notes(&mut notes, None, ending).await;
        };
        let (log, to_write) = mpsc::channel(QUEUE_CAPACITY);
        let audit = &self.audit_log;
        let taking = async {
            // The sender is dropped when this ends, which ends the log.
            let log = Some(log).filter(|_| audit.settings.decisions);
            self.take_notes(&mut notes, log.as_ref(), ending).await;
        };
        let writer = AuditWriter::new(&catalog_sync.catalog, &audit.counts, audit.settings, ending);
        let sweeping = async {
            tokio::select! {
                () = self.sweep_records(&catalog_sync.catalog) => {}
                () = ending.requested() => {}
            }
        };
        let resetting = audit.resets.write(&catalog_sync.catalog, ending);
        tokio::join!(taking, writer.write(to_write), resetting, sweeping);
    }

    async fn take_notes(
        &self,
        notes: &mut mpsc::Receiver<Box<DecisionEvent>>,
        log: Option<&mpsc::Sender<Box<DecisionEvent>>>,
        ending: &Shutdown,
    ) {
        let mut handful = Vec::with_capacity(BATCH_CAPACITY);
        loop {
            tokio::select! {
                // What is left at shutdown is taken first.
                biased;
                _ = notes.recv_many(&mut handful, BATCH_CAPACITY) => {
                    for note in handful.drain(..) {
                        self.audit_log.take(self, note, log);
                    }
                }
                () = ending.requested() => return,
            }
        }
    }

    /// Removes old decisions and changes, a few at a time, so that writers never wait long.
    async fn sweep_records(&self, catalog: &Catalog) {
        let Audit { keep_days, max_bytes, .. } = self.audit_log.settings;
        let kept_for = Micros::from_secs(keep_days * 24 * 60 * 60);
        loop {
            sleep(SWEEP_INTERVAL).await;
            let now = self.now();
            // Moves decisions that an earlier version logged in another table.
            for _ in 0..SWEEPS {
                let max_bytes = max_bytes.bytes();
                let moved = catalog.move_earlier_decisions(MOVED_AT_ONCE, max_bytes).await;
                if !moved.is_ok_and(|count| count > 0) {
                    break;
                }
            }
            for _ in 0..SWEEPS {
                let forgotten = catalog.forget_decisions(now.minus(kept_for), SWEPT_AT_ONCE).await;
                if !forgotten.is_ok_and(|count| count >= SWEPT_AT_ONCE) {
                    break;
                }
            }
            // `CatalogSync` logs an unavailable catalog; the next sweep retries.
            let _ = catalog.forget_audit(now, kept_for).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// Any sequence of requests has its share, so periodic requests cannot avoid the sample.
        #[test]
        fn every_sequence_of_requests_has_its_share(
            share in 0.0..=1.0_f64, first in 0..u64::MAX / 2, length in 1_u64..5_000,
        ) {
            let end = end_of(share);
            let chosen = (first..first + length).filter(|number| is_below(end, *number)).count();
            let expected = share * length as f64;
            prop_assert!((chosen as f64 - expected).abs() < 8.0, "{chosen} of {length}, not {expected}");
        }
    }

    #[test]
    fn a_share_of_one_has_all_requests_and_of_zero_none() {
        assert!((1..100_000).all(|number| is_below(end_of(1.0), number)));
        assert!(!(0..100_000).any(|number| is_below(end_of(0.0), number)));
    }
}
