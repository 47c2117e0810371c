//! What becomes of decisions once they are answered: kept in a log, counted, and told to whoever
//! listens. Nobody who asks whether a request may pass waits for any of it.
//!
//! A handler leaves a [`Note`] in a queue, if there is room. From there one task takes it to the heavy
//! hitters ([`top`]), to subscribers ([`events`]), and to whoever writes the log ([`writer`]), which has
//! a queue of its own: a slow database costs rows of the log, and nothing else.

pub(crate) mod events;
mod export;
mod keeper;
pub(crate) mod log;
mod note;
mod pieces;
pub(crate) mod resets;
mod shares;
pub(crate) mod top;
mod who;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tollgate::{Decision, Micros, Policy};
use tollgate_catalog::Catalog;

use self::events::Events;
use self::export::Exports;
use self::note::Note;
pub(crate) use self::note::RequestContext;
use self::resets::Resets;
use self::shares::Shares;
use self::top::Top;
pub(crate) use self::who::shortened;
use self::writer::Writer;
use crate::app::state::Shared;
use crate::check::journal::IdText;
use crate::edge::http::wire::time::rfc_3339_exact;
use crate::edge::listen::Shutdown;
use crate::policy::source::PolicySource;
use crate::settings::{Audit, Settings};

/// How many notes wait at most, for each of the two who take them. A note takes a few hundred bytes,
/// and never more than some thousand.
const ROOM: usize = 8_192;
/// How many notes are taken at a time.
const HANDFUL: usize = 256;
/// Its multiples are spread evenly over all numbers of 64 bits.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
/// How often old records are looked for, how many go at once, and how often in a row.
const SWEEP: Duration = Duration::from_secs(2);
const SWEPT_AT_ONCE: u64 = 500;
const MOVED_AT_ONCE: usize = 500;
const SWEEPS: u64 = 10;

/// Takes note of decisions.
#[derive(Debug)]
pub(crate) struct AuditLog {
    settings: Audit,
    notes: mpsc::Sender<Box<Note>>,
    /// Waits for whoever takes the notes.
    taker: Mutex<Option<mpsc::Receiver<Box<Note>>>>,
    /// Allowed requests, as far as some of them are chosen.
    allowed: AtomicU64,
    /// Of the numbers of 64 bits, those below this one are chosen.
    chosen_below: u64,
    counts: Counts,
    top: Mutex<Top>,
    shares: Mutex<Shares>,
    pub(crate) events: Events,
    pub(crate) exports: Exports,
    pub(crate) resets: Resets,
}

