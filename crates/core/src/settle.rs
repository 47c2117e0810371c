//! The only definition of all or nothing: if one enforced charge is refused, no state changes.

use crate::{Key, Limit, Report, State, Timestamp};

/// How a charge affects the request, and when it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Refuses the request when it does not fit.
    #[default]
    Enforce,
    /// Never refuses; counted when it fits and the request passes.
    Shadow,
    /// Charged after the request: always counted, down to one capacity below zero.
    Debit,
}

/// One rule applied to one request. The keys of one settlement are distinct.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter to charge.
    pub key: Key<'a>,
    /// The limit of the counter.
    pub limit: &'a Limit,
    /// How much to charge. Zero is a peek.
    pub cost: u64,
    /// Whether it can refuse the request.
    pub mode: Mode,
}

/// The result of one charge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChargeResult {
    /// Whether it fitted. A shadow charge that did not fit refuses no request.
    pub admitted: bool,
    /// Whether its state changed and has to be stored.
    pub written: bool,
    /// The figures of its counter afterwards.
    pub report: Report,
}

/// Charges every counter, or none; returns whether the request passed.
///
/// `states` and `results` correspond to `charges` one by one; the caller lends them, so that settling allocates
/// nothing.
#[inline]
pub fn settle(
    charges: &[Charge<'_>],
    states: &mut [Option<State>],
    now: Timestamp,
    results: &mut [ChargeResult],
) -> bool {
    if let ([charge], [state], [result]) = (charges, &mut *states, &mut *results) {
        let Charge { limit, cost, mode, .. } = *charge;
        *result = limit.settle(state, now, cost, mode);
        return result.admitted || mode != Mode::Enforce;
    }
    let mut passed = true;
    for ((charge, state), result) in charges.iter().zip(states.iter_mut()).zip(results.iter_mut()) {
        result.written = charge.limit.correct_clock_skew(state, now);
        result.admitted =
            charge.mode == Mode::Debit || charge.limit.fits(state.as_ref(), now, charge.cost);
        passed &= result.admitted || charge.mode != Mode::Enforce;
    }
    for ((charge, state), result) in charges.iter().zip(states.iter_mut()).zip(results.iter_mut()) {
        let Charge { limit, cost, mode, .. } = *charge;
        // A blocked counter has no state to write.
        let counts = cost > 0 && limit.limit > 0;
        let taken = counts && (mode == Mode::Debit || (passed && result.admitted));
        if taken {
            limit.take(state, now, cost, mode);
        }
        result.written |= taken;
        result.report = limit.report(state.as_ref(), now, cost, result.admitted);
    }
    passed
}

/// Reads whether each charge fits, and the figures of its counter. Nothing is charged; a state that a wrong clock
/// left in the future is corrected, as on every read.
pub fn dry_run(
    charges: &[Charge<'_>],
    states: &mut [Option<State>],
    now: Timestamp,
    results: &mut [ChargeResult],
) -> bool {
    let mut passed = true;
    for ((charge, state), result) in charges.iter().zip(states).zip(results) {
        let Charge { limit, cost, mode, .. } = *charge;
        result.written = limit.correct_clock_skew(state, now);
        result.admitted = mode == Mode::Debit || limit.fits(state.as_ref(), now, cost);
        result.report = limit.report(state.as_ref(), now, cost, result.admitted);
        passed &= result.admitted || mode != Mode::Enforce;
    }
    passed
}
