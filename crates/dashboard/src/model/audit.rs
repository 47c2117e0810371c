//! Who changed what, and who was refused.

use super::rule::DiffLine;
use super::shared::{DecisionRow, Paging, Section};
use super::time::Time;

/// The page of both logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit {
    /// Which log is shown.
    pub tab: AuditTab,
    /// What it is limited to.
    pub filter: AuditFilter,
    /// The kinds of entries that can be filtered by.
    pub kinds: Vec<String>,
    /// The changes, the newest first, on the tab `Changes`.
    pub changes: Section<Vec<AuditRow>>,
    /// The decisions, the newest first, on the tab `Decisions`.
    pub decisions: Section<Vec<DecisionRow>>,
    /// The way to older ones.
    pub paging: Paging,
}

/// Which log is shown: `?log=changes` or `?log=decisions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditTab {
    /// Changes of the catalog and resets of counters.
    #[default]
    Changes,
    /// Decisions that were kept.
    Decisions,
}

/// What a log is limited to. Each is a parameter of the query of the same name; empty ones limit nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Changes by this token.
    pub actor: String,
    /// Changes of entries of this kind.
    pub kind: String,
    /// Changes of the entry of this name.
    pub entry: String,
    /// Decisions about this client, by any of its identifiers.
    pub client: String,
    /// The type of that identifier; empty for any.
    pub client_type: String,
    /// Decisions that this rule made.
    pub rule_id: String,
    /// Decisions that ended so: words of an [`Outcome`](super::Outcome), separated by commas.
    pub action: String,
    /// Changes or decisions of this tenant.
    pub tenant: String,
    /// From then on, as typed: `21:00`, `2026-11-18 21:00`, `2h`, or an RFC 3339 time.
    pub since: String,
    /// Before then, as typed.
    pub until: String,
}

/// A change, and who made it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditRow {
    /// The revision that it made; a reset has the one that was in force.
    pub revision: u64,
    /// When.
    pub at: Time,
    /// The token, or the part of the program.
    pub actor: String,
    /// The name of the token, if it has one.
    pub actor_name: Option<String>,
    /// The role of the actor.
    pub role: String,
    /// The address of the actor, if the viewer may see it.
    pub address: Option<String>,
    /// The kind of entry: rule, tier, client, override, whitelist, blacklist, `api_key`, token, ban, counters.
    pub kind: String,
    /// The name of the entry.
    pub entry: String,
    /// create, update, delete; counters are reset.
    pub action: String,
    /// What changed, in one line: "limit 5 → 10".
    pub summary: String,
    /// The change line by line.
    pub diff: Vec<DiffLine>,
}
