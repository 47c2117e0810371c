//! What requests charge. Those with the same rules, limits and costs share a plan. Every plan is sent in full, which the
//! script reads only when it has to; and if it is plain, also as the script uses it.

use smallvec::SmallVec;
use tollgate_core::{Algorithm, Limit, Mode, RuleTag};

use super::encode::{BEYOND, Keys, Numbers, number_of};
use super::limit::{FIXED_WINDOW, GCRA, SLIDING_WINDOW, ScriptLimit, ScriptLimits};
use crate::redis::record::{FOLLOWED, VERSION};
use crate::redis::record_name::split;
use crate::remote::OwnedCharge;

/// The most charges of a plain plan: the script reads a record at once.
const MAX_PLAIN_CHARGES: usize = 300;
/// The mode of charges that are made whatever is left.
const DEBIT: u64 = 2;
/// What plain charges are.
const SMALL_BUCKET: u64 = 1;
const BUCKET: u64 = 2;
const FIXED: u64 = 3;
const SLIDING: u64 = 4;

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

/// A charge of a plan that is plain.
struct PlainCharge<'a> {
    planned: &'a PlannedCharge,
    limit: ScriptLimit,
}

impl Plan {
    /// The plan of a request, and the numbers of its records.
    pub(super) fn new(
        charges: &[OwnedCharge],
        is_dry_run: bool,
        keys: &Keys<'_>,
        limits: &mut ScriptLimits,
    ) -> (Self, SmallVec<[u16; 4]>) {
        let mut records: SmallVec<[u16; 4]> = SmallVec::new();
        let mut planned: SmallVec<[PlannedCharge; 4]> = SmallVec::new();
        for (place, OwnedCharge { name, limit, cost, mode }) in charges.iter().enumerate() {
            let record = keys.record(name);
            let known = records.iter().position(|known| *known == record);
            let slot = known.unwrap_or_else(|| {
                records.push(record);
                records.len() - 1
            });
            planned.push(PlannedCharge {
                record: number_of(slot),
                tag: split(name).1,
                place,
                limit: limits.number(limit),
                cost: (*cost).min(BEYOND),
                mode: match mode {
                    Mode::Enforce => 0,
                    Mode::Shadow => 1,
                    Mode::Debit => DEBIT,
                },
            });
        }
        planned.sort_unstable_by_key(|one| (one.record, one.tag.number()));
        let count = number_of(records.len()) - 1;
        (Self { is_dry_run, records: count, charges: planned }, records)
    }

    /// How many of its charges are logs.
    pub(super) fn logs(&self, limits: &[Limit]) -> usize {
        let is_log = |limit: &Limit| limit.algorithm() == Algorithm::SlidingWindowLog;
        self.charges.iter().filter(|charge| charge.limit(limits).is_some_and(is_log)).count()
    }

    /// Writes it in full.
    pub(super) fn write_details(&self, numbers: &mut Numbers) {
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

    /// Writes it as the script uses it.
    pub(super) fn write(&self, limits: &[Limit], numbers: &mut Numbers) {
        let plain = self.plain(limits);
        numbers.push(plain.is_some().into(), 1);
        numbers.push(self.records.into(), 2);
        numbers.push(self.logs(limits) as u64, 2);
        let of_one_record = |one: &PlainCharge<'_>, next: &PlainCharge<'_>| {
            one.planned.record == next.planned.record
        };
        for charges in plain.iter().flat_map(|all| all.chunk_by(of_one_record)) {
            write_record(charges, numbers);
        }
    }

    /// Its charges with their limits, if all of them are plain.
    fn plain(&self, limits: &[Limit]) -> Option<SmallVec<[PlainCharge<'_>; 4]>> {
        if self.is_dry_run || self.charges.len() > MAX_PLAIN_CHARGES {
            return None;
        }
        let plain = |planned: &'_ PlannedCharge| {
            let limit = ScriptLimit::new(planned.limit(limits)?);
            let is_plain = limit.algorithm <= SLIDING_WINDOW
                && limit.limit > 0
                && planned.cost > 0
                && planned.mode != DEBIT;
            is_plain.then_some(limit)
        };
        let plain = |planned| Some(PlainCharge { planned, limit: plain(planned)? });
        self.charges.iter().map(plain).collect()
    }
}

