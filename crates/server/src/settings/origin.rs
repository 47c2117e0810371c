//! Where a setting came from, and its problem there.

use std::fmt;

use tollgate_document::{Position, Problem};

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was not set.
    Default,
    /// The settings file.
    File {
        /// Its name, as it was given.
        name: String,
        /// Where the value starts in it.
        position: Position,
    },
    /// The environment variable of that name.
    Environment(String),
    /// The flag of that name, with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, position: Position { line, column } } => {
                write!(f, "{name}:{line}:{column}")
            }
            Self::Environment(variable) => write!(f, "env {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// An invalid setting. Lines of the settings file are never shown with it: they may contain a secret by
/// mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedSetting {
    /// Where its value came from.
    pub origin: Origin,
    /// The problem. Its path is the setting, like `limits.header_timeout`, or empty for the whole file.
    pub problem: Problem,
}

/// One line: `http (flag --http): expected an address like 127.0.0.1:8080, found "here"`.
impl fmt::Display for RefusedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { path, message, advice, .. } = &self.problem;
        match (path.as_str(), &self.origin) {
            ("", origin) => write!(f, "{origin}: {message}")?,
            (setting, Origin::Default) => write!(f, "{setting}: {message}")?,
            (setting, origin) => write!(f, "{setting} ({origin}): {message}")?,
        }
        advice.iter().try_for_each(|advice| write!(f, "; {advice}"))
    }
}

/// All problems of the settings; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedSettings(pub Vec<RefusedSetting>);

/// One setting a line.
impl fmt::Display for RefusedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, refused) in self.0.iter().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}{refused}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RefusedSettings {}
