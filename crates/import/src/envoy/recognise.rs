//! Whose file a text is, for commands that take files of several kinds.

use tollgate_document::{Value, read_as_yaml_v2};

/// What a file is, by the fields that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file of envoyproxy/ratelimit.
    Envoy,
    /// A policy.
    Policy,
    /// Neither, or not readable.
    Unknown,
}

impl FileKind {
    /// Recognises a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Ok(root) = read_as_yaml_v2(text) else { return Self::Unknown };
        let Value::Map(entries) = &root.value else { return Self::Unknown };
        let has = |names: &[&str]| entries.iter().any(|(key, _)| names.contains(&&*key.text));
        if has(&["rules", "tiers", "clients", "overrides", "whitelist", "blacklist"]) {
            Self::Policy
        } else if has(&["domain", "descriptors"]) {
            Self::Envoy
        } else {
            Self::Unknown
        }
    }
}
