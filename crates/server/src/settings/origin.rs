//! Where a setting came from, and what is wrong with it there.

use std::fmt;

/// A place in the settings file, as editors count: both numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody chose it.
    Default,
    /// The settings file.
    File {
        /// Its name, as it was given.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The character within the line, from 1.
        column: u64,
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
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::Environment(variable) => write!(f, "env {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// One setting that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The setting, like `limits.header_timeout`; empty for the file as a whole.
    pub setting: String,
    /// Where its value came from.
    pub origin: Origin,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// One line: `http (flag --http): expected an address like 127.0.0.1:8080, found "here"`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.setting.as_str(), &self.origin) {
            ("", origin) => write!(f, "{origin}: {}", self.message),
            (setting, Origin::Default) => write!(f, "{setting}: {}", self.message),
            (setting, origin) => write!(f, "{setting} ({origin}): {}", self.message),
        }
    }
}

/// Everything that is wrong with the settings; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

/// One problem a line.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let separator = if number > 0 { "\n" } else { "" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
