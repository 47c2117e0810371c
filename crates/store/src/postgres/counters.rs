//! The counters of a batch while their rows are locked: requests change them one after the other, and the changes are
//! written at the end.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{
    Algorithm, Charge, ChargeResult, Key, Limit, Micros, State, Timestamp, dry_run, settle,
};

use super::record::RecordRow;
use crate::remote::{
    CounterName, IdempotencyRecord, OwnedCharge, OwnedIdempotencyKey, OwnedOp, OwnedRecordRef,
    OwnedRefund, OwnedRefundOnce, RefundAttempt,
};
use crate::{OpOutcome, Settlement};

/// How long a state is kept beyond its expiry, in case a clock steps back.
const SLACK: Micros = Micros::from_secs(1);
/// How long a state is kept beyond its expiry with the caller's clock: recorded traffic may be replayed more slowly.
const SLACK_OF_CALLERS: Micros = Micros::from_secs(3_600);

/// An entry of a log as text: two numbers of 20 digits, and separators.
const MAX_LOG_ENTRY_BYTES: u64 = 42;
/// The longest state or record, except for the log of a very large limit, which simulations may have: a
/// log of 20,000 units, twice the largest limit of a policy, has room.
const MAX_STATE_BYTES: i32 = 1 << 20;

/// The kernels do not read keys.
const NAMELESS: Key<'_> = Key { fingerprint: 0, rule: "", subject: b"", rest: b"", group: 0 };

/// Which clock dates a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum TimeSource {
    Database,
    Caller,
}

/// By name, which is the order in which rows are locked.
#[derive(Debug)]
pub(super) struct Counters {
    counters: BTreeMap<CounterName, Counter>,
    clock: TimeSource,
    max_state_bytes: i32,
    /// When the rows were locked, by the database's clock.
    locked_at: Timestamp,
}

/// The content of a row: the state of a counter, the record of a request, or the mark of a refund.
#[derive(Debug, Default)]
struct Counter {
    state: Option<State>,
    record: Option<RecordRow>,
    mark: Option<RefundAttempt>,
    expires_at: i64,
    is_changed: bool,
}

impl Counter {
    /// The text of the row; empty if there is nothing to keep.
    fn text(&self) -> String {
        let state = self.state.as_ref().map(State::to_string);
        let record = || self.record.as_ref().map(RecordRow::to_string);
        let mark = || self.mark.as_ref().map(RefundAttempt::to_string);
        state.or_else(record).or_else(mark).unwrap_or_default()
    }
}

/// The changed rows, column by column.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) states: Vec<String>,
    pub(super) expiries: Vec<i64>,
}

