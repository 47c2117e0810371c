//! Standard output, with colours on a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use crate::failure::Failure;

/// What a coloured word means.
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

    /// Colours on a terminal that has them, unless `NO_COLOR` is set.
    pub(crate) fn of_output() -> Self {
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let kind = std::env::var("TERM").unwrap_or_default();
        Self(is_wanted && io::stdout().is_terminal() && has_colours(&kind))
    }

    pub(crate) const fn has_colours(self) -> bool {
        self.0
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

/// Whether terminals of that kind have colours. Nearly all do.
fn has_colours(kind: &str) -> bool {
    let is_plain = kind == "dumb" || kind.starts_with("vt");
    !(is_plain || kind.ends_with("-m") || kind.ends_with("-mono"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_terminals_have_no_colours() {
        let check = |kind: &str, expected: bool| assert_eq!(has_colours(kind), expected, "{kind}");
        check("xterm-256color", true);
        check("linux", true);
        check("screen", true);
        check("dumb", false);
        check("vt220", false);
        check("xterm-mono", false);
    }
}
