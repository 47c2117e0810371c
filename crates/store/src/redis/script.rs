//! The arguments and replies of the script that settles: numbers in, states out.

use std::borrow::Cow;
use std::str::FromStr as _;

use aws_lc_rs::digest;
use redis::Cmd;
use smallvec::SmallVec;
use tollgate_core::{
    Algorithm, Calendar, ChargeResult, Limit, LogDigest, MAX_LIMIT, Micros, Mode, Report, State,
    Timestamp,
};

use super::numbers::Numbers;
use crate::remote::{
    CounterName, OpResult, OwnedCharge, OwnedExpiringRefund, OwnedOp, OwnedRefund,
};
use crate::{OpOutcome, Settlement, StoreError, StoreErrorKind};

/// Charges and refunds counters.
pub(super) const SOURCE: &str = include_str!("settle.lua");
/// The largest limit that the script can count in: its numbers are doubles.
pub(super) const MAX_SCRIPT_LIMIT: u64 = 1 << 40;
/// A number above every limit.
const BEYOND: u64 = 1 << 52;
/// The longest lifetime of a key: ten years.
const MAX_LIFETIME_MS: u64 = 315_360_000_000;
/// The kinds of requests, as documented in the script.
const SETTLE: u64 = 1;
const REFUND: u64 = 2;
const SETTLE_IDEMPOTENT: u64 = 3;
/// Added to a kind, makes it a dry run.
const DRY_RUN: u64 = 3;
const REFUND_ONCE: u64 = 7;
/// The number of fields of a limit, as documented in the script.
const FIELDS_OF_LIMIT: usize = 9;

/// How many windows of the calendar before and after that of the caller's time are sent.
const NEIGHBOURS: usize = 2;

const _: () = assert!(MAX_SCRIPT_LIMIT < MAX_LIMIT);

/// The digest of a script in Redis: the SHA-1 of its text.
pub(super) fn digest(script: &str) -> String {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, script.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the script can count in this limit.
pub(super) fn holds(limit: &Limit) -> bool {
    limit.limit() <= MAX_SCRIPT_LIMIT && limit.ceiling() <= MAX_SCRIPT_LIMIT
}

/// One call of the script.
#[derive(Debug)]
pub(super) struct ScriptCall<'a> {
    ops: SmallVec<[&'a OwnedOp; 4]>,
    /// The time by the caller's clock.
    asked_at: Timestamp,
    /// Which clock dates the call.
    clock: ScriptClock,
    /// How long states are kept beyond their expiry.
    pub(super) extra_ms: u64,
}

/// Which clock dates a call of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptClock {
    Server,
    Caller,
}

impl<'a> ScriptCall<'a> {
    pub(super) fn new(
        ops: impl Iterator<Item = &'a OwnedOp>,
        asked_at: Timestamp,
        clock: ScriptClock,
        extra_ms: u64,
    ) -> Self {
        Self { ops: ops.collect(), asked_at, clock, extra_ms }
    }

    /// Adds keys and arguments to `EVALSHA <digest>` or `EVAL <script>`.
    pub(super) fn write(&self, prefix: &str, command: &mut Cmd) {
        let names = || self.ops.iter().flat_map(|op| op.names());
        command.arg(names().count());
        let mut key = prefix.to_owned();
        for name in names() {
            key.truncate(prefix.len());
            key.push_str(name.as_str());
            command.arg(&key);
        }
        command.arg(self.numbers());
        for op in &self.ops {
            match op {
                OwnedOp::Settle { idempotency: Some(key), .. } => {
                    command.arg(key.body.as_slice()).arg(key.record.to_string());
                }
                OwnedOp::RefundOnce(once) => {
                    command.arg(once.attempt.to_string());
                }
                OwnedOp::Settle { .. }
                | OwnedOp::Refund(_)
                | OwnedOp::Reset(_)
                | OwnedOp::Record(_) => {}
            }
        }
    }

    fn numbers(&self) -> Vec<u8> {
        let mut limits = ScriptLimits::new(self.asked_at);
        let mut requests = Numbers::default();
        for op in &self.ops {
            match op {
                OwnedOp::Settle { charges, idempotency, is_dry_run } => {
                    let kind = if idempotency.is_some() { SETTLE_IDEMPOTENT } else { SETTLE };
                    requests.push(kind + if *is_dry_run { DRY_RUN } else { 0 });
                    push_charges(charges, &mut limits, &mut requests);
                    if let Some(key) = idempotency {
                        // A key cannot expire at once.
                        requests.push(key.lifetime.as_millis_ceil().clamp(1, MAX_LIFETIME_MS));
                    }
                }
                OwnedOp::Refund(refunds) => {
                    requests.push(REFUND);
                    requests.push(refunds.len() as u64);
                    refunds.iter().for_each(|it| push_refund(it, &mut limits, &mut requests));
                }
                OwnedOp::RefundOnce(once) => {
                    requests.push(REFUND_ONCE);
                    requests.push(once.refunds.len() as u64);
                    for OwnedExpiringRefund { refund, ends_at } in &once.refunds {
                        push_refund(refund, &mut limits, &mut requests);
                        requests.push(ends_at.as_micros().min(BEYOND));
                    }
                }
                OwnedOp::Reset(_) | OwnedOp::Record(_) => {}
            }
        }
        let mut numbers = Numbers::default();
        let ours = (self.clock == ScriptClock::Caller).then_some(self.asked_at);
        numbers.push_or_none(ours.map(Timestamp::as_micros));
        numbers.push(self.extra_ms);
        numbers.push(limits.known.len() as u64);
        numbers.append(&limits.numbers);
        numbers.append(&requests);
        numbers.into_array()
    }