impl Counters {
    /// The counters of these operations.
    pub(super) fn of<'a>(ops: impl Iterator<Item = &'a OwnedOp>, clock: TimeSource) -> Self {
        let (mut counters, mut max_log_units) = (BTreeMap::new(), 0);
        for op in ops {
            counters.extend(op.names().map(|name| (name.clone(), Counter::default())));
            let logs = op.limits().filter(|l| l.algorithm() == Algorithm::SlidingWindowLog);
            let capacity = logs.map(Limit::capacity).max().unwrap_or_default();
            max_log_units = capacity.saturating_mul(2).max(max_log_units);
        }
        let max_log_bytes = max_log_units.saturating_mul(MAX_LOG_ENTRY_BYTES);
        let max_state_bytes = i32::try_from(max_log_bytes).unwrap_or(i32::MAX).max(MAX_STATE_BYTES);
        Self { counters, clock, max_state_bytes, locked_at: Timestamp::EPOCH }
    }

    /// The longest text that a state of these limits, or a record, can have.
    pub(super) const fn max_state_bytes(&self) -> i32 {
        self.max_state_bytes
    }

    pub(super) fn names(&self) -> Vec<&str> {
        self.counters.keys().map(CounterName::as_str).collect()
    }

    /// Reads the rows, in the order of the names. `false`: they do not match the names.
    pub(super) fn load(&mut self, states: &[String], expiries: &[i64], now: Timestamp) -> bool {
        self.locked_at = now;
        for ((counter, state), expires_at) in self.counters.values_mut().zip(states).zip(expiries) {
            // An invalid state counts as absent.
            counter.state = state.parse().ok();
            // Rows are swept now and then, so an expired record or mark may still be there.
            let is_over = u64::try_from(*expires_at).unwrap_or(0) <= now.as_micros();
            counter.record = if is_over { None } else { state.parse().ok() };
            counter.mark = if is_over { None } else { state.parse().ok() };
            counter.expires_at = *expires_at;
        }
        [states.len(), expiries.len()] == [self.counters.len(); 2]
    }

    /// Carries out an operation that was requested at `asked_at` by the caller's clock.
    pub(super) fn apply(&mut self, op: &OwnedOp, asked_at: Timestamp) -> OpOutcome {
        let now = match self.clock {
            TimeSource::Database => self.locked_at,
            TimeSource::Caller => asked_at,
        };
        match op {
            OwnedOp::Settle { charges, idempotency: None, is_dry_run } => {
                return OpOutcome::Settled(self.settle(charges, *is_dry_run, now));
            }
            OwnedOp::Settle { charges, idempotency: Some(key), is_dry_run } => {
                return self.settle_idempotent(charges, key, *is_dry_run, now);
            }
            OwnedOp::RefundOnce(once) => return self.refund_once(once, now),
            OwnedOp::Record(record) => {
                return OpOutcome::Record { is_there: self.find_record(record) };
            }
            OwnedOp::Refund(refunds) => refunds.iter().for_each(|refund| self.refund(refund, now)),
            OwnedOp::Reset(names) => names.iter().for_each(|name| self.forget(name)),
        }
        OpOutcome::Done
    }

    /// The rows to write.
    pub(super) fn changes(&self) -> Changes<'_> {
        let mut changes = Changes::default();
        for (name, counter) in self.counters.iter().filter(|(_, counter)| counter.is_changed) {
            changes.names.push(name.as_str());
            changes.states.push(counter.text());
            changes.expiries.push(counter.expires_at);
        }
        changes
    }

    fn settle(&mut self, charges: &[OwnedCharge], is_dry_run: bool, now: Timestamp) -> Settlement {
        let mut states: SmallVec<[Option<State>; 4]> = charges
            .iter()
            .map(|charge| self.counters.get_mut(&charge.name)?.state.take())
            .collect();
        let nameless: SmallVec<[Charge<'_>; 4]> = charges
            .iter()
            .map(|OwnedCharge { limit, cost, mode, .. }| Charge {
                key: NAMELESS,
                limit,
                cost: *cost,
                mode: *mode,
            })
            .collect();
        let mut results: SmallVec<[ChargeResult; 4]> =
            smallvec![ChargeResult::default(); charges.len()];
        let settle = if is_dry_run { dry_run } else { settle };
        let passed = settle(&nameless, &mut states, now, &mut results);
        for (charge, (state, result)) in charges.iter().zip(states.into_iter().zip(&results)) {
            let expires_at = self.expiry(result.report.reset_after);
            let Some(counter) = self.counters.get_mut(&charge.name) else { continue };
            counter.state = state;
            if result.written {
                counter.expires_at = expires_at;
                counter.is_changed = true;
            }
        }
        Settlement { now, passed, results, ..Settlement::default() }
    }

    fn settle_idempotent(
        &mut self,
        charges: &[OwnedCharge],
        key: &OwnedIdempotencyKey,
        is_dry_run: bool,
        now: Timestamp,
    ) -> OpOutcome {
        let row = self.counters.get(&key.record_name).and_then(|row| row.record.clone());
        if let Some(RecordRow { body, now: then, record }) = row {
            return if body == key.body {
                let settlement = self.settled_before(charges, &record, then, now);
                OpOutcome::Replayed { settlement, note: record.note }
            } else {
                OpOutcome::KeyReused
            };
        }
        let settlement = self.settle(charges, is_dry_run, now);
        if settlement.passed
            && !is_dry_run
            && let Some(row) = self.counters.get_mut(&key.record_name)
        {
            let names = charges.iter().map(|charge| charge.name.clone());
            let results = names.zip(settlement.results.iter().copied()).collect();
            let record = IdempotencyRecord { results, ..key.record.clone() };
            let expires_at = self.locked_at.plus(key.lifetime);
            row.record = Some(RecordRow { body: key.body, now, record });
            row.expires_at = i64::try_from(expires_at.as_micros()).unwrap_or(i64::MAX);
            row.is_changed = true;
        }
        OpOutcome::Settled(settlement)
    }

    /// How charges were settled `then`. Limits that did not exist then are read now.
    fn settled_before(
        &mut self,
        charges: &[OwnedCharge],
        record: &IdempotencyRecord,
        then: Timestamp,
        now: Timestamp,
    ) -> Settlement {
        let looks: SmallVec<[OwnedCharge; 4]> =
            charges.iter().map(|charge| OwnedCharge { cost: 0, ..charge.clone() }).collect();
        let mut settlement = self.settle(&looks, false, now);
        for (result, charge) in settlement.results.iter_mut().zip(charges) {
            *result = record.result(&charge.name).unwrap_or(*result);
        }
        Settlement { now: then, ..settlement }
    }

    /// A refund never extends the lifetime of a counter.
    fn refund(&mut self, refund: &OwnedRefund, now: Timestamp) {
        let OwnedRefund { name, limit, units, charged_at, .. } = refund;
        if let Some(counter) = self.counters.get_mut(name).filter(|counter| counter.state.is_some())
        {
            limit.refund(&mut counter.state, now, *units, *charged_at);
            counter.is_changed = true;
        }
    }

    /// Refunds charges that have not ended, unless their mark is there.
    fn refund_once(&mut self, once: &OwnedRefundOnce, now: Timestamp) -> OpOutcome {
        let found = self.counters.get(&once.mark_name).and_then(|row| row.mark);
        if found.is_some_and(|attempt| attempt != once.attempt) {
            return OpOutcome::RefundedBefore;
        }
        let lasting = || once.refunds.iter().filter(|one| one.ends_at > now);
        let Some(ends_at) = lasting().map(|one| one.ends_at).max() else {
            return OpOutcome::RefundExpired;
        };
        if found.is_none() {
            lasting().for_each(|one| self.refund(&one.refund, now));
            let expires_at = self.expiry(ends_at.since(now));
            if let Some(row) = self.counters.get_mut(&once.mark_name) {
                row.mark = Some(once.attempt);
                row.expires_at = expires_at;
                row.is_changed = true;
            }
        }
        OpOutcome::Refunded { counters: lasting().count() }
    }

    /// Whether the record is there. It may be forgotten.
    fn find_record(&mut self, wanted: &OwnedRecordRef) -> bool {
        let row = self.counters.get_mut(&wanted.record_name);
        let is_it = |row: &RecordRow| row.record.note.split(' ').next() == Some(&*wanted.note);
        let Some(row) = row.filter(|row| row.record.as_ref().is_some_and(is_it)) else {
            return false;
        };
        if wanted.is_forgotten {
            *row = Counter { is_changed: true, ..Counter::default() };
        }
        true
    }

    fn forget(&mut self, name: &CounterName) {
        if let Some(counter) = self.counters.get_mut(name).filter(|counter| counter.state.is_some())
        {
            *counter = Counter { is_changed: true, ..Counter::default() };
        }
    }

    /// When a state expires, by the clock that rows are swept by.
    fn expiry(&self, reset_after: Micros) -> i64 {
        let slack = match self.clock {
            TimeSource::Database => SLACK,
            TimeSource::Caller => SLACK_OF_CALLERS,
        };
        let expires_at = self.locked_at.plus(reset_after).plus(slack);
        i64::try_from(expires_at.as_micros()).unwrap_or(i64::MAX)
    }
}
