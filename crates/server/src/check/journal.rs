//! Recent decisions, so that they can be explained and refunded.
//!
//! Admitted and refused requests are kept separately: a flood of either does not evict the other. Both
//! are ring buffers, whose memory is allocated only when it is reached.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate::{Decision, Policy, Receipt};

use super::decision_id::{DecisionId, IdKind, NodeName};
use super::idempotency::CallDigest;

/// How many policies the decisions they made may keep in memory.
const KEPT_REVISIONS: u64 = 8;
/// How many policies with the same rules may stay: these share almost everything.
const KEPT_DELTAS: u64 = 1_000;

/// How many bytes decisions may take besides their entries, as those by many rules do. While they take
/// more, further ones are not kept.
const MAX_HEAP_BYTES: usize = 64 << 20;

/// Why a decision is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Another node made it.
    OtherNode,
    /// There was no such decision, or it is too old.
    Unknown,
    /// It was refunded already.
    GivenBack,
}

#[derive(Debug)]
pub(crate) struct Journal {
    node: NodeName,
    admitted: Ring,
    refused: Ring,
    heap_bytes: AtomicUsize,
}

impl Journal {
    /// Keeps `kept` admitted and as many refused decisions.
    pub(crate) fn new(node: NodeName, kept: usize) -> Self {
        let (admitted, refused) = (Ring::new(kept), Ring::new(kept));
        Self { node, admitted, refused, heap_bytes: AtomicUsize::new(0) }
    }

    /// Takes a number for a decision that is about to be recorded.
    pub(crate) fn next_id(&self, is_allowed: bool) -> DecisionId {
        let number = self.ring(is_allowed).next.fetch_add(1, Ordering::Relaxed);
        let kind = if is_allowed { IdKind::Admitted } else { IdKind::Refused };
        DecisionId { node: self.node, kind, number }
    }

    /// Keeps what is needed to explain a decision, and to refund it once. `key` is the call of its idempotency key.
    pub(crate) fn record(&self, id: DecisionId, decision: &Decision, key: Option<CallDigest>) {
        let mut place = self.ring(id.is_allowed()).place_or_new(id.number).lock();
        let before = heap_bytes(&place);
        match &mut *place {
            Some(JournalEntry { number, kind, call, receipt, is_refunded }) => {
                (*number, *kind, *call, *is_refunded) = (id.number, id.kind, key, false);
                receipt.replace(decision);
            }
            place => {
                let receipt = decision.receipt();
                let DecisionId { number, kind, .. } = id;
                let entry = JournalEntry { number, kind, call: key, receipt, is_refunded: false };
                *place = Some(entry);
            }
        }
        let after = heap_bytes(&place);
        if self.account(before, after) > MAX_HEAP_BYTES && after > 0 {
            *place = None;
            self.account(after, 0);
        }
    }

    /// Notes the new size of an entry; returns the size of all.
    fn account(&self, before: usize, after: usize) -> usize {
        if before == after {
            return self.heap_bytes.load(Ordering::Relaxed);
        }
        self.heap_bytes.fetch_add(after, Ordering::Relaxed);
        self.heap_bytes.fetch_sub(before, Ordering::Relaxed) - before
    }

    /// Reads a decision, and whether it was refunded from here.
    pub(crate) fn with<T>(
        &self,
        id: DecisionId,
        look: impl FnOnce(&Decision, bool) -> T,
    ) -> Result<T, Missing> {
        self.entry(id, |entry| match entry {
            Some(entry) if entry.is_of(id) => {
                Ok(entry.receipt.look(|decision| look(decision, entry.is_refunded)))
            }
            _ => Err(Missing::Unknown),
        })
    }

    /// Takes a decision, so that it can be refunded once, with the call of its idempotency key. It can still be explained.
    pub(crate) fn take(&self, id: DecisionId) -> Result<(Decision, Option<CallDigest>), Missing> {
        self.entry(id, |entry| match entry {
            Some(entry) if entry.is_of(id) && entry.is_refunded => Err(Missing::GivenBack),
            Some(entry) if entry.is_of(id) => {
                entry.is_refunded = true;
                Ok((entry.receipt.look(Decision::receipt).open(), entry.call))
            }
            _ => Err(Missing::Unknown),
        })
    }

