//! The record of a subject in Redis, as it is documented in settle/record.lua.

use tollgate_core::{Algorithm, Micros, RuleTag, State, Timestamp};

/// The first byte of a record.
const VERSION: u8 = 1;
/// Set in the kind of an entry that more bytes follow.
const FLAGS: u8 = 0xf0;

/// A record: entries by tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a>(&'a [u8]);

/// The counter of one rule in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) tag: RuleTag,
    /// Until when it is kept, in seconds since the epoch.
    pub(super) kept_until: u32,
    kind: u8,
    body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads a record; `None` if it is not one.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        bytes.strip_prefix(&[VERSION]).map(Self)
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
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        let [a, b, c, d, low, middle, high, kind] = *head;
        let (body, mut rest) = rest.split_at_checked(body_bytes(kind)?)?;
        if kind & FLAGS != 0 {
            let (length, tail) = rest.split_first()?;
            rest = tail.get(usize::from(*length)..)?;
        }
        self.0 = rest;
        let kept_until = u32::from_le_bytes([a, b, c, d]);
        Some(Entry { tag: RuleTag::from_bytes([low, middle, high]), kept_until, kind, body })
    }
}

impl Entry<'_> {
    /// Its state; `None` if it is a log, which is kept elsewhere, or is not valid.
    pub(super) fn state(&self) -> Option<State> {
        let mut bytes = self.body;
        let mut number = |width: usize| {
            let (number, rest) = bytes.split_at_checked(width)?;
            bytes = rest;
            let mut all = [0; 8];
            all.get_mut(..width)?.copy_from_slice(number);
            Some(u64::from_le_bytes(all))
        };
        let algorithm = match self.kind & !FLAGS {
            1 | 9 => Algorithm::TokenBucket,
            2 | 10 => Algorithm::LeakyBucket,
            3 | 11 => Algorithm::Gcra,
            4 | 7 => Algorithm::FixedWindow,
            5 => Algorithm::SlidingWindowCounter,
            _ => return None,
        };
        match self.kind & !FLAGS {
            1..=3 => {
                let (limit, window) = (number(6)?, Micros::new(number(6)?));
                let (whole, rest) = (number(7)?, number(6)?);
                let at = Timestamp::from_micros(number(7)?);
                State::from_bucket_parts(algorithm, limit, window, whole, rest, at).ok()
            }
            9..=11 => {
                let (limit, window) = (number(2)?, Micros::from_secs(number(3)?));
                let (whole, rest) = (number(2)?, number(5)?);
                let at = Timestamp::from_micros(number(7)?);
                State::from_bucket_parts(algorithm, limit, window, whole, rest, at).ok()
            }
            kind => {
                let window = Micros::new(number(6)?);
                let calendar = if kind == 7 { number(7)? } else { 0 };
                // The start of a window of the calendar, which is for readers.
                if kind == 7 {
                    number(7)?;
                }
                let current = number(6)?;
                let previous = if kind == 5 { number(6)? } else { 0 };
                let at = Timestamp::from_micros(number(7)?);
                State::from_window_parts(algorithm, window, calendar, at, current, previous).ok()
            }
        }
    }
}

/// The length of a state, by kind.
const fn body_bytes(kind: u8) -> Option<usize> {
    Some(match kind & !FLAGS {
        0 => 0,
        1..=3 => 32,
        4 | 9..=11 => 19,
        5 => 25,
        6 => 6,
        7 => 33,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tag: [u8; 3], kind: u8, body: &[(u64, usize)], tail: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xff, 0, 0, 0];
        bytes.extend(tag);
        bytes.push(kind);
        for (number, width) in body {
            bytes.extend(&number.to_le_bytes()[..*width]);
        }
        bytes.extend(tail);
        bytes
    }

    #[test]
    fn entries_are_found_by_tag() {
        let bucket = [(10, 6), (1_000_000, 6), (3, 7), (500_000, 6), (77, 7)];
        let sliding = [(1_000_000, 6), (4, 6), (5, 6), (88, 7)];
        let mut bytes = vec![VERSION];
        bytes.extend(entry([1, 0, 0], 3, &bucket, &[]));
        // With an unknown flag, and three bytes of it.
        bytes.extend(entry([2, 0, 0], 0x45, &sliding, &[3, 9, 9, 9]));
        bytes.extend(entry([3, 0, 0], 4, &[(2_000_000, 6), (6, 6), (99, 7)], &[]));
        bytes.extend(entry([4, 0, 0], 7, &[(86, 6), (7, 7), (50, 7), (1, 6), (60, 7)], &[]));
        let record = Record::read(&bytes).expect("a record");
        let text = |tag| record.entry(RuleTag::from_bytes([tag, 0, 0])).and_then(|it| it.state());
        let texts = [1, 2, 3].map(|tag| text(tag).expect("a state").to_string());
        assert_eq!(texts, ["g:10:1000000:3:500000:77", "c:1000000:88:4:5", "f:2000000:99:6"]);
        assert_eq!(text(4), None, "a window of 86 us is none");
        assert_eq!(record.count(), 4);
        assert!(record.entry(RuleTag::from_bytes([9, 0, 0])).is_none());
    }

    #[test]
    fn what_is_no_record_is_not_read() {
        assert!(Record::read(b"").is_none() && Record::read(b"t:1:1:1:1:1").is_none());
        let cut = [&[VERSION][..], &entry([1, 0, 0], 3, &[(10, 6)], &[])].concat();
        assert_eq!(Record::read(&cut).map(Iterator::count), Some(0));
        let unknown = [&[VERSION][..], &entry([1, 0, 0], 8, &[(10, 6)], &[])].concat();
        assert_eq!(Record::read(&unknown).map(Iterator::count), Some(0));
    }
}
