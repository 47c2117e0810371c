//! The keys and numbers of a call of the script, as they are documented in settle/call.lua. Requests with the same
//! rules, limits and costs share a plan, so that each is a few bytes.

use std::collections::HashMap;

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Calendar, Limit, Micros, Mode, RuleTag, Timestamp};

use super::{ScriptClock, key};
use crate::redis::record_name::split;
use crate::remote::{CounterName, OwnedCharge, OwnedExpiringRefund, OwnedOp, OwnedRefund};

/// A number above every limit.
const BEYOND: u64 = 1 << 52;
/// The longest lifetime of a key: ten years.
const MAX_LIFETIME_MS: u64 = 315_360_000_000;
/// What requests are.
const CHARGE: u64 = 0;
const REFUND: u64 = 1;
const REFUND_ONCE: u64 = 2;
const RESET: u64 = 3;
const CHARGE_ONCE: u64 = 4;
/// How many windows of the calendar before and after that of the caller's time are sent.
const NEIGHBOURS: usize = 2;

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct EncodedCall {
    pub(super) keys: Vec<String>,
    pub(super) numbers: Vec<u8>,
    plans: Vec<Plan>,
    /// The plan of each operation; 0 for those that charge nothing.
    plan_of_op: SmallVec<[u16; 4]>,
}

/// What a request charges: its charges by record and tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    is_dry_run: bool,
    pub(super) records: u16,
    pub(super) charges: SmallVec<[PlannedCharge; 4]>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlannedCharge {
    /// The number of its record among those of the request, from 1.
    pub(super) record: u16,
    pub(super) tag: RuleTag,
    /// Its index in the request.
    pub(super) place: usize,
    limit: u16,
    cost: u64,
    mode: u64,
}

impl EncodedCall {
    pub(super) fn new(
        ops: &[&OwnedOp],
        asked_at: Timestamp,
        clock: ScriptClock,
        extra: u32,
        prefix: &str,
    ) -> Self {
        let mut keys = Keys::new(prefix, ops);
        let mut limits = ScriptLimits::new(asked_at);
        let mut plans: Vec<Plan> = Vec::new();
        let mut plan_of_op = SmallVec::new();
        let mut requests = Numbers::default();
        for op in ops {
            let mut number = 0;
            match op {
                OwnedOp::Settle { charges, idempotency, is_dry_run } => {
                    let (plan, records) = plan(charges, *is_dry_run, &keys, &mut limits);
                    let place = plans.iter().position(|known| *known == plan);
                    let place = place.unwrap_or_else(|| {
                        plans.push(plan);
                        plans.len() - 1
                    });
                    number = number_of(place);
                    let once = idempotency.as_deref();
                    requests.push(if once.is_some() { CHARGE_ONCE } else { CHARGE }, 1);
                    requests.push(number.into(), 2);
                    records.iter().for_each(|record| requests.push((*record).into(), 2));
                    for planned in &plans[place].charges {
                        let charge = &charges[planned.place];
                        if charge.limit.algorithm() == Algorithm::SlidingWindowLog {
                            requests.push(keys.add(&charge.name).into(), 2);
                        }
                    }
                    if let Some(once) = once {
                        requests.push(keys.add(&once.record_name).into(), 2);
                        // A key cannot expire at once.
                        let life = once.lifetime.as_millis_ceil().clamp(1, MAX_LIFETIME_MS);
                        requests.push(life, 6);
                    }
                }
                OwnedOp::Refund(refunds) => {
                    requests.push(REFUND, 1);
                    requests.push(refunds.len() as u64, 2);
                    for refund in refunds {
                        push_refund(refund, &mut keys, &mut limits, &mut requests);
                    }
                }
                OwnedOp::RefundOnce(once) => {
                    requests.push(REFUND_ONCE, 1);
                    requests.push(once.refunds.len() as u64, 2);
                    for OwnedExpiringRefund { refund, ends_at } in &once.refunds {
                        push_refund(refund, &mut keys, &mut limits, &mut requests);
                        requests.push(ends_at.as_micros().min(BEYOND), 7);
                    }
                    requests.push(keys.add(&once.mark_name).into(), 2);
                }
                OwnedOp::Reset(names) => {
                    requests.push(RESET, 1);
                    requests.push(names.len() as u64, 2);
                    for name in names {
                        requests.push(keys.record(name).into(), 2);
                        requests.extend(split(name).1.bytes());
                        requests.push(keys.add(name).into(), 2);
                    }
                }
                // These are not for the script.
                OwnedOp::Record(_) => {}
            }
            plan_of_op.push(number);
        }
        let mut numbers = Numbers::default();
        numbers.push((clock == ScriptClock::Caller).into(), 1);
        numbers.push(asked_at.as_micros(), 7);
        numbers.push(extra.into(), 4);
        numbers.push(keys.records.len() as u64, 2);
        numbers.push(limits.known.len() as u64, 2);
        numbers.push(plans.len() as u64, 2);
        numbers.extend(limits.numbers.0);
        plans.iter().for_each(|plan| plan.write(&mut numbers));
        numbers.extend(requests.0);
        Self { keys: keys.all, numbers: numbers.0, plans, plan_of_op }
    }

