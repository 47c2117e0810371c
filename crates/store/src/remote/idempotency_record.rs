//! The record of a request with an idempotency key, as text: the results of its charges, and the note for its copies.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use tollgate_core::{ChargeResult, Micros, Report};

use super::CounterName;

/// A note, and the results of counters that are not recorded elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdempotencyRecord {
    pub(crate) results: Vec<(CounterName, ChargeResult)>,
    pub(crate) note: String,
}

impl IdempotencyRecord {
    /// The result of a counter.
    pub(crate) fn result(&self, name: &CounterName) -> Option<ChargeResult> {
        self.results.iter().find(|(known, _)| known == name).map(|(_, line)| *line)
    }
}

/// A row for each counter: flags, figures, its name. The last row is the note.
impl fmt::Display for IdempotencyRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, ChargeResult { admitted, written, report }) in &self.results {
            let Report { remaining, retry_after, reset_after, next_after, delay } = *report;
            write!(f, "{}{} {remaining}", u8::from(*admitted), u8::from(*written))?;
            for span in [Some(reset_after), retry_after, next_after, delay] {
                match span {
                    Some(span) => write!(f, " {}", span.get())?,
                    None => f.write_str(" -")?,
                }
            }
            writeln!(f, " {}", name.as_str())?;
        }
        // Without control characters, so that it is one row.
        self.note.chars().filter(|c| !c.is_control()).try_for_each(|c| f.write_char(c))
    }
}

impl FromStr for IdempotencyRecord {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (rows, note) = text.rsplit_once('\n').unwrap_or(("", text));
        let results: Option<Vec<_>> = rows.lines().map(read_line).collect();
        Ok(Self { results: results.ok_or(())?, note: note.to_owned() })
    }
}

fn read_line(row: &str) -> Option<(CounterName, ChargeResult)> {
    let mut fields = row.splitn(7, ' ');
    let (admitted, written) = match fields.next()? {
        "11" => (true, true),
        "10" => (true, false),
        "01" => (false, true),
        "00" => (false, false),
        _ => return None,
    };
    let remaining = fields.next()?.parse().ok()?;
    let mut span = || match fields.next()? {
        "-" => Some(None),
        micros => Some(Some(Micros::new(micros.parse().ok()?))),
    };
    let reset_after = span()??;
    let (retry_after, next_after, delay) = (span()?, span()?, span()?);
    let report = Report { remaining, retry_after, reset_after, next_after, delay };
    let name = CounterName::read(fields.next()?);
    Some((name, ChargeResult { admitted, written, report }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        let report = Report {
            remaining: u64::MAX,
            retry_after: Some(Micros::ZERO),
            reset_after: Micros::new(u64::MAX),
            next_after: None,
            delay: Some(Micros::new(7)),
        };
        let line = ChargeResult { admitted: true, written: false, report };
        let results = vec![
            (CounterName::read("{tag}:a rule:rest"), line),
            (
                CounterName::read("{tag}:other"),
                ChargeResult { admitted: false, written: true, ..line },
            ),
        ];
        for results in [vec![], results[..1].to_vec(), results] {
            for note in ["", "d1f00dbee-a2a", "10 1 - - - - {x}:y"] {
                let record = IdempotencyRecord { results: results.clone(), note: note.to_owned() };
                assert_eq!(record.to_string().parse(), Ok(record));
            }
        }
    }

    #[test]
    fn text_that_is_no_record_is_not_read() {
        for text in ["x\nnote", "10 1 2 - - {x}:y\n", "12 1 2 - - - {x}:y\n", "10 1 - - - - x\n"] {
            assert_eq!(text.parse::<IdempotencyRecord>(), Err(()), "{text}");
        }
        let note = IdempotencyRecord { note: "a\nb\0".to_owned(), ..IdempotencyRecord::default() };
        assert_eq!(note.to_string(), "ab");
    }
}
