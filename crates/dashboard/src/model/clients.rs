//! The search for clients, and one client: what applies to it, what is left, what happened.

use super::lists::OverrideRow;
use super::shared::{ClientRef, DecisionRow, Identifier, Paging, Quota, Section};
use super::time::Time;

/// The search for clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clients {
    /// What was searched for.
    pub query: String,
    /// The type of identifier that was searched for; empty for any.
    pub identifier_type: String,
    /// The types that can be searched for.
    pub identifier_types: Vec<String>,
    /// The clients that were found; without a search, those that were refused or put into a tier lately.
    pub found: Section<Vec<FoundClient>>,
    /// The way to the others.
    pub paging: Paging,
}

/// A client that a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundClient {
    /// The client.
    pub client: ClientRef,
    /// The tier it was put into.
    pub tier: Option<String>,
    /// Its recent requests that were recorded, if it is in a top list.
    pub recorded: Option<u64>,
    /// Its recent refusals, if it is in a top list.
    pub refused: Option<u64>,
    /// When it was last seen, if that is known.
    pub seen_at: Option<Time>,
    /// What is special about it, in a word: `banned`, `blacklist`, `whitelist`, `override`.
    pub marks: Vec<String>,
}

/// One client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// Its identifiers, as in the query of the page.
    pub identifiers: Vec<Identifier>,
    /// The endpoint that limits are shown for; empty for none.
    pub endpoint: String,
    /// The method that limits are shown for; empty for none.
    pub method: String,
    /// Its tier.
    pub tier: Option<ClientTier>,
    /// The list that it is on, which goes before the rules.
    pub listing: Option<ClientListing>,
    /// Its bans.
    pub bans: Vec<ClientBan>,
    /// The limits that apply, those with least left first.
    pub limits: Vec<ClientLimit>,
    /// The rules that do not apply to the request above, each with the reason.
    pub not_applying: Vec<(String, String)>,
    /// Its last decisions, the newest first.
    pub decisions: Section<Vec<DecisionRow>>,
    /// Its overrides.
    pub overrides: Section<Vec<OverrideRow>>,
    /// The tiers that it can be put into.
    pub tiers: Vec<String>,
}

/// The tier of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTier {
    /// Its name.
    pub name: String,
    /// Where it comes from, in a few words: "put into it", "the default tier", "from the request".
    pub origin: String,
    /// Whether the client was put into it, and can be taken out.
    pub is_assigned: bool,
}

/// The list that a client is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientListing {
    /// Whether it is never limited; else it is always refused.
    pub is_allowed: bool,
    /// The entry that names it, which may be a network.
    pub entry: Vec<Identifier>,
    /// Why.
    pub reason: Option<String>,
    /// Until when.
    pub expires_at: Option<Time>,
}

/// A ban of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientBan {
    /// The rule that refuses it.
    pub rule_id: String,
    /// Why, in a few words: "refused 5 times within 60 seconds".
    pub reason: String,
    /// Until when.
    pub until: Time,
    /// The values that a lift has to name, in the order of the rule's identifiers.
    pub identifier: Vec<String>,
}

/// What is left of one limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientLimit {
    /// The rule.
    pub rule_id: String,
    /// The limit as it holds for this client.
    pub quota: Quota,
    /// The key of the counter.
    pub key: Vec<Identifier>,
    /// The most that can be in use.
    pub capacity: u64,
    /// What is left of it.
    pub remaining: u64,
    /// When the limit resets.
    pub resets_at: Option<Time>,
    /// When nothing is in use, if there are no more requests.
    pub full_at: Option<Time>,
    /// Whether it is above the share from which on clients are warned.
    pub is_warned: bool,
    /// Whether the rule only counts and reports.
    pub is_shadow: bool,
    /// Whether an override gives this limit.
    pub is_override: bool,
    /// Until when that override holds.
    pub override_until: Option<Time>,
}
