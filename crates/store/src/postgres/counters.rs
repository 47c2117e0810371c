//! The counters of a batch while their rows are locked: requests change them one after the other, and
//! what has changed is written in the end.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};
use tollgate_core::{Algorithm, Charge, Key, Limit, Line, Micros, State, Timestamp, settle};

use super::record::Record;
use crate::remote::{CounterName, Memo, OwnedCharge, OwnedOnce, OwnedRefund, Request};
use crate::{Settled, Settlement};

/// How long a state is kept that is worth nothing, in case a clock steps back.
const SLACK: Micros = Micros::from_secs(1);
/// The same while whoever asks says what time it is: recorded traffic may run slower than it was.
const SLACK_OF_CALLERS: Micros = Micros::from_secs(3_600);

/// An entry of a log as text: two numbers of 20 digits, and what stands between them.
const MAX_LOG_ENTRY_BYTES: u64 = 42;
/// The longest state or record, except for the log of a very large limit, which simulations may have: a
/// log of 20,000 units, twice the largest limit of a policy, has room.
const MAX_STATE_BYTES: i32 = 1 << 20;

/// The kernels do not look at keys.
const NAMELESS: Key<'_> = Key { fingerprint: 0, rule: "", subject: b"", rest: b"" };

/// Whose clock says when a request is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    Database,
    Caller,
}

/// By name, which is the order in which rows are locked.
#[derive(Debug)]
pub(super) struct Counters {
    counters: BTreeMap<CounterName, Counter>,
    clock: Clock,
    max_state_bytes: i32,
    /// When the rows were locked, by the database's clock.
    locked_at: Timestamp,
}

/// What a row holds: the state of a counter, or the record of a request.
#[derive(Debug, Default)]
struct Counter {
    state: Option<State>,
    record: Option<Record>,
    expires_at: i64,
    is_changed: bool,
}

impl Counter {
    /// How it is kept; empty if there is nothing to keep.
    fn text(&self) -> String {
        let state = self.state.as_ref().map(State::to_string);
        state.or_else(|| self.record.as_ref().map(Record::to_string)).unwrap_or_default()
    }
}

/// What is to be written, column by column.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) states: Vec<String>,
    pub(super) expiries: Vec<i64>,
}

