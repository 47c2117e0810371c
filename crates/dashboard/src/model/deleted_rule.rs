//! A rule that was deleted: what it was, and how it comes back.

use super::rule::RuleRevision;
use super::shared::Section;
use super::time::Time;

/// The page of a rule that was deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeletedRule {
    /// Its id.
    pub rule_id: String,
    /// When it was deleted.
    pub deleted_at: Time,
    /// The token that deleted it.
    pub deleted_by: String,
    /// The revision that the deletion made.
    pub revision: u64,
    /// The rule as it was, in YAML.
    pub yaml: String,
    /// Whether the viewer may write rules.
    pub is_writable: bool,
    /// Its changes, the newest first: the deletion.
    pub history: Section<Vec<RuleRevision>>,
}