    /// Reads the reply of the script: one result for each operation.
    pub(super) fn read(&self, reply: &redis::Value) -> Result<Vec<OpResult>, StoreError> {
        let corrupt = || StoreError::from(StoreErrorKind::Corrupt);
        let redis::Value::Array(items) = reply else { return Err(corrupt()) };
        // Only what other programs wrote into Redis can be anything but text, and that is checked where it is read.
        let mut texts = items.iter().map(|item| match item {
            redis::Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        });
        let mut text = || texts.next().flatten().ok_or_else(corrupt);
        let now = Timestamp::from_micros(text()?.parse().map_err(|_| corrupt())?);
        let mut results = Vec::with_capacity(self.ops.len());
        for op in &self.ops {
            results.push(match op {
                OwnedOp::Settle { charges, idempotency: None, .. } => {
                    read_lines(charges, now, &mut text)?.map(OpOutcome::Settled)
                }
                OwnedOp::Settle { charges, .. } => read_idempotent(charges, now, &mut text)?,
                OwnedOp::RefundOnce(_) => read_refund_once(&text()?)?,
                OwnedOp::Refund(_) | OwnedOp::Reset(_) | OwnedOp::Record(_) => {
                    let mut result = Ok(OpOutcome::Done);
                    for _ in op.names() {
                        if let Some(why) = text()?.strip_prefix('!') {
                            result = Err(failed(why));
                        }
                    }
                    result
                }
            });
        }
        Ok(results)
    }
}

fn push_charges(charges: &[OwnedCharge], limits: &mut ScriptLimits, requests: &mut Numbers) {
    requests.push(charges.len() as u64);
    for OwnedCharge { limit, cost, mode, .. } in charges {
        requests.push(limits.place(limit));
        requests.push((*cost).min(BEYOND));
        requests.push(match mode {
            Mode::Enforce => 0,
            Mode::Shadow => 1,
            Mode::Debit => 2,
        });
    }
}

fn push_refund(refund: &OwnedRefund, limits: &mut ScriptLimits, requests: &mut Numbers) {
    let OwnedRefund { limit, units, charged_at, slack_ms, .. } = refund;
    requests.push(limits.place(limit));
    requests.push((*units).min(BEYOND));
    requests.push_or_none(charged_at.map(Timestamp::as_micros));
    requests.push(*slack_ms);
    if let Some(calendar) = limit.calendar() {
        let (start, end) = calendar.window_at(charged_at.unwrap_or_default());
        requests.push(start.as_micros());
        requests.push(end.as_micros());
    }
}

/// The results of charges, or why there are none. A result that cannot be read fails its request, and no other of the
/// call.
fn read_lines<'a>(
    charges: &[OwnedCharge],
    now: Timestamp,
    text: &mut impl FnMut() -> Result<Cow<'a, str>, StoreError>,
) -> Result<Result<Settlement, StoreError>, StoreError> {
    let mut settlement = Settlement { now, passed: true, ..Settlement::default() };
    let mut failure = None;
    for charge in charges {
        let said = text()?;
        if let Some(why) = said.strip_prefix('!') {
            failure = Some(failed(why));
            continue;
        }
        let Some(line) = line(charge, &said, now) else {
            failure = Some(StoreErrorKind::Corrupt.into());
            continue;
        };
        settlement.passed &= line.admitted || charge.mode != Mode::Enforce;
        settlement.results.push(line);
    }
    Ok(failure.map_or(Ok(settlement), Err))
}

/// The results of a request with an idempotency key, which may be a copy.
fn read_idempotent<'a>(
    charges: &[OwnedCharge],
    now: Timestamp,
    text: &mut impl FnMut() -> Result<Cow<'a, str>, StoreError>,
) -> Result<OpResult, StoreError> {
    let corrupt = || StoreError::from(StoreErrorKind::Corrupt);
    let verdict = text()?;
    let (kind, rest) = verdict.split_at_checked(1).ok_or_else(corrupt)?;
    Ok(match kind {
        "+" => read_lines(charges, now, text)?.map(OpOutcome::Settled),
        "=" => {
            let (then, note) = rest.split_once(':').ok_or_else(corrupt)?;
            let then = Timestamp::from_micros(then.parse().map_err(|_| corrupt())?);
            let settlement = read_lines(charges, then, text)?;
            settlement.map(|settlement| OpOutcome::Replayed { settlement, note: note.to_owned() })
        }
        "~" => Ok(OpOutcome::KeyReused),
        "!" => Err(failed(rest)),
        _ => return Err(corrupt()),
    })
}