    /// Puts a decision back whose refund failed.
    pub(crate) fn put_back(&self, id: DecisionId) {
        let put = |entry: Option<&mut JournalEntry>| match entry {
            Some(entry) if entry.is_of(id) => {
                entry.is_refunded = false;
                Ok(())
            }
            _ => Err(Missing::Unknown),
        };
        // If its entry was overwritten meanwhile, it is too old anyway.
        let _ = self.entry(id, put);
    }

    /// Removes decisions of old policies: each keeps its whole policy in memory.
    pub(crate) fn forget_old(&self, current: &Policy) {
        let is_old = |receipt: &Receipt| {
            let policy = receipt.policy();
            let has_same_rules = policy.shares_rules_with(current);
            let kept = if has_same_rules { KEPT_DELTAS } else { KEPT_REVISIONS };
            policy.revision().number.saturating_add(kept) <= current.revision().number
        };
        for ring in [&self.admitted, &self.refused] {
            for place in ring.chunks.iter().filter_map(OnceLock::get).flatten() {
                let mut place = place.lock();
                if place.as_ref().is_some_and(|entry| is_old(&entry.receipt)) {
                    self.account(heap_bytes(&place), 0);
                    *place = None;
                }
            }
        }
    }

    fn entry<T>(
        &self,
        id: DecisionId,
        look: impl FnOnce(Option<&mut JournalEntry>) -> Result<T, Missing>,
    ) -> Result<T, Missing> {
        if id.node != self.node {
            return Err(Missing::OtherNode);
        }
        match self.ring(id.is_allowed()).place(id.number) {
            Some(place) => look(place.lock().as_mut()),
            None => Err(Missing::Unknown),
        }
    }

    fn ring(&self, is_allowed: bool) -> &Ring {
        if is_allowed { &self.admitted } else { &self.refused }
    }
}

/// How many entries are allocated at once.
const CHUNK: usize = 64;

#[derive(Debug)]
struct Ring {
    chunks: Box<[OnceLock<Box<[JournalPlace]>>]>,
    next: AtomicU64,
}

type JournalPlace = Mutex<Option<JournalEntry>>;

#[derive(Debug)]
struct JournalEntry {
    number: u64,
    /// A sealed decision is refunded by its seal alone, so that it cannot be refunded without it as well.
    kind: IdKind,
    /// The call of its idempotency key, if it had one.
    call: Option<CallDigest>,
    receipt: Receipt,
    is_refunded: bool,
}

impl JournalEntry {
    fn is_of(&self, id: DecisionId) -> bool {
        self.number == id.number && self.kind == id.kind
    }
}

/// The bytes that an entry takes on the heap.
fn heap_bytes(place: &Option<JournalEntry>) -> usize {
    place.as_ref().map_or(0, |entry| entry.receipt.heap_bytes())
}

impl Ring {
    fn new(places: usize) -> Self {
        let chunks = places.div_ceil(CHUNK).max(1);
        Self { chunks: (0..chunks).map(|_| OnceLock::new()).collect(), next: AtomicU64::new(0) }
    }

    fn place_or_new(&self, number: u64) -> &JournalPlace {
        let (chunk, place) = self.locate(number);
        let new = || (0..CHUNK).map(|_| JournalPlace::default()).collect();
        &self.chunks[chunk].get_or_init(new)[place]
    }

    fn place(&self, number: u64) -> Option<&JournalPlace> {
        let (chunk, place) = self.locate(number);
        self.chunks[chunk].get()?.get(place)
    }

