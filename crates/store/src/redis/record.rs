//! The record of a subject in Redis, as it is documented in settle/record.lua.

use tollgate_core::{Algorithm, Micros, RuleTag, State, Timestamp};

/// The first byte of a record.
pub(super) const VERSION: u8 = 1;
/// Added to the kind of an entry that more bytes follow.
const FLAGGED: u8 = 32;
/// Added to the kind of an entry that does not share the record's expiry and time.
const APART: u8 = 64;
/// Added to the kind of every entry but the last.
pub(super) const FOLLOWED: u8 = 128;
/// The flag of an entry with held units.
const HELD: u8 = 1;
/// The kind of a log.
const LOG: u8 = 6;
/// The length of a time.
const TIME: usize = 7;

/// A record: its heads, and what follows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    heads: &'a [u8],
    numbers: &'a [u8],
    /// The expiry and the time that entries share.
    kept_until: u32,
    time: &'a [u8],
}

/// The counter of one rule in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) tag: RuleTag,
    /// Until when it is kept, in seconds since the epoch.
    pub(super) kept_until: u32,
    kind: u8,
    /// What of the limit its head has.
    constants: &'a [u8],
    time: &'a [u8],
    numbers: &'a [u8],
    /// What follows the numbers of an entry with flags, and begins with them.
    tail: &'a [u8],
}

/// Units of a counter that are promised, but not charged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldUnits {
    pub(super) units: u64,
    /// When the first of them expires.
    pub(super) next_expiry: Timestamp,
}

/// The head of an entry.
struct Head<'a> {
    tag: RuleTag,
    kind: u8,
    constants: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if it is not one.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let heads = bytes.strip_prefix(&[VERSION])?;
        let mut numbers = heads;
        let (mut is_followed, mut is_shared) = (!heads.is_empty(), false);
        while is_followed {
            let (head, rest) = Head::read(numbers)?;
            is_followed = head.kind & FOLLOWED != 0;
            is_shared |= head.kind & APART == 0;
            numbers = rest;
        }
        let heads = heads.get(..heads.len() - numbers.len())?;
        let (mut kept_until, mut time): (u32, &[u8]) = (0, &[]);
        if is_shared {
            (kept_until, numbers) = expiry(numbers)?;
            (time, numbers) = numbers.split_at_checked(TIME)?;
        }
        Some(Self { heads, numbers, kept_until, time })
    }

    /// The entry with a tag.
    pub(super) fn entry(self, tag: RuleTag) -> Option<Entry<'a>> {
        self.into_iter().find(|entry| entry.tag == tag)
    }
}

/// The entries, as far as they can be read.
impl<'a> Iterator for Record<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let (Head { tag, kind, constants }, heads) = Head::read(self.heads)?;
        let (mut kept_until, mut time, mut rest) = (self.kept_until, self.time, self.numbers);
        if kind & APART != 0 {
            (kept_until, rest) = expiry(rest)?;
            (time, rest) = rest.split_at_checked(if has_time(kind) { TIME } else { 0 })?;
        }
        let (numbers, mut rest) = rest.split_at_checked(number_bytes(kind)?)?;
        let mut tail: &[u8] = &[];
        if kind & FLAGGED != 0 {
            let (length, after) = rest.split_first()?;
            (tail, rest) = after.split_at_checked(usize::from(*length))?;
        }
        (self.heads, self.numbers) = (heads, rest);
        Some(Entry { tag, kept_until, kind: kind % FLAGGED, constants, time, numbers, tail })
    }
}

impl<'a> Head<'a> {
    /// Reads a head, and returns what follows it.
    fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([low, middle, high, kind], rest) = bytes.split_first_chunk::<4>()?;
        let (constants, rest) = rest.split_at_checked(constant_bytes(*kind)?)?;
        let tag = RuleTag::from_bytes([*low, *middle, *high]);
        Some((Self { tag, kind: *kind, constants }, rest))
    }
}

