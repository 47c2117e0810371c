//! The keys and numbers of a call of the script, as they are documented in settle/call.lua. Requests with the same
//! rules, limits and costs share a plan, so that each is a few bytes.

use std::collections::HashMap;

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Timestamp};

use super::limit::ScriptLimits;
use super::plan::Plan;
use super::{ScriptClock, key};
use crate::redis::record_name::split;
use crate::remote::{CounterName, OwnedExpiringRefund, OwnedOp, OwnedRefund};

/// A number above every limit.
pub(super) const BEYOND: u64 = 1 << 52;
/// The longest lifetime of a key: ten years.
const MAX_LIFETIME_MS: u64 = 315_360_000_000;
/// What requests are.
const CHARGE: u64 = 0;
const REFUND: u64 = 1;
const REFUND_ONCE: u64 = 2;
const RESET: u64 = 3;
const CHARGE_ONCE: u64 = 4;
/// The most numbers of records and logs in a run of requests: the script reads them at once.
const MAX_RUN: usize = 1_000;

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct EncodedCall {
    pub(super) keys: Vec<String>,
    pub(super) numbers: Vec<u8>,
    /// Limits and plans in full.
    pub(super) details: Vec<u8>,
    plans: Vec<Plan>,
    /// The plan of each operation; 0 for those that charge nothing.
    plan_of_op: SmallVec<[u16; 4]>,
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
        let mut run = Run::default();
        for op in ops {
            let mut number = 0;
            match op {
                OwnedOp::Settle { charges, idempotency, is_dry_run } => {
                    let (plan, records) = Plan::new(charges, *is_dry_run, &keys, &mut limits);
                    let place = plans.iter().position(|known| *known == plan);
                    let place = place.unwrap_or_else(|| {
                        plans.push(plan);
                        plans.len() - 1
                    });
                    number = number_of(place);
                    let plan = &plans[place];
                    let once = idempotency.as_deref();
                    if once.is_some() {
                        requests.push(CHARGE_ONCE, 1);
                        requests.push(number.into(), 2);
                    } else {
                        let width = usize::from(plan.records) + plan.logs(&limits.known);
                        run.continue_with(number, width, &mut requests);
                    }
                    records.iter().for_each(|record| requests.push((*record).into(), 2));
                    for planned in &plan.charges {
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
        numbers.push(plans.len() as u64, 2);
        plans.iter().for_each(|plan| plan.write(&limits.known, &mut numbers));
        numbers.extend(requests.0);
        let mut details = Numbers::default();
        details.push(limits.known.len() as u64, 2);
        details.push(plans.len() as u64, 2);
        details.extend(limits.numbers.0);
        plans.iter().for_each(|plan| plan.write_details(&mut details));
        Self { keys: keys.all, numbers: numbers.0, details: details.0, plans, plan_of_op }
    }

    /// The plan of an operation that charges.
    pub(super) fn plan(&self, op: usize) -> Option<&Plan> {
        let number = usize::from(*self.plan_of_op.get(op)?);
        self.plans.get(number.checked_sub(1)?)
    }
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

/// Requests that charge by the same plan and follow one another are counted, not repeated.
#[derive(Debug, Default)]
struct Run {
    /// Its plan, and how many requests it has; 0 without one.
    plan: u16,
    count: u16,
    /// Where that number is, and where the run ends.
    place: usize,
    end: usize,
}

impl Run {
    /// Adds a request, with so many numbers of records and logs, to the run, or begins another.
    fn continue_with(&mut self, plan: u16, width: usize, requests: &mut Numbers) {
        let numbers = (usize::from(self.count) + 1) * width;
        if self.plan != plan || self.end != requests.0.len() || numbers > MAX_RUN {
            requests.push(CHARGE, 1);
            requests.push(plan.into(), 2);
            (self.plan, self.count, self.place) = (plan, 0, requests.0.len());
            requests.push(0, 2);
        }
        self.count += 1;
        let count = self.count.to_le_bytes();
        if let Some(place) = requests.0.get_mut(self.place..self.place + 2) {
            place.copy_from_slice(&count);
        }
        self.end = requests.0.len() + 2 * width;
    }
}

/// The number of something, counted from 1. A call has far fewer than 65,535 of anything.
pub(super) fn number_of(index: usize) -> u16 {
    u16::try_from(index + 1).unwrap_or(u16::MAX)
}

/// The keys of a call: records, each once, and then others.
pub(super) struct Keys<'a> {
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
    pub(super) fn record(&self, name: &CounterName) -> u16 {
        self.records.get(split(name).0).copied().unwrap_or_default()
    }

    /// Adds a key that is not a record, and returns its number.
    fn add(&mut self, name: &CounterName) -> u16 {
        self.all.push(key(self.prefix, name));
        number_of(self.all.len() - 1)
    }
}

/// Numbers, little endian, in as many bytes as each needs.
#[derive(Debug, Default)]
pub(super) struct Numbers(pub(super) Vec<u8>);

impl Numbers {
    pub(super) fn push(&mut self, number: u64, bytes: usize) {
        let all = number.to_le_bytes();
        self.0.extend_from_slice(all.get(..bytes).unwrap_or_default());
    }

    pub(super) fn extend(&mut self, bytes: impl IntoIterator<Item = u8>) {
        self.0.extend(bytes);
    }
}
