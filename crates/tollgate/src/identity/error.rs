//! The error for a setting that cannot be used.

use std::fmt;

/// A setting that cannot be used. Secrets are never part of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityError {
    setting: String,
    problem: String,
}

impl IdentityError {
    pub(super) fn new(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { setting: setting.into(), problem: problem.into() }
    }

    /// The setting, as the path of fields that leads to it: `client_ip.hops`.
    #[must_use]
    pub fn setting(&self) -> &str {
        &self.setting
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.problem)
    }
}

impl std::error::Error for IdentityError {}