impl Entry<'_> {
    /// Whether its state is a log, which is kept elsewhere.
    pub(super) const fn is_log(&self) -> bool {
        self.kind == LOG
    }

    /// The units that are held; `None` if there are none.
    pub(super) fn held(&self) -> Option<HeldUnits> {
        let (_, mut held) = self.tail.split_first().filter(|(flags, _)| **flags & HELD != 0)?;
        let units = number(&mut held, 6).filter(|units| *units > 0)?;
        let next_expiry = Timestamp::from_micros(number(&mut held, TIME).unwrap_or(0));
        Some(HeldUnits { units, next_expiry })
    }

    /// Its state; `None` if it is a log, which is kept elsewhere, or is not valid.
    pub(super) fn state(&self) -> Option<State> {
        let algorithm = match self.kind {
            1 | 9 => Algorithm::TokenBucket,
            2 | 10 => Algorithm::LeakyBucket,
            3 | 11 => Algorithm::Gcra,
            4 | 7 | 12 => Algorithm::FixedWindow,
            5 | 13 => Algorithm::SlidingWindowCounter,
            _ => return None,
        };
        let at = Timestamp::from_micros(number(&mut { self.time }, TIME)?);
        let (constants, numbers) = (&mut { self.constants }, &mut { self.numbers });
        match self.kind {
            1..=3 => {
                let (limit, window) = (number(constants, 6)?, Micros::new(number(constants, 6)?));
                let (whole, rest) = (number(numbers, 7)?, number(numbers, 6)?);
                State::from_bucket_parts(algorithm, limit, window, whole, rest, at).ok()
            }
            9..=11 => {
                let limit = number(constants, 2)?;
                let window = Micros::from_secs(number(constants, 3)?);
                let owed = number(numbers, 7)?;
                let whole = owed.checked_div(window.get())?;
                let rest = owed % window.get();
                State::from_bucket_parts(algorithm, limit, window, whole, rest, at).ok()
            }
            kind => {
                let is_small = kind > 8;
                let window = if is_small {
                    Micros::from_secs(number(constants, 3)?)
                } else {
                    Micros::new(number(constants, 6)?)
                };
                let calendar = if kind == 7 { number(constants, 7)? } else { 0 };
                // The start of a window of the calendar, which is for readers.
                if kind == 7 {
                    number(numbers, 7)?;
                }
                let width = if is_small { 4 } else { 6 };
                let current = number(numbers, width)?;
                let previous = if kind % 8 == 5 { number(numbers, width)? } else { 0 };
                State::from_window_parts(algorithm, window, calendar, at, current, previous).ok()
            }
        }
    }
}

/// Takes an expiry.
fn expiry(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (expiry, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*expiry), rest))
}

/// Takes a number of so many bytes.
fn number(bytes: &mut &[u8], width: usize) -> Option<u64> {
    let (number, rest) = bytes.split_at_checked(width)?;
    *bytes = rest;
    let mut all = [0; 8];
    all.get_mut(..width)?.copy_from_slice(number);
    Some(u64::from_le_bytes(all))
}

/// The length of what a head has of its limit, by kind.
const fn constant_bytes(kind: u8) -> Option<usize> {
    Some(match kind % FLAGGED {
        0 => 0,
        1..=3 => 12,
        4 | 5 | LOG => 6,
        7 => 13,
        9..=11 => 5,
        12 | 13 => 3,
        _ => return None,
    })
}

/// The length of numbers, by kind.
const fn number_bytes(kind: u8) -> Option<usize> {
    Some(match kind % FLAGGED {
        0 | LOG => 0,
        1..=3 | 7 => 13,
        4 => 6,
        5 => 12,
        9..=11 => 7,
        12 => 4,
        13 => 8,
        _ => return None,
    })
}