impl Counters {
    /// The counters that these requests are about.
    pub(super) fn of<'a>(requests: impl Iterator<Item = &'a Request>, clock: Clock) -> Self {
        let (mut counters, mut max_log_units) = (BTreeMap::new(), 0);
        for request in requests {
            counters.extend(request.names().map(|name| (name.clone(), Counter::default())));
            let logs = request.limits().filter(|l| l.algorithm() == Algorithm::SlidingWindowLog);
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

    /// Takes over what the rows hold, in the order of the names. `false`: that cannot be.
    pub(super) fn load(&mut self, states: &[String], expiries: &[i64], now: Timestamp) -> bool {
        self.locked_at = now;
        for ((counter, state), expires_at) in self.counters.values_mut().zip(states).zip(expiries) {
            // What is no state counts as absent.
            counter.state = state.parse().ok();
            // Rows are swept now and then, and a record is over before that.
            let is_over = u64::try_from(*expires_at).unwrap_or(0) <= now.as_micros();
            counter.record = if is_over { None } else { state.parse().ok() };
            counter.expires_at = *expires_at;
        }
        [states.len(), expiries.len()] == [self.counters.len(); 2]
    }

    /// Does what is asked, which was asked at `asked_at` by the caller's clock.
    pub(super) fn apply(&mut self, request: &Request, asked_at: Timestamp) -> Settled {
        let now = match self.clock {
            Clock::Database => self.locked_at,
            Clock::Caller => asked_at,
        };
        match request {
            Request::Settle(charges) => return Settled::First(self.settle(charges, now)),
            Request::SettleOnce(charges, once) => return self.settle_once(charges, once, now),
            Request::Refund(refunds) => refunds.iter().for_each(|refund| self.refund(refund, now)),
            Request::Reset(names) => names.iter().for_each(|name| self.forget(name)),
        }
        Settled::First(Settlement { now, passed: true, ..Settlement::default() })
    }

    /// What has changed.
    pub(super) fn changes(&self) -> Changes<'_> {
        let mut changes = Changes::default();
        for (name, counter) in self.counters.iter().filter(|(_, counter)| counter.is_changed) {
            changes.names.push(name.as_str());
            changes.states.push(counter.text());
            changes.expiries.push(counter.expires_at);
        }
        changes
    }

    fn settle(&mut self, charges: &[OwnedCharge], now: Timestamp) -> Settlement {
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
        let mut lines: SmallVec<[Line; 4]> = smallvec![Line::default(); charges.len()];
        let passed = settle(&nameless, &mut states, now, &mut lines);
        for (charge, (state, line)) in charges.iter().zip(states.into_iter().zip(&lines)) {
            let expires_at = self.expiry(line.report.reset_after);
            let Some(counter) = self.counters.get_mut(&charge.name) else { continue };
            counter.state = state;
            if line.written {
                counter.expires_at = expires_at;
                counter.is_changed = true;
            }
        }
        Settlement { now, passed, lines, only: None }
    }

    fn settle_once(
        &mut self,
        charges: &[OwnedCharge],
        once: &OwnedOnce,
        now: Timestamp,
    ) -> Settled {
        let record = self.counters.get(&once.record).and_then(|row| row.record.clone());
        if let Some(Record { body, now: then, memo }) = record {
            return if body == once.body {
                let settlement = self.settled_before(charges, &memo, then, now);
                Settled::Again { settlement, note: memo.note }
            } else {
                Settled::Conflict
            };
        }
        let settlement = self.settle(charges, now);
        if settlement.passed
            && let Some(row) = self.counters.get_mut(&once.record)
        {
            let names = charges.iter().map(|charge| charge.name.clone());
            let lines = names.zip(settlement.lines.iter().copied()).collect();
            let memo = Memo { lines, ..once.memo.clone() };
            let expires_at = self.locked_at.plus(once.lifetime);
            row.record = Some(Record { body: once.body, now, memo });
            row.expires_at = i64::try_from(expires_at.as_micros()).unwrap_or(i64::MAX);
            row.is_changed = true;
        }
        Settled::First(settlement)
    }

    /// What became of charges `then`. Limits that were not there then are looked at now.
    fn settled_before(
        &mut self,
        charges: &[OwnedCharge],
        memo: &Memo,
        then: Timestamp,
        now: Timestamp,
    ) -> Settlement {
        let looks: SmallVec<[OwnedCharge; 4]> =
            charges.iter().map(|charge| OwnedCharge { cost: 0, ..charge.clone() }).collect();
        let mut settlement = self.settle(&looks, now);
        for (line, charge) in settlement.lines.iter_mut().zip(charges) {
            *line = memo.line(&charge.name).unwrap_or(*line);
        }
        Settlement { now: then, ..settlement }
    }

    /// A counter that gets something back expires no later than it would have.
    fn refund(&mut self, refund: &OwnedRefund, now: Timestamp) {
        let OwnedRefund { name, limit, units, charged_at } = refund;
        if let Some(counter) = self.counters.get_mut(name).filter(|counter| counter.state.is_some())
        {
            limit.refund(&mut counter.state, now, *units, *charged_at);
            counter.is_changed = true;
        }
    }

    fn forget(&mut self, name: &CounterName) {
        if let Some(counter) = self.counters.get_mut(name).filter(|counter| counter.state.is_some())
        {
            *counter = Counter { is_changed: true, ..Counter::default() };
        }
    }

    /// When a state is worth nothing, by the clock that rows are swept by.
    fn expiry(&self, reset_after: Micros) -> i64 {
        let slack = match self.clock {
            Clock::Database => SLACK,
            Clock::Caller => SLACK_OF_CALLERS,
        };
        let expires_at = self.locked_at.plus(reset_after).plus(slack);
        i64::try_from(expires_at.as_micros()).unwrap_or(i64::MAX)
    }
}
