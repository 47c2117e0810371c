//! The counts that stand in the repository, and how much another count may differ.

use std::fmt;

/// How much a count may grow before it has to be written down, in percent.
const MAX_GROWTH: u64 = 3;
/// How much a count may shrink: what was gained must not be lost again unnoticed.
const MAX_SHRINKAGE: u64 = 10;

const HEADING: &str = "\
# Instructions per operation, in the order in which they are counted: see docs/performance.md.
# `cargo run --release -p tollgate-instructions -- --write` writes this file.
";

/// Instructions by operation.
pub(crate) type Counts = Vec<(String, u64)>;

/// Reads the counts of a file.
pub(crate) fn parse(text: &str) -> Option<Counts> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        })
        .collect()
}

/// The file with these counts.
pub(crate) fn to_text(counts: &[(String, u64)]) -> String {
    let lines = counts.iter().map(|(name, count)| format!("{name:32} {count:6}\n"));
    HEADING.to_owned() + &lines.collect::<String>()
}

/// How a count differs from the one that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Within,
    Grown,
    Shrunk,
    /// No such operation is written down.
    New,
    /// The operation is not counted any more.
    Gone,
}

impl Change {
    fn of(before: u64, after: u64) -> Self {
        if after * 100 > before * (100 + MAX_GROWTH) {
            Self::Grown
        } else if after * 100 < before * (100 - MAX_SHRINKAGE) {
            Self::Shrunk
        } else {
            Self::Within
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Within => Ok(()),
            Self::Grown => write!(f, "GREW by more than {MAX_GROWTH} %"),
            Self::Shrunk => write!(f, "shrank by more than {MAX_SHRINKAGE} %: write it down"),
            Self::New => f.write_str("is not written down"),
            Self::Gone => f.write_str("is written down, and not counted"),
        }
    }
}

/// One line of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Compared<'a> {
    pub(crate) name: &'a str,
    pub(crate) before: Option<u64>,
    pub(crate) after: Option<u64>,
    pub(crate) change: Change,
}

/// Compares counts with those that were written down.
pub(crate) fn compare<'a>(
    before: &'a [(String, u64)],
    after: &'a [(String, u64)],
) -> Vec<Compared<'a>> {
    let find =
        |counts: &[(String, u64)], name: &str| counts.iter().find(|it| it.0 == name).map(|it| it.1);
    let counted = after.iter().map(|(name, after)| {
        let before = find(before, name);
        let change = before.map_or(Change::New, |before| Change::of(before, *after));
        Compared { name, before, after: Some(*after), change }
    });
    let gone = before.iter().filter(|it| find(after, &it.0).is_none()).map(|(name, before)| {
        Compared { name, before: Some(*before), after: None, change: Change::Gone }
    });
    counted.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn growth_beyond_three_percent_is_noticed_and_shrinkage_beyond_ten() {
        let check = |after, expected| {
            let (before, after) = (counts(&[("a", 1_000)]), counts(&[("a", after)]));
            assert_eq!(compare(&before, &after)[0].change, expected);
        };
        check(1_030, Change::Within);
        check(1_031, Change::Grown);
        check(900, Change::Within);
        check(899, Change::Shrunk);
    }

    #[test]
    fn operations_that_come_and_go_are_noticed() {
        let (before, after) = (counts(&[("a", 1), ("b", 2)]), counts(&[("b", 2), ("c", 3)]));
        let changes: Vec<(&str, Change)> =
            compare(&before, &after).iter().map(|it| (it.name, it.change)).collect();
        assert_eq!(changes, [("b", Change::Within), ("c", Change::New), ("a", Change::Gone)]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = counts(&[("core/gcra", 123), ("limiter/three_rules", 4_567)]);
        assert_eq!(parse(&to_text(&written)), Some(written));
        assert_eq!(parse("core/gcra many\n"), None);
    }
}
