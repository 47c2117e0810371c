//! The difference of two texts, line by line.

use tollgate_dashboard::model::{DiffKind, DiffLine};

/// The most lines of a text that are compared; longer ones differ as a whole.
const MAX_LINES: usize = 2_000;

/// The lines of both texts; nothing if they are the same.
pub(super) fn diff(before: &str, after: &str) -> Vec<DiffLine> {
    if before == after {
        return Vec::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let line = |kind, text: &str| DiffLine { kind, text: text.to_owned() };
    if old.len().max(new.len()) > MAX_LINES {
        let removed = old.iter().take(MAX_LINES).map(|text| line(DiffKind::Removed, text));
        let added = new.iter().take(MAX_LINES).map(|text| line(DiffKind::Added, text));
        return removed.chain(added).collect();
    }
    let common = Common::new(&old, &new);
    let (mut lines, mut i, mut j) = (Vec::new(), 0, 0);
    while i < old.len() || j < new.len() {
        match (old.get(i), new.get(j)) {
            (Some(left), Some(right)) if left == right => {
                lines.push(line(DiffKind::Same, left));
                (i, j) = (i + 1, j + 1);
            }
            (Some(left), right)
                if right.is_none() || common.after(i + 1, j) >= common.after(i, j + 1) =>
            {
                lines.push(line(DiffKind::Removed, left));
                i += 1;
            }
            (_, Some(right)) => {
                lines.push(line(DiffKind::Added, right));
                j += 1;
            }
            (_, None) => break,
        }
    }
    lines
}

/// How many lines the ends of both texts have in common, in the same order.
struct Common {
    width: usize,
    lengths: Vec<u16>,
}

impl Common {
    fn new(old: &[&str], new: &[&str]) -> Self {
        let width = new.len() + 1;
        let mut common = Self { width, lengths: vec![0; (old.len() + 1) * width] };
        for (i, left) in old.iter().enumerate().rev() {
            for (j, right) in new.iter().enumerate().rev() {
                let length = if left == right {
                    common.after(i + 1, j + 1) + 1
                } else {
                    common.after(i + 1, j).max(common.after(i, j + 1))
                };
                if let Some(place) = common.lengths.get_mut(i * width + j) {
                    *place = length;
                }
            }
        }
        common
    }

    fn after(&self, i: usize, j: usize) -> u16 {
        self.lengths.get(i * self.width + j).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let sign = |kind| match kind {
            DiffKind::Same => ' ',
            DiffKind::Removed => '-',
            DiffKind::Added => '+',
        };
        let lines = diff(before, after);
        lines.iter().map(|line| format!("{}{}|", sign(line.kind), line.text)).collect()
    }

    #[test]
    fn lines_are_removed_added_or_kept() {
        for (before, after, expected) in [
            ("", "", ""),
            ("a\nb\n", "a\nb\n", ""),
            ("", "a\nb", "+a|+b|"),
            ("a\nb", "", "-a|-b|"),
            ("a\nb\nc", "a\nc", " a|-b| c|"),
            ("a\nc", "a\nb\nc", " a|+b| c|"),
            ("limit: 5\nwindow: 1m", "limit: 10\nwindow: 1m", "-limit: 5|+limit: 10| window: 1m|"),
        ] {
            assert_eq!(shown(before, after), expected, "{before:?} {after:?}");
        }
    }

    #[test]
    fn applying_a_difference_gives_the_other_text() {
        let texts = ["a\nb\nc\nd", "d\nc\nb\na", "a\na\na", "", "b\na\nb\nx\nd"];
        for before in texts {
            for after in texts {
                let lines = diff(before, after);
                let side = |other| {
                    let kept = lines.iter().filter(|line| line.kind != other);
                    kept.map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n")
                };
                if before != after {
                    assert_eq!(
                        (&*side(DiffKind::Added), &*side(DiffKind::Removed)),
                        (before, after)
                    );
                }
            }
        }
        let long = "x\n".repeat(MAX_LINES + 1);
        assert_eq!(diff(&long, "").len(), MAX_LINES);
    }
}