impl PlannedCharge {
    fn limit<'a>(&self, limits: &'a [Limit]) -> Option<&'a Limit> {
        limits.get(usize::from(self.limit).checked_sub(1)?)
    }
}

/// Writes the layout of a record with these entries, and what they are charged.
fn write_record(charges: &[PlainCharge<'_>], numbers: &mut Numbers) {
    let mut head = Numbers(vec![VERSION]);
    let mut form = String::from("I4I7");
    let mut bytes = 11;
    for (place, PlainCharge { planned, limit }) in charges.iter().enumerate() {
        let is_followed = place + 1 < charges.len();
        head.extend(planned.tag.bytes());
        head.push((limit.kind() | if is_followed { FOLLOWED } else { 0 }).into(), 1);
        let is_bucket = limit.algorithm <= GCRA;
        if is_bucket {
            head.push(limit.limit, if limit.is_small { 2 } else { 6 });
        }
        if limit.is_small {
            head.push(limit.window / 1_000_000, 3);
        } else {
            head.push(limit.window, 6);
        }
        let (more, length) = match (limit.algorithm, limit.is_small) {
            (FIXED_WINDOW, true) => ("I4", 4),
            (FIXED_WINDOW, false) => ("I6", 6),
            (SLIDING_WINDOW, true) => ("I4I4", 8),
            (SLIDING_WINDOW, false) => ("I6I6", 12),
            (_, true) => ("I7", 7),
            (_, false) => ("I7I6", 13),
        };
        form.push_str(more);
        bytes += length;
    }
    let form = format!("<c{}{form}", head.0.len());
    bytes += head.0.len();
    numbers.push(head.0.len() as u64, 2);
    numbers.extend(head.0);
    numbers.push(form.len() as u64, 2);
    numbers.extend(form.into_bytes());
    numbers.push(bytes as u64, 2);
    numbers.push(charges.len() as u64, 2);
    for PlainCharge { planned, limit } in charges {
        write_charge(planned, limit, numbers);
    }
}

/// Writes a charge: what it takes, and from which amount on it does not fit.
fn write_charge(charge: &PlannedCharge, limit: &ScriptLimit, numbers: &mut Numbers) {
    let window = limit.window;
    let (room, room_rest) = limit.room;
    // The largest amount that the cost fits beside; none if it never fits.
    let most = room.checked_sub(charge.cost).map(|most| (most, room_rest));
    let most = most.map(|most| limit.delayed.map_or(most, |delayed| most.min(delayed)));
    let (kind, cost, bound) = match (limit.algorithm, limit.is_small) {
        (FIXED_WINDOW, _) => (FIXED, charge.cost, most.map(|(most, _)| (most + 1, 0))),
        (SLIDING_WINDOW, _) => (SLIDING, charge.cost, most.map(|(most, _)| (most + 1, 0))),
        (_, true) => {
            let bound = most.map(|(whole, rest)| (whole * window + rest + 1, 0));
            (SMALL_BUCKET, most.map_or(0, |_| charge.cost * window), bound)
        }
        (_, false) => (BUCKET, charge.cost, most.map(|(whole, rest)| (whole, rest + 1))),
    };
    let (bound, bound_rest) = bound.unwrap_or_default();
    numbers.push(kind, 1);
    numbers.push(charge.mode, 1);
    numbers.push(limit.limit, 6);
    numbers.push(window, 6);
    numbers.push(cost, 7);
    numbers.push(bound, 7);
    numbers.push(bound_rest, 6);
    // Seconds that a debt is kept beyond what it needs, so that it needs another expiry only now and then.
    numbers.push((4 + window.div_ceil(4_000_000)).min(64), 1);
}
