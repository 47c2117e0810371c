//! The allow list, the deny list, bans and overrides.

use super::shared::{ClientRef, Identifier, Paging, Section};
use super::time::Time;

/// The page of lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lists {
    /// Which list is shown.
    pub tab: ListTab,
    /// What was searched for: a part of an identifier or rule.
    pub query: String,
    /// How many entries each list has, in the order of the tabs; none if that is not known.
    pub counts: [Option<u64>; 4],
    /// The bans, on the tab `Bans`.
    pub bans: Section<Vec<BanRow>>,
    /// The entries, on the tabs `Blacklist` and `Whitelist`.
    pub entries: Section<Vec<ListRow>>,
    /// The overrides, on the tab `Overrides`.
    pub overrides: Section<Vec<OverrideRow>>,
    /// The types of identifiers that a new entry can have.
    pub identifier_types: Vec<String>,
    /// The rules that a new override can be an exception from.
    pub rule_ids: Vec<String>,
    /// The way to the others.
    pub paging: Paging,
}

/// A list: `?list=bans`, `blacklist`, `whitelist`, `overrides`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListTab {
    /// Clients that rules refuse for a while.
    #[default]
    Bans,
    /// Clients that are always refused.
    Blacklist,
    /// Clients that are never limited.
    Whitelist,
    /// Exceptions from rules.
    Overrides,
}

/// A client that a rule has banned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BanRow {
    /// The client.
    pub client: ClientRef,
    /// The rule.
    pub rule_id: String,
    /// The values that a lift has to name, in the order of the rule's identifiers.
    pub identifier: Vec<String>,
    /// The tenant of the rule.
    pub tenant: Option<String>,
    /// When it was made, if that is known.
    pub made_at: Option<Time>,
    /// When it ends.
    pub until: Time,
    /// Whether the viewer may lift it.
    pub can_lift: bool,
}

/// An entry of the allow list or the deny list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListRow {
    /// The identifiers; for `ip` also a network.
    pub identifiers: Vec<Identifier>,
    /// Why it is listed.
    pub reason: Option<String>,
    /// When it ends; never if there is none.
    pub expires_at: Option<Time>,
    /// The token that wrote it.
    pub written_by: Option<String>,
    /// When it was written.
    pub written_at: Option<Time>,
    /// Whether the viewer may remove it.
    pub can_remove: bool,
}

/// An exception from a rule for one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverrideRow {
    /// The client.
    pub identifiers: Vec<Identifier>,
    /// The rule.
    pub rule_id: String,
    /// What is different, in a few words: "limit 5,000", "3 times the limit".
    pub what: String,
    /// When it begins; at once if there is none.
    pub starts_at: Option<Time>,
    /// When it ends; never if there is none.
    pub expires_at: Option<Time>,
    /// The token that wrote it.
    pub written_by: Option<String>,
    /// Whether the viewer may remove it.
    pub can_remove: bool,
}

impl ListTab {
    /// All of them, with their words in the query.
    pub const ALL: [(Self, &str); 4] = [
        (Self::Bans, "bans"),
        (Self::Blacklist, "blacklist"),
        (Self::Whitelist, "whitelist"),
        (Self::Overrides, "overrides"),
    ];

    /// Its word in the query.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bans => "bans",
            Self::Blacklist => "blacklist",
            Self::Whitelist => "whitelist",
            Self::Overrides => "overrides",
        }
    }
}