    /// The plan of an operation that charges.
    pub(super) fn plan(&self, op: usize) -> Option<&Plan> {
        let number = usize::from(*self.plan_of_op.get(op)?);
        self.plans.get(number.checked_sub(1)?)
    }
}

impl Plan {
    fn write(&self, numbers: &mut Numbers) {
        numbers.push(self.is_dry_run.into(), 1);
        numbers.push(self.records.into(), 2);
        numbers.push(self.charges.len() as u64, 2);
        for PlannedCharge { record, tag, limit, cost, mode, .. } in &self.charges {
            numbers.push((*record).into(), 2);
            numbers.push((*limit).into(), 2);
            numbers.extend(tag.bytes());
            numbers.push(*cost, 7);
            numbers.push(*mode, 1);
        }
    }
}

/// The plan of a request, and the numbers of its records.
fn plan(
    charges: &[OwnedCharge],
    is_dry_run: bool,
    keys: &Keys<'_>,
    limits: &mut ScriptLimits,
) -> (Plan, SmallVec<[u16; 4]>) {
    let mut records: SmallVec<[u16; 4]> = SmallVec::new();
    let mut planned: SmallVec<[PlannedCharge; 4]> = SmallVec::new();
    for (place, OwnedCharge { name, limit, cost, mode }) in charges.iter().enumerate() {
        let record = keys.record(name);
        let known = records.iter().position(|known| *known == record);
        let slot = known.unwrap_or_else(|| {
            records.push(record);
            records.len() - 1
        });
        let mode = match mode {
            Mode::Enforce => 0,
            Mode::Shadow => 1,
            Mode::Debit => 2,
        };
        planned.push(PlannedCharge {
            record: number_of(slot),
            tag: split(name).1,
            place,
            limit: limits.number(limit),
            cost: (*cost).min(BEYOND),
            mode,
        });
    }
    planned.sort_unstable_by_key(|one| (one.record, one.tag.number()));
    let count = number_of(records.len()) - 1;
    (Plan { is_dry_run, records: count, charges: planned }, records)
}

fn push_refund(
    refund: &OwnedRefund,
    keys: &mut Keys<'_>,
    limits: &mut ScriptLimits,
    requests: &mut Numbers,
) {
    let OwnedRefund { name, limit, units, charged_at, slack_ms } = refund;
    requests.push(keys.record(name).into(), 2);
    requests.push(limits.number(limit).into(), 2);
    requests.extend(split(name).1.bytes());
    requests.push((*units).min(BEYOND), 7);
    requests.push(charged_at.is_some().into(), 1);
    requests.push(charged_at.map_or(0, Timestamp::as_micros), 7);
    requests.push(*slack_ms, 4);
    if limit.algorithm() == Algorithm::SlidingWindowLog {
        requests.push(keys.add(name).into(), 2);
    } else if let Some(calendar) = limit.calendar() {
        let (start, end) = calendar.window_at(charged_at.unwrap_or_default());
        requests.push(start.as_micros(), 7);
        requests.push(end.as_micros(), 7);
    }
}

/// The number of something, counted from 1. A call has far fewer than 65,535 of anything.
fn number_of(index: usize) -> u16 {
    u16::try_from(index + 1).unwrap_or(u16::MAX)
}

/// The keys of a call: records, each once, and then others.
struct Keys<'a> {
    prefix: &'a str,
    records: HashMap<&'a str, u16>,
    all: Vec<String>,
}

