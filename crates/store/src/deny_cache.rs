//! Caches refusals: a client over its limit keeps asking, and until its retry time the outcome cannot
//! change.
//!
//! Until then, only a refund, a reset or another limit makes the same cost fit. This node sees its own
//! refunds and resets, and knows under which limit it was refused. A refund on another node is seen
//! here a second later at most. Held units can be released by any node, so refusals beside them are not cached.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use tollgate_core::{Charge, ChargeResult, Key, Limit, Micros, Mode, Report, Timestamp};

use crate::{Op, OpOutcome, Outcomes, RefundOnce, SettleRequest, Settlement, Store};

/// How many refusals are cached at most.
const SLOTS: usize = 16_384;
/// How long a refusal is cached at most.
const MAX_AGE: Micros = Micros::from_secs(1);

/// A store that caches the refusals of the store inside it.
pub struct DenyCache<S> {
    inner: S,
    longest: Micros,
    /// The fingerprint of a counter chooses its slot. Of counters that share one, the last stays.
    slots: Box<[Mutex<CacheSlot>]>,
    /// How many clearings there were; the count numbers them.
    clearings: AtomicU64,
    hits: AtomicU64,
}

#[derive(Debug, Default)]
struct CacheSlot {
    /// The number of the last clearing. The result of a call that began before it is not cached.
    cleared: u64,
    refusal: Option<CachedRefusal>,
}

/// A counter refused this cost under one limit, so it refuses any larger one too.
#[derive(Clone, Copy, Debug)]
struct CachedRefusal {
    fingerprint: u64,
    limit: Limit,
    cost: u64,
    /// When the request was sent, by the caller's clock.
    asked_at: Timestamp,
    /// When the store refused it, by the store's clock.
    judged_at: Timestamp,
    report: Report,
    /// How long the refusal is cached.
    believed: Micros,
}

impl<S> DenyCache<S> {
    /// A cache in front of `inner`.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self::lasting(inner, MAX_AGE)
    }

    /// A cache that keeps a refusal for at most `longest`.
    #[must_use]
    pub fn lasting(inner: S, longest: Micros) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(SLOTS, Mutex::default);
        let (clearings, hits) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner, longest, slots: slots.into(), clearings, hits }
    }

    /// The store behind the cache.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// How many requests were refused without a call to the store.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// The settlement of a request that is certain to be refused. If several of its charges are, the one with the
    /// longest wait is reported, as in a decision.
    ///
    /// Dry runs and requests with an idempotency key always go to the store: the first need every figure, and the
    /// copy of a request that passed is not refused by a counter that is used up.
    fn known(&self, request: &SettleRequest<'_>, now: Timestamp) -> Option<Settlement> {
        if request.is_dry_run || request.idempotency.is_some() {
            return None;
        }
        let charges = request.charges;
        let mut longest: Option<(u64, Settlement)> = None;
        let mut is_debited = false;
        for (number, charge) in charges.iter().enumerate().filter(|(_, charge)| charge.cost > 0) {
            is_debited |= charge.mode == Mode::Debit;
            let Some(refusal) = self.recall(charge, now) else { continue };
            let report = refusal.report_at(now, charge);
            let wait = report.retry_after.map_or(u64::MAX, Micros::get);
            if longest.as_ref().is_none_or(|(longest, _)| wait > *longest) {
                let result = ChargeResult { report, ..ChargeResult::default() };
                let judged_at = refusal.judged_at.plus(now.since(refusal.asked_at));
                let only = Some(number);
                let refused = Settlement {
                    now: judged_at,
                    passed: false,
                    results: smallvec![result],
                    only,
                    has_held_units: false,
                };
                longest = Some((wait, refused));
            }
        }
        // A debit is charged even if the request is refused, so it has to reach the store.
        let (_, refused) = longest.filter(|_| !is_debited)?;
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(refused)
    }

    /// The cached refusal that decides a charge. One that does not is dropped: the store may change the counter.
    fn recall(&self, charge: &Charge<'_>, now: Timestamp) -> Option<CachedRefusal> {
        let mut slot = self.slot(charge.key.fingerprint).lock();
        let refusal = slot.about(charge.key.fingerprint)?;
        if refusal.answers(charge, now) {
            Some(*refusal)
        } else {
            slot.refusal = None;
            None
        }
    }

    /// The number of the last clearing, to be read before the store is called.
    fn last_clearing(&self) -> u64 {
        self.clearings.load(Ordering::Acquire)
    }

    /// Caches what the store refused, and drops what it changed. A refusal beside held units is not cached: a release
    /// ends it early.
    fn learn(
        &self,
        request: &SettleRequest<'_>,
        settled: &Settlement,
        now: Timestamp,
        clearing: u64,
    ) {
        if request.is_dry_run {
            return;
        }
        for (number, result) in settled.numbered() {
            let Some(charge) = request.charges.get(number) else { continue };
            let fingerprint = charge.key.fingerprint;
            if !result.admitted && charge.mode == Mode::Enforce {
                if settled.has_held_units {
                    continue;
                }
                let mut slot = self.slot(fingerprint).lock();
                let is_known =
                    slot.about(fingerprint).is_some_and(|known| known.answers(charge, now));
                if slot.cleared <= clearing && !is_known {
                    let believed = result
                        .report
                        .retry_after
                        .map_or(self.longest, |wait| wait.min(self.longest));
                    let moments = [now, settled.now];
                    slot.refusal =
                        Some(CachedRefusal::new(charge, result.report, moments, believed));
                }
            } else if result.written {
                self.slot(fingerprint).lock().forget(fingerprint);
            }
        }
    }

    /// Drops cached refusals of counters that a refund or reset changes, and keeps calls under way from caching
    /// theirs.
    fn clear_changed(&self, op: &Op<'_>) {
        match op {
            Op::Settle(_) | Op::FindRecord(_) | Op::ForgetRecord(_) => {}
            Op::Refund(refunds) => {
                refunds.iter().for_each(|refund| self.clear(refund.key.fingerprint));
            }
            Op::RefundOnce(RefundOnce { refunds, .. }) => {
                refunds.iter().for_each(|one| self.clear(one.refund.key.fingerprint));
            }
            Op::Reset(keys) => keys.iter().for_each(|key| self.clear(key.fingerprint)),
        }
    }

    fn clear(&self, fingerprint: u64) {
        let mut slot = self.slot(fingerprint).lock();
        slot.cleared = self.clearings.fetch_add(1, Ordering::AcqRel) + 1;
        slot.forget(fingerprint);
    }

    fn slot(&self, fingerprint: u64) -> &Mutex<CacheSlot> {
        &self.slots[usize::try_from(fingerprint % SLOTS as u64).unwrap_or(0)]
    }
}

