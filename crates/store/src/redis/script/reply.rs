//! The reply of the script, as it is documented in settle/call.lua.

use tollgate_core::{Algorithm, ChargeResult, LogDigest, Micros, Mode, Report, Timestamp};

use super::encode::EncodedCall;
use super::plan::Plan;
use crate::redis::record::{HeldUnits, Record};
use crate::remote::{OpResult, OwnedCharge, OwnedOp};
use crate::{OpOutcome, Settlement, StoreError, StoreErrorKind};

/// Reads a reply: one result for each operation.
pub(super) fn read(
    ops: &[&OwnedOp],
    call: &EncodedCall,
    reply: &redis::Value,
) -> Result<Vec<OpResult>, StoreError> {
    let redis::Value::Array(items) = reply else { return Err(corrupt()) };
    let mut items = Items(items.iter());
    let now = Timestamp::from_micros(number(items.next()?, 7)?);
    let mut results = Vec::with_capacity(ops.len());
    for (place, op) in ops.iter().enumerate() {
        results.push(match op {
            OwnedOp::Settle { charges, .. } => {
                let plan = call.plan(place).ok_or_else(corrupt)?;
                read_settlement(charges, plan, now, &mut items)?
            }
            OwnedOp::Refund(_)
            | OwnedOp::RefundOnce(_)
            | OwnedOp::Reset(_)
            | OwnedOp::Record(_) => read_refund(op, items.next()?)?,
        });
    }
    // What had to be written was not.
    if let Ok([b'!', why @ ..]) = items.next() {
        for result in &mut results {
            if result.as_ref().is_ok_and(is_written) {
                *result = Err(failed(&String::from_utf8_lossy(why)));
            }
        }
    }
    Ok(results)
}

fn corrupt() -> StoreError {
    StoreErrorKind::Corrupt.into()
}

/// The items of a reply.
struct Items<'a>(std::slice::Iter<'a, redis::Value>);

impl<'a> Items<'a> {
    fn next(&mut self) -> Result<&'a [u8], StoreError> {
        match self.0.next() {
            Some(redis::Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(corrupt()),
        }
    }
}

/// The number in the first bytes.
fn number(bytes: &[u8], width: usize) -> Result<u64, StoreError> {
    let mut all = [0; 8];
    let bytes = bytes.get(..width).ok_or_else(corrupt)?;
    all.get_mut(..width).ok_or_else(corrupt)?.copy_from_slice(bytes);
    Ok(u64::from_le_bytes(all))
}

fn is_written(outcome: &OpOutcome) -> bool {
    match outcome {
        OpOutcome::Settled(settlement) => settlement.results.iter().any(|result| result.written),
        OpOutcome::Done | OpOutcome::Refunded { .. } => true,
        OpOutcome::Replayed { .. }
        | OpOutcome::Record { .. }
        | OpOutcome::KeyReused
        | OpOutcome::RefundedBefore
        | OpOutcome::RefundExpired => false,
    }
}