impl<'a> Keys<'a> {
    fn new(prefix: &'a str, ops: &[&'a OwnedOp]) -> Self {
        let mut keys = Self { prefix, records: HashMap::new(), all: Vec::with_capacity(ops.len()) };
        for name in ops.iter().flat_map(|op| op.counters()) {
            let record = split(name).0;
            if !keys.records.contains_key(record) {
                keys.records.insert(record, number_of(keys.all.len()));
                keys.all.push(format!("{prefix}{record}"));
            }
        }
        keys
    }

    /// The number of a counter's record.
    fn record(&self, name: &CounterName) -> u16 {
        self.records.get(split(name).0).copied().unwrap_or_default()
    }

    /// Adds a key that is not a record, and returns its number.
    fn add(&mut self, name: &CounterName) -> u16 {
        self.all.push(key(self.prefix, name));
        number_of(self.all.len() - 1)
    }
}

/// Limits that a call refers to, each written once.
#[derive(Debug)]
struct ScriptLimits {
    /// The time by the caller's clock, around which windows of the calendar are sent.
    asked_at: Timestamp,
    known: SmallVec<[Limit; 4]>,
    numbers: Numbers,
}

impl ScriptLimits {
    fn new(asked_at: Timestamp) -> Self {
        Self { asked_at, known: SmallVec::new(), numbers: Numbers::default() }
    }

    /// The number of a limit.
    fn number(&mut self, limit: &Limit) -> u16 {
        let place = self.known.iter().position(|known| known == limit).unwrap_or_else(|| {
            self.known.push(*limit);
            self.write(limit);
            self.known.len() - 1
        });
        number_of(place)
    }

    fn write(&mut self, limit: &Limit) {
        let window = limit.window().get();
        let delayed = u128::from(limit.max_delay().get()) * u128::from(limit.limit());
        let whole = u64::try_from(delayed / u128::from(window)).unwrap_or(BEYOND).min(BEYOND);
        let rest = u64::try_from(delayed % u128::from(window)).unwrap_or(0);
        let is_queue = limit.algorithm() == Algorithm::LeakyBucket;
        let (room, room_rest) = if is_queue { (0, 0) } else { (whole, rest) };
        let numbers = &mut self.numbers;
        numbers.push(
            match limit.algorithm() {
                Algorithm::TokenBucket => 1,
                Algorithm::LeakyBucket => 2,
                Algorithm::Gcra => 3,
                Algorithm::FixedWindow if limit.calendar().is_some() => 7,
                Algorithm::FixedWindow => 4,
                Algorithm::SlidingWindowCounter => 5,
                Algorithm::SlidingWindowLog => 6,
            },
            1,
        );
        numbers.push(limit.limit(), 6);
        numbers.push(window, 6);
        numbers.push(limit.ceiling().saturating_add(room), 7);
        numbers.push(room_rest, 6);
        numbers.push((is_queue && limit.max_delay().get() > 0).into(), 1);
        numbers.push(whole, 7);
        numbers.push(rest, 6);
        numbers.push(limit.skew_tolerance().get().min(BEYOND), 7);
        numbers.push(limit.capacity().saturating_mul(2), 7);
        if let Some(calendar) = limit.calendar() {
            let starts = starts_around(calendar, self.asked_at);
            numbers.push(calendar.id(), 7);
            numbers.push(starts.len() as u64, 1);
            starts.iter().for_each(|start| numbers.push(start.as_micros(), 7));
        }
    }
}

/// Where windows begin: the one of `at`, [`NEIGHBOURS`] before it and as many after it, and the end of the last. The
/// server chooses the one of its own time, so that nodes whose clocks differ do not split a window.
fn starts_around(calendar: &Calendar, at: Timestamp) -> SmallVec<[Timestamp; 2 * NEIGHBOURS + 2]> {
    let (mut start, _) = calendar.window_at(at);
    for _ in 0..NEIGHBOURS {
        (start, _) = calendar.window_at(start.minus(Micros::new(1)));
    }
    let mut starts = SmallVec::new();
    for _ in 0..2 * NEIGHBOURS + 2 {
        starts.push(start);
        (_, start) = calendar.window_at(start);
    }
    starts
}

/// Numbers, little endian, in as many bytes as each needs.
#[derive(Debug, Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    fn push(&mut self, number: u64, bytes: usize) {
        let all = number.to_le_bytes();
        self.0.extend_from_slice(all.get(..bytes).unwrap_or_default());
    }

    fn extend(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.0.extend(bytes);
    }
}