impl CacheSlot {
    fn about(&self, fingerprint: u64) -> Option<&CachedRefusal> {
        self.refusal.as_ref().filter(|refusal| refusal.fingerprint == fingerprint)
    }

    fn forget(&mut self, fingerprint: u64) {
        self.refusal.take_if(|refusal| refusal.fingerprint == fingerprint);
    }
}

impl CachedRefusal {
    fn new(
        charge: &Charge<'_>,
        report: Report,
        [asked_at, judged_at]: [Timestamp; 2],
        believed: Micros,
    ) -> Self {
        let Charge { key: Key { fingerprint, .. }, limit, cost, .. } = *charge;
        Self { fingerprint, limit: *limit, cost, asked_at, judged_at, report, believed }
    }

    /// Whether a charge of the same counter is certain to be refused. A clock that went back proves nothing.
    fn answers(&self, charge: &Charge<'_>, now: Timestamp) -> bool {
        charge.mode == Mode::Enforce
            && *charge.limit == self.limit
            && charge.cost >= self.cost
            && now >= self.asked_at
            && now.since(self.asked_at) < self.believed
    }

    /// The figures, advanced to `now`. For a larger cost than the one refused, the wait is a lower bound.
    fn report_at(&self, now: Timestamp, charge: &Charge<'_>) -> Report {
        let since = now.since(self.asked_at).get();
        let left = |span: Micros| Micros::new(span.get().saturating_sub(since));
        // A charge that does not fit an unused counter never fits.
        let fits_ever = charge.limit.fits(None, now, charge.cost);
        Report {
            retry_after: self.report.retry_after.map(left).filter(|_| fits_ever),
            reset_after: left(self.report.reset_after),
            next_after: self.report.next_after.map(|next| left(next).max(Micros::new(1))),
            ..self.report
        }
    }
}

impl<S: Store> Store for DenyCache<S> {
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn naming(&self) -> u64 {
        self.inner.naming()
    }

    fn record_key(&self, key: &Key<'_>) -> Option<String> {
        self.inner.record_key(key)
    }

    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool {
        match self.known(request, now) {
            Some(refused) => {
                *settlement = refused;
                true
            }
            None => self.inner.try_settle(request, now, settlement),
        }
    }

    #[inline]
    fn prefetch(&self, fingerprint: u64) {
        self.inner.prefetch(fingerprint);
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        ops.iter().for_each(|op| self.clear_changed(op));
        let known: SmallVec<[Option<Settlement>; 1]> = ops
            .iter()
            .map(|op| match op {
                Op::Settle(request) => self.known(request, now),
                Op::Refund(_)
                | Op::RefundOnce(_)
                | Op::Reset(_)
                | Op::FindRecord(_)
                | Op::ForgetRecord(_) => None,
            })
            .collect();
        let unknown: SmallVec<[Op<'_>; 1]> = ops
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(op, _)| *op)
            .collect();
        let mut outcomes = Outcomes::new();
        if !unknown.is_empty() {
            let clearing = self.last_clearing();
            outcomes = self.inner.submit(&unknown, now).await;
            for (op, outcome) in unknown.iter().zip(&outcomes) {
                if let (Op::Settle(request), Ok(OpOutcome::Settled(settled))) = (op, outcome) {
                    self.learn(request, settled, now, clearing);
                }
            }
        }
        // Once more, for calls that read the counter before the change and returned after the first clearing.
        ops.iter().for_each(|op| self.clear_changed(op));
        let mut submitted = outcomes.into_iter();
        let settled = |known: Settlement| Ok(OpOutcome::Settled(known));
        known
            .into_iter()
            .filter_map(|known| known.map(settled).or_else(|| submitted.next()))
            .collect()
    }
}

/// Omits the slots, of which there are many.
impl<S: fmt::Debug> fmt::Debug for DenyCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DenyCache");
        shown.field("inner", &self.inner).field("hits", &self.hits()).finish_non_exhaustive()
    }
}
