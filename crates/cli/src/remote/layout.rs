//! How answers are laid out: tables with texts to the left and figures to the right, and colour where
//! somebody can see it.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use crate::failure::Failure;
use crate::terminal::span;

/// A column of a table.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Figure(&'static str),
}

/// A table without lines.
pub(crate) fn table<const N: usize>(columns: [Column; N], rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.map(|(Column::Text(name) | Column::Figure(name))| name));
    for row in rows {
        table.add_row(row.each_ref().map(|cell| printable(cell)));
    }
    for (column, kind) in table.column_iter_mut().zip(columns) {
        if matches!(kind, Column::Figure(_)) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().fold(String::new(), |lines, line| lines + line.trim_end() + "\n")
}

/// A text from elsewhere without characters that would do something to the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A window or a wait.
pub(crate) fn lasting(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .and_then(|lasting| u64::try_from(lasting.as_micros()).ok())
        .map_or_else(|| format!("{seconds} s"), span)
}

/// What a word means to whoever reads it.
#[derive(Clone, Copy)]
pub(crate) enum Mood {
    Good,
    Bad,
    Doubtful,
}

/// Whether words are coloured.
#[derive(Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(false);
    #[cfg(test)]
    pub(crate) const ALWAYS: Self = Self(true);

    /// Colours, if the output goes to a terminal whose owner does not mind.
    pub(crate) fn of_output() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && io::stdout().is_terminal())
    }

    pub(crate) fn colour(self, word: &str, mood: Mood) -> String {
        if !self.0 {
            return word.to_owned();
        }
        let colour = match mood {
            Mood::Good => 32,
            Mood::Bad => 31,
            Mood::Doubtful => 33,
        };
        format!("\u{1b}[1;{colour}m{word}\u{1b}[0m")
    }
}

/// A word in colour, if it goes to a terminal whose owner does not mind.
pub(crate) fn coloured(word: &str, mood: Mood) -> String {
    Paint::of_output().colour(word, mood)
}

/// Writes to standard output, with a new line at the end.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}