/// The result of refunds that are made once.
fn read_refund_once(said: &str) -> Result<OpResult, StoreError> {
    let corrupt = || StoreError::from(StoreErrorKind::Corrupt);
    let (kind, rest) = said.split_at_checked(1).ok_or_else(corrupt)?;
    Ok(match kind {
        "+" => Ok(OpOutcome::Refunded { counters: rest.parse().map_err(|_| corrupt())? }),
        "=" => Ok(OpOutcome::RefundedBefore),
        "-" => Ok(OpOutcome::RefundExpired),
        "!" => Err(failed(rest)),
        _ => return Err(corrupt()),
    })
}

/// The result of a charge.
fn line(charge: &OwnedCharge, said: &str, now: Timestamp) -> Option<ChargeResult> {
    let flag = |place: usize| Some(*said.as_bytes().get(place)? == b'1');
    let (admitted, written, text) = (flag(0)?, flag(1)?, said.get(2..)?);
    let OwnedCharge { limit, cost, .. } = charge;
    let report = if limit.algorithm() == Algorithm::SlidingWindowLog && limit.limit() > 0 {
        limit.report_log(&read_digest(text)?, now, *cost, admitted)
    } else {
        report(limit, text, now, *cost, admitted)?
    };
    Some(ChargeResult { admitted, written, report })
}

fn report(limit: &Limit, text: &str, now: Timestamp, cost: u64, admitted: bool) -> Option<Report> {
    let state = if text.is_empty() { None } else { Some(State::from_str(text).ok()?) };
    Some(limit.report(state.as_ref(), now, cost, admitted))
}

fn read_digest(text: &str) -> Option<LogDigest> {
    let mut fields = text.split(':');
    let used = fields.next()?.parse().ok()?;
    let mut moment = || match fields.next()? {
        "" => Some(None),
        micros => Some(Some(Timestamp::from_micros(micros.parse().ok()?))),
    };
    Some(LogDigest { used, next: moment()?, retry: moment()?, newest: moment()? })
}

/// Why a request could not be settled, by the error of the server.
pub(super) fn failed(why: &str) -> StoreError {
    let is = |code: &str| why.starts_with(code);
    let is_away = ["READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "NOREPLICAS"];
    let kind = if is_away.into_iter().any(is) {
        StoreErrorKind::Unavailable
    } else {
        StoreErrorKind::Refused
    };
    StoreError::new(kind, why)
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

    /// The index of a limit, starting at one.
    fn place(&mut self, limit: &Limit) -> u64 {
        let place = self.known.iter().position(|known| known == limit).unwrap_or_else(|| {
            self.known.push(*limit);
            self.write(limit);
            self.known.len() - 1
        });
        place as u64 + 1
    }

    fn write(&mut self, limit: &Limit) {
        let window = limit.window().get();
        let delayed = u128::from(limit.max_delay().get()) * u128::from(limit.limit());
        let whole = u64::try_from(delayed / u128::from(window)).unwrap_or(BEYOND);
        let rest = u64::try_from(delayed % u128::from(window)).unwrap_or(0);
        let is_queue = limit.algorithm() == Algorithm::LeakyBucket;
        let has_delay = limit.max_delay().get() > 0;
        let (room, room_rest) = if is_queue { (0, 0) } else { (whole.min(BEYOND), rest) };
        let fields: [Option<u64>; FIELDS_OF_LIMIT] = [
            Some(match limit.algorithm() {
                Algorithm::TokenBucket => 1,
                Algorithm::LeakyBucket => 2,
                Algorithm::Gcra => 3,
                Algorithm::FixedWindow if limit.calendar().is_some() => 7,
                Algorithm::FixedWindow => 4,
                Algorithm::SlidingWindowCounter => 5,
                Algorithm::SlidingWindowLog => 6,
            }),
            Some(limit.limit()),
            Some(window),
            Some(limit.ceiling().saturating_add(room)),
            Some(room_rest),
            (is_queue && has_delay).then_some(whole.min(BEYOND)),
            Some(rest),
            Some(limit.skew_tolerance().get().min(BEYOND)),
            Some(limit.capacity().saturating_mul(2)),
        ];
        fields.into_iter().for_each(|field| self.numbers.push_or_none(field));
        if let Some(calendar) = limit.calendar() {
            let starts = starts_around(calendar, self.asked_at);
            self.numbers.push(calendar.id());
            self.numbers.push(starts.len() as u64);
            starts.iter().for_each(|start| self.numbers.push(start.as_micros()));
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

/// The text of a state, joined from the list that a log is stored in.
pub(super) fn log_text(list: &[String]) -> Option<String> {
    let (head, entries) = list.split_first()?;
    let window = head.strip_prefix("s:")?.split(':').next()?;
    Some(format!("s:{window}:{}", entries.join(",")))
}

/// The key of a counter.
pub(super) fn key(prefix: &str, name: &CounterName) -> String {
    format!("{prefix}{}", name.as_str())
}
