//! Hostile texts: made from valid ones, and what every reader guarantees about the problems it reports.

use proptest::prelude::*;
use tollgate_document::Problem;

/// A text that a reader reported problems of.
#[derive(Debug)]
pub struct HostileText<'a> {
    file: &'a str,
    text: &'a str,
    /// How many characters each line has, as editors count them.
    widths: Vec<usize>,
}

impl<'a> HostileText<'a> {
    /// The text of a file.
    #[must_use]
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let visible = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = visible.replace("\r\n", "\n").replace('\r', "\n");
        let widths = lines.split('\n').map(|line| line.chars().count()).collect();
        Self { file, text, widths }
    }

    /// Problems are bounded, point into the text, and are short and safe to print.
    ///
    /// # Panics
    /// If they are not.
    pub fn check<'b>(&self, problems: impl ExactSizeIterator<Item = &'b Problem>) {
        assert!(problems.len() <= 1_001, "problems are bounded");
        for problem in problems.step_by(100) {
            if let Some(position) = problem.position {
                let width = self.widths.get(position.line as usize - 1).copied();
                let columns = width.map(|width| 1..=width + 1);
                let is_inside = columns.is_some_and(|it| it.contains(&(position.column as usize)));
                assert!(is_inside, "{problem} is outside of the text");
            }
            check_shown(&problem.render(self.file, self.text));
            check_shown(&problem.to_string());
        }
    }
}

/// What is shown of a text is short enough to read, and does nothing to a terminal.
///
/// # Panics
/// If it is long or has control characters.
pub fn check_shown(shown: &str) {
    assert!(shown.len() < 10_000, "short enough to read: {shown}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "safe to print: {shown:?}");
}

/// A valid text with some of its characters replaced by pieces, removed or repeated.
pub fn mutated(
    valid: &'static str,
    piece: impl Strategy<Value = String>,
) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        1 => Just(String::new()),
        4 => piece,
        1 => any::<char>().prop_map(String::from),
    ];
    let edit = (any::<prop::sample::Index>(), 0_usize..20, piece);
    prop::collection::vec(edit, 1..6).prop_map(move |edits| {
        let mut text = valid.chars().collect::<Vec<_>>();
        for (at, removed, piece) in edits {
            let start = at.index(text.len() + 1);
            let end = (start + removed).min(text.len());
            text.splice(start..end, piece.chars());
        }
        text.into_iter().collect()
    })
}

/// Random bytes, read as a text.
pub fn random_bytes() -> impl Strategy<Value = String> {
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    bytes.prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