/// Whether an entry of a kind has a time.
const fn has_time(kind: u8) -> bool {
    !matches!(kind % FLAGGED, 0 | LOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = &'a [(u64, usize)];

    fn bytes(numbers: Fields<'_>) -> Vec<u8> {
        numbers.iter().flat_map(|(it, width)| it.to_le_bytes()[..*width].to_vec()).collect()
    }

    /// A record of heads with their tags and kinds, and numbers.
    fn record(heads: &[(u8, u8, Fields<'_>)], numbers: &[Fields<'_>]) -> Vec<u8> {
        let mut record = vec![VERSION];
        for (place, (tag, kind, constants)) in heads.iter().enumerate() {
            let more = if place + 1 < heads.len() { FOLLOWED } else { 0 };
            record.extend([*tag, 0, 0, kind | more]);
            record.extend(bytes(constants));
        }
        record.extend(numbers.iter().flat_map(|numbers| bytes(numbers)));
        record
    }

    fn states(bytes: &[u8]) -> Vec<Option<String>> {
        let record = Record::read(bytes).expect("a record");
        record.map(|entry| entry.state().map(|state| state.to_string())).collect()
    }

    #[test]
    fn entries_share_a_time_or_have_their_own() {
        const SECOND: u64 = 1_000_000;
        let record = record(
            &[
                (1, 3, &[(10, 6), (SECOND, 6)]),
                // With held units.
                (2, 5 | FLAGGED | APART, &[(SECOND, 6)]),
                (3, 6 | APART, &[(SECOND, 6)]),
                (4, 4, &[(2 * SECOND, 6)]),
                (5, 7 | APART, &[(86, 6), (7, 7)]),
                (6, 11, &[(10, 2), (3, 3)]),
                (7, 13, &[(3, 3)]),
            ],
            &[
                &[(99, 4), (77, 7)],
                &[(3, 7), (500_000, 6)],
                &[(98, 4), (88, 7), (4, 6), (5, 6), (14, 1), (1, 1), (6, 6), (1, 7)],
                &[(99, 4)],
                &[(6, 6)],
                &[(99, 4), (60, 7), (50, 7), (1, 6)],
                &[(7 * SECOND + 10, 7)],
                &[(8, 4), (9, 4)],
            ],
        );
        let expected = [
            Some("g:10:1000000:3:500000:77"),
            Some("c:1000000:88:4:5"),
            None,
            Some("f:2000000:77:6"),
            // A window of 86 us is none.
            None,
            Some("g:10:3000000:2:1000010:77"),
            Some("c:3000000:77:8:9"),
        ];
        assert_eq!(states(&record), expected.map(|state| state.map(str::to_owned)));
        let record = Record::read(&record).expect("a record");
        let kept: Vec<_> = record.map(|entry| (entry.kept_until, entry.held())).collect();
        let held = HeldUnits { units: 6, next_expiry: Timestamp::from_micros(1) };
        assert_eq!(kept[..3], [(99, None), (98, Some(held)), (99, None)]);
        assert_eq!(record.map(|entry| entry.is_log()).filter(|is| *is).count(), 1);
        let entry = record.entry(RuleTag::from_bytes([4, 0, 0])).expect("an entry");
        assert_eq!(entry.state().expect("a state").to_string(), "f:2000000:77:6");
        assert!(record.entry(RuleTag::from_bytes([9, 0, 0])).is_none());
    }

    #[test]
    fn what_is_no_record_is_not_read() {
        assert!(Record::read(b"").is_none() && Record::read(b"t:1:1:1:1:1").is_none());
        assert_eq!(states(&[VERSION]), []);
        // Cut in a head, in the time that entries share, and in numbers; and an unknown kind.
        let bucket = &[(1, 3, &[(10, 6), (1_000_000, 6)][..])];
        let whole = record(bucket, &[&[(99, 4), (77, 7)], &[(3, 7), (10, 6)]]);
        assert_eq!(states(&whole), [Some("g:10:1000000:3:10:77".to_owned())]);
        for cut in 1..whole.len() {
            let entries = Record::read(&whole[..cut]).map(Iterator::count);
            assert_eq!(entries.unwrap_or(0), 0, "{cut} bytes");
        }
        assert!(Record::read(&record(&[(1, 8, &[(10, 6)])], &[&[(99, 4), (77, 7)]])).is_none());
    }
}