/// How many notes were written, lost, and given up, each with its name in metrics.
pub(crate) type Outcomes = [(&'static str, u64); 3];

/// What became of notes so far.
#[derive(Debug, Default)]
struct Counts {
    /// There was no room for them at all.
    missed: AtomicU64,
    /// They were not written: too many waited, or their client or tenant has written its share.
    unwritten: AtomicU64,
    written: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn outcomes(&self) -> Outcomes {
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
        let (notes, taker) = mpsc::channel(ROOM);
        Self {
            settings: settings.audit,
            notes,
            taker: Mutex::new(Some(taker)),
            // Not 0, the multiples of which are no matter of chance.
            allowed: AtomicU64::new(1),
            chosen_below: end_of(settings.audit.sample_allowed),
            counts: Counts::default(),
            top: Mutex::default(),
            shares: Mutex::new(Shares::new(settings.audit.rows_per_second)),
            events: Events::new(settings.limits.idle_timeout),
            exports: Exports::default(),
            resets: Resets::default(),
        }
    }

    /// Whether a decision is worth a note: if it was not simply allowed, or by chance.
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

    /// Takes note of a decision that is [wanted](Self::wants), if there is room. Peeks are not noted.
    pub(crate) fn note(&self, decision: &Decision, id: IdText, context: &RequestContext<'_>) {
        if context.request.cost() == 0 {
            return;
        }
        // First the room, so that a flood costs no memory.
        match self.notes.try_reserve() {
            Ok(place) => place.send(Box::new(Note::new(decision, id, context))),
            Err(_) => drop(self.counts.missed.fetch_add(1, Relaxed)),
        }
    }

    /// How many decisions were written to the log, lost, and given up.
    pub(crate) fn outcomes(&self) -> Outcomes {
        self.counts.outcomes()
    }

    /// Looks at the heavy hitters; also gets how many decisions were missed so far.
    pub(crate) fn with_top<T>(&self, look: impl FnOnce(&Top, u64) -> T) -> T {
        let missed = self.counts.missed.load(Relaxed);
        look(&self.top.lock(), missed)
    }

    /// Hands on what was noted.
    fn take(&self, app: &Shared, note: Box<Note>, log: Option<&mpsc::Sender<Box<Note>>>) {
        let missed = self.counts.missed.load(Relaxed);
        self.top.lock().count(&note, app.now(), missed);
        self.events.publish("decision", || note.to_entry());
        let Some(log) = log else { return };
        let has_share = self.shares.lock().take(&note.client, note.tenant.as_deref(), app.now());
        if !has_share || log.try_send(note).is_err() {
            self.counts.unwritten.fetch_add(1, Relaxed);
        }
    }
}

/// Where a share ends, if all numbers of 64 bits are the whole.
fn end_of(share: f64) -> u64 {
    (share * u64::MAX as f64) as u64
}

/// Whether a request is chosen, by its number: of any that follow each other, as many as the share says.
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
    /// Tells subscribers that other rules are in force.
    pub(crate) fn tell_revision(&self, policy: &Policy) {
        self.audit_log.events.publish("revision", || {
            let at = rfc_3339_exact(self.now());
            json!({"revision": policy.revision().number, "at": at, "rules": policy.rules().len()})
        });
    }

    /// Hands on what is noted until the end, then what is left. Keeps both logs short, where there are
    /// any.
    pub(crate) async fn keep_records(&self, ending: &Shutdown) {
        let Some(mut notes) = self.audit_log.taker.lock().take() else { return };
        let PolicySource::Catalog(catalog_sync) = &self.policy_source else {
            return self.take_notes(&mut notes, None, ending).await;
        };
        let (log, to_write) = mpsc::channel(ROOM);
        let audit = &self.audit_log;
        let taking = async {
            // The log ends when this does.
            let log = Some(log).filter(|_| audit.settings.decisions);
            self.take_notes(&mut notes, log.as_ref(), ending).await;
        };
        let writer = Writer::new(&catalog_sync.catalog, &audit.counts, audit.settings, ending);
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
        notes: &mut mpsc::Receiver<Box<Note>>,
        log: Option<&mpsc::Sender<Box<Note>>>,
        ending: &Shutdown,
    ) {
        let mut handful = Vec::with_capacity(HANDFUL);
        loop {
            tokio::select! {
                // What is left at the end is taken first.
                biased;
                _ = notes.recv_many(&mut handful, HANDFUL) => {
                    for note in handful.drain(..) {
                        self.audit_log.take(self, note, log);
                    }
                }
                () = ending.requested() => return,
            }
        }
    }

    /// Forgets old decisions and changes, a few at a time, so that whoever writes never waits long.
    async fn sweep_records(&self, catalog: &Catalog) {
        let Audit { keep_days, max_bytes, .. } = self.audit_log.settings;
        let kept_for = Micros::from_secs(keep_days * 24 * 60 * 60);
        loop {
            sleep(SWEEP).await;
            let now = self.now();
            // Those that an earlier version has logged elsewhere.
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
            // A catalog that is away is told of elsewhere, and swept when it is back.
            let _ = catalog.forget_audit(now, kept_for).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// Any run of requests has its share, whatever happened before: nobody who asks in a rhythm
        /// stays unseen.
        #[test]
        fn every_run_of_requests_has_its_share(
            share in 0.0..=1.0_f64, first in 0..u64::MAX / 2, length in 1_u64..5_000,
        ) {
            let end = end_of(share);
            let chosen = (first..first + length).filter(|number| is_below(end, *number)).count();
            let expected = share * length as f64;
            prop_assert!((chosen as f64 - expected).abs() < 8.0, "{chosen} of {length}, not {expected}");
        }
    }

    #[test]
    fn all_are_all_and_none_is_none() {
        assert!((1..100_000).all(|number| is_below(end_of(1.0), number)));
        assert!(!(0..100_000).any(|number| is_below(end_of(0.0), number)));
    }
}