/// The results of charges, or why there are none. A result that cannot be read fails its request, and no other of the
/// call.
fn read_settlement(
    charges: &[OwnedCharge],
    plan: &Plan,
    now: Timestamp,
    items: &mut Items<'_>,
) -> Result<OpResult, StoreError> {
    let mut item = items.next()?;
    let mut first = None;
    match item {
        [b'!', why @ ..] => return Ok(Err(failed(&String::from_utf8_lossy(why)))),
        b"?" => return Ok(Ok(OpOutcome::KeyReused)),
        [b'=', said @ ..] => {
            let then = Timestamp::from_micros(number(said, 7)?);
            let note = said.get(7..).unwrap_or_default();
            first = Some((then, String::from_utf8_lossy(note).into_owned()));
            item = items.next()?;
        }
        _ => {}
    }
    let flags = item.strip_prefix(b".");
    if flags.is_some() {
        item = items.next()?;
    }
    let mut records = smallvec::SmallVec::<[&[u8]; 4]>::new();
    records.push(item);
    for _ in 1..plan.records {
        records.push(items.next()?);
    }
    let now = first.as_ref().map_or(now, |(then, _)| *then);
    let mut settlement = Settlement { now, passed: true, ..Settlement::default() };
    settlement.results.resize(charges.len(), ChargeResult::default());
    let mut failure = None;
    for (place, planned) in plan.charges.iter().enumerate() {
        let Some(charge) = charges.get(planned.place) else { return Err(corrupt()) };
        let figures = match charge.limit.algorithm() {
            Algorithm::SlidingWindowLog => Some(items.next()?),
            _ => None,
        };
        let flag = match flags.map(|flags| flags.get(place)) {
            None => 3,
            Some(Some(flag @ b'0'..=b'3')) => flag - b'0',
            Some(_) => return Err(corrupt()),
        };
        let record = records.get(usize::from(planned.record) - 1).copied().unwrap_or_default();
        let entry = Record::read(record).and_then(|record| record.entry(planned.tag));
        let held = entry.and_then(|entry| entry.held());
        let is_log = figures.is_some();
        let (admitted, written) = (flag & 1 != 0, flag & 2 != 0);
        let OwnedCharge { limit, cost, mode, .. } = charge;
        let mut report = match figures {
            Some(figures) if limit.limit() > 0 => match read_figures(figures) {
                Ok(digest) => limit.report_log(&digest, now, *cost, admitted),
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            },
            _ => {
                let state = entry.and_then(|entry| entry.state());
                // The figures of logs are counted beside held units already.
                let beside = held.filter(|_| !admitted && !is_log).map_or(0, |held| held.units);
                limit.report(state.as_ref(), now, cost.saturating_add(beside), admitted)
            }
        };
        if let Some(held) = held {
            settlement.has_held_units = true;
            count_held(&mut report, held, now, admitted);
            if !admitted && !limit.fits(None, now, *cost) {
                report.retry_after = None;
            }
        }
        settlement.passed &= admitted || *mode != Mode::Enforce;
        if let Some(result) = settlement.results.get_mut(planned.place) {
            *result = ChargeResult { admitted, written, report };
        }
    }
    Ok(match (failure, first) {
        (Some(error), _) => Err(error),
        (None, Some((_, note))) => Ok(OpOutcome::Replayed { settlement, note }),
        (None, None) => Ok(OpOutcome::Settled(settlement)),
    })
}

/// Counts held units as used: none of them is left. A wait ends when fewer units are used, or when units stop being
/// held.
fn count_held(report: &mut Report, held: HeldUnits, now: Timestamp, admitted: bool) {
    let earlier = |wait: Option<Micros>| {
        let released = held.next_expiry.since(now).max(Micros::new(1));
        Some(wait.filter(|wait| *wait > Micros::ZERO).map_or(released, |wait| wait.min(released)))
    };
    report.remaining = report.remaining.saturating_sub(held.units);
    report.next_after = earlier(report.next_after);
    if !admitted {
        report.retry_after = earlier(report.retry_after);
    }
}

/// The figures of a log.
fn read_figures(bytes: &[u8]) -> Result<LogDigest, StoreError> {
    let figure = |place: usize| number(bytes.get(7 * place..).unwrap_or_default(), 7);
    let moment = |place| -> Result<_, StoreError> {
        Ok(figure(place)?.checked_sub(1).map(Timestamp::from_micros))
    };
    Ok(LogDigest { used: figure(0)?, next: moment(1)?, retry: moment(2)?, newest: moment(3)? })
}

/// The result of refunds or resets.
fn read_refund(op: &OwnedOp, said: &[u8]) -> Result<OpResult, StoreError> {
    let is_once = matches!(op, OwnedOp::RefundOnce(_));
    Ok(match said {
        [b'!', why @ ..] => Err(failed(&String::from_utf8_lossy(why))),
        b"+" if !is_once => Ok(OpOutcome::Done),
        [b'+', counters @ ..] if is_once => {
            let counters = std::str::from_utf8(counters).ok().and_then(|it| it.parse().ok());
            Ok(OpOutcome::Refunded { counters: counters.ok_or_else(corrupt)? })
        }
        b"=" => Ok(OpOutcome::RefundedBefore),
        b"-" => Ok(OpOutcome::RefundExpired),
        _ => return Err(corrupt()),
    })
}

/// Why a request could not be settled, by the error of the server.
pub(in crate::redis) fn failed(why: &str) -> StoreError {
    let is = |code: &str| why.starts_with(code);
    let is_away = ["READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "NOREPLICAS"];
    let kind = if is_away.into_iter().any(is) {
        StoreErrorKind::Unavailable
    } else if is("LATER") {
        // The server works, and so do other records.
        StoreErrorKind::Corrupt
    } else {
        StoreErrorKind::Refused
    };
    StoreError::new(kind, why)
}