    fn locate(&self, number: u64) -> (usize, usize) {
        let places = (self.chunks.len() * CHUNK) as u64;
        let place = usize::try_from(number % places).unwrap_or(0);
        (place / CHUNK, place % CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Limiter, Request, Revision};

    fn decision() -> Decision {
        let limiter = Limiter::from_text(
            "rules: [{rule_id: all, limit: 1000, window: 1m, identifier_type: global}]",
        );
        limiter.expect("a valid policy").check(&Request::new()).now()
    }

    #[test]
    fn decisions_are_kept_until_they_are_overwritten() {
        let journal = Journal::new(NodeName::alone(1), CHUNK);
        let ids: Vec<_> = (0..CHUNK + 3).map(|_| journal.next_id(true)).collect();
        for id in &ids {
            journal.record(*id, &decision(), None);
        }
        let state = |id: DecisionId| journal.with(id, |_, _| ());
        assert_eq!(state(ids[2]), Err(Missing::Unknown));
        assert_eq!(state(ids[3]), Ok(()));
        assert_eq!(state(ids[CHUNK + 2]), Ok(()));
        let sealed = DecisionId { kind: IdKind::Sealed, ..ids[3] };
        assert_eq!(state(sealed), Err(Missing::Unknown), "it has another id");
        assert_eq!(state(journal.next_id(true)), Err(Missing::Unknown), "not recorded yet");
        assert_eq!(state(journal.next_id(false)), Err(Missing::Unknown));
        assert_eq!(
            state(DecisionId { node: NodeName::alone(2), ..ids[3] }),
            Err(Missing::OtherNode)
        );
    }

    /// The decisions of a tenant with a thousand rules used to take gigabytes.
    #[test]
    fn decisions_by_many_rules_take_bounded_memory() {
        let rule = |number: usize| {
            format!("- {{rule_id: r{number}, limit: 9, window: 1m, identifier_type: global}}\n")
        };
        let rules: String = (0..200).map(rule).collect();
        let limiter = Limiter::from_text(&format!("rules:\n{rules}")).expect("a valid policy");
        let large = limiter.check(&Request::new()).now();
        let each = large.receipt().heap_bytes();
        assert!(each > 10_000, "{each}");
        let fitting = MAX_HEAP_BYTES / each;
        let journal = Journal::new(NodeName::alone(1), fitting + 500);
        let ids: Vec<_> = (0..fitting + 100).map(|_| journal.next_id(true)).collect();
        for id in &ids {
            journal.record(*id, &large, None);
        }
        assert!(journal.heap_bytes.load(Ordering::Relaxed) <= MAX_HEAP_BYTES);
        assert_eq!(journal.with(ids[0], |_, _| ()), Ok(()));
        assert_eq!(journal.with(ids[fitting + 99], |_, _| ()), Err(Missing::Unknown));
        let small = journal.next_id(true);
        journal.record(small, &decision(), None);
        assert_eq!(journal.with(small, |_, _| ()), Ok(()), "small ones are always kept");
    }

    #[test]
    fn a_decision_is_taken_once_unless_it_is_put_back() {
        let journal = Journal::new(NodeName::alone(1), CHUNK);
        let id = journal.next_id(true);
        journal.record(id, &decision(), None);
        let (taken, _) = journal.take(id).expect("it is there");
        assert_eq!(journal.take(id).err(), Some(Missing::GivenBack));
        assert_eq!(taken.charged(), 1);
        // It used to be gone from then on.
        let explained =
            || journal.with(id, |decision, is_refunded| (decision.charged(), is_refunded));
        assert_eq!(explained(), Ok((1, true)));
        journal.put_back(id);
        assert_eq!(explained(), Ok((1, false)));
        assert!(journal.take(id).is_ok());
    }

    #[test]
    fn decisions_of_old_policies_are_removed() {
        let journal = Journal::new(NodeName::alone(1), 2 * KEPT_DELTAS as usize);
        let limiter = Limiter::from_text(
            "rules: [{rule_id: all, limit: 1000, window: 1m, identifier_type: global}]",
        )
        .expect("a valid policy");
        let check = |revisions: u64, has_new_rules: bool, expected: u64| {
            let ids: Vec<DecisionId> = (0..revisions)
                .map(|number| {
                    let policy = if has_new_rules { Policy::default() } else { limiter.policy() };
                    limiter.install(&policy.with_revision(Revision { epoch: 1, number }));
                    let id = journal.next_id(true);
                    journal.record(id, &limiter.check(&Request::new()).now(), None);
                    journal.forget_old(&limiter.policy());
                    id
                })
                .collect();
            let kept = ids.iter().filter(|id| journal.with(**id, |_, _| ()).is_ok()).count();
            assert_eq!(kept as u64, expected, "{has_new_rules}");
        };
        check(20, true, KEPT_REVISIONS);
        check(KEPT_DELTAS + 20, false, KEPT_DELTAS);
    }
}
