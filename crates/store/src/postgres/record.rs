//! The record of a request with an idempotency key, in a row beside those of counters.

use std::fmt;
use std::str::FromStr;

use tollgate_core::Timestamp;

use crate::remote::IdempotencyRecord;

/// The prefix of a row that is not a counter.
const RECORD_PREFIX: &str = "once";

/// A request that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordRow {
    /// The digest of the request.
    pub(super) body: [u8; 16],
    /// When it was settled.
    pub(super) now: Timestamp,
    /// The note and the results of its charges.
    pub(super) record: IdempotencyRecord,
}

impl fmt::Display for RecordRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { body, now, record } = self;
        writeln!(f, "{RECORD_PREFIX} {:032x} {}", u128::from_be_bytes(*body), now.as_micros())?;
        write!(f, "{record}")
    }
}

impl FromStr for RecordRow {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (head, record) = text.split_once('\n').ok_or(())?;
        let head =
            head.strip_prefix(RECORD_PREFIX).and_then(|head| head.strip_prefix(' ')).ok_or(())?;
        let (body, now) = head.split_once(' ').ok_or(())?;
        let body = u128::from_str_radix(body, 16).map_err(drop)?.to_be_bytes();
        let now = Timestamp::from_micros(now.parse().map_err(drop)?);
        Ok(Self { body, now, record: record.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::State;

    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_is_no_state() {
        for (body, note) in [([0; 16], ""), ([255; 16], "d1f00dbee-a2a")] {
            let record =
                IdempotencyRecord { note: note.to_owned(), ..IdempotencyRecord::default() };
            let row = RecordRow { body, now: Timestamp::from_secs(7), record };
            let text = row.to_string();
            assert!(text.parse::<State>().is_err(), "{text}");
            assert_eq!(text.parse(), Ok(row));
        }
        for text in ["", "once", "once 0 0", "once x 0\n", "once 0 x\n", "twice 0 0\n"] {
            assert_eq!(text.parse::<RecordRow>(), Err(()), "{text}");
        }
    }
}
