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
    /// How far back requests and refusals are counted, in seconds.
    pub window_seconds: u64,
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
    /// Whether it is what was typed, which need not exist.
    pub is_typed: bool,
    /// The tier it was put into.
    pub tier: Option<String>,
    /// Its recent requests that were recorded, if it is in a top list.
    pub recorded: Option<u64>,
    /// Its recent refusals, if it is in a top list.
    pub refused: Option<u64>,
    /// When it was last seen, if that is known.
    pub seen_at: Option<Time>,
    /// What is known of it, in a few words: "seen in the last 5 min", "in a tier"; empty if nothing is.
    pub known: Vec<String>,
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
    /// What is known of the API key that names it.
    pub key: Option<ClientKey>,
    /// The lists that it is on, which go before the rules; the entry that decides first.
    pub listings: Vec<ClientListing>,
    /// Its bans.
    pub bans: Vec<ClientBan>,
    /// The limits that apply and those behind its last refusals, those with least left first.
    pub limits: Vec<ClientLimit>,
    /// Why the limits are those of this node alone, if the store is away.
    pub degraded: Option<String>,
    /// The rules that do not apply to the request above, each with the reason.
    pub not_applying: Vec<(String, String)>,
    /// The other identifiers that its last decisions have.
    pub seen_with: Vec<Identifier>,
    /// Its last decisions, the newest first.
    pub decisions: Section<Vec<DecisionRow>>,
    /// Its overrides.
    pub overrides: Section<Vec<OverrideRow>>,
    /// The tiers that it can be put into.
    pub tiers: Vec<String>,
    /// What is wrong with a form of this page that was sent.
    pub mistake: Option<ClientMistake>,
}

/// A menu on the page of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientMenu {
    /// Another limit for a while.
    #[default]
    Override,
    /// A tier.
    Tier,
    /// Counters that start anew.
    Reset,
    /// A place on the deny list.
    Deny,
}

/// A form that was sent with a mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientMistake {
    /// The menu that it is in.
    pub menu: ClientMenu,
    /// What is wrong, as a sentence.
    pub text: String,
    /// The client that the form named.
    pub client: Vec<Identifier>,
    /// What was entered, by the names of the fields.
    pub entered: Vec<(String, String)>,
}

/// An API key as far as the server knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientKey {
    /// Whether the page has its digest only.
    pub is_digest: bool,
    /// Whether it has the beginning of the digest only, which names no entry.
    pub is_cut: bool,
    /// Its id, if it is registered.
    pub key_id: Option<String>,
    /// What it is for.
    pub name: Option<String>,
    /// The user it belongs to.
    pub owner: Option<String>,
}

/// A request that a limit refused, or would have refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedRequest {
    /// When.
    pub at: Time,
    /// The decision.
    pub decision_id: String,
    /// Its method.
    pub method: Option<String>,
    /// Its path.
    pub endpoint: Option<String>,
    /// Whether it passed: a shadow rule or a candidate would have refused it.
    pub has_passed: bool,
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
    /// When the current window ends; of limits without windows, when nothing is in use.
    pub resets_at: Option<Time>,
    /// When nothing is in use, if there are no more requests.
    pub full_at: Option<Time>,
    /// Whether it is above the share from which on clients are warned.
    pub is_warned: bool,
    /// Whether the rule only counts and reports.
    pub is_shadow: bool,
    /// The rule whose candidate it is.
    pub candidate_of: Option<String>,
    /// When the ban ends until which nothing is counted.
    pub banned_until: Option<Time>,
    /// Whether an override gives this limit.
    pub is_override: bool,
    /// Until when that override holds.
    pub override_until: Option<Time>,
    /// What it counts by besides the identifiers of the page, from the request that it refused.
    pub with: Vec<Identifier>,
    /// The last request that it refused, or would have refused.
    pub refused: Option<RefusedRequest>,
    /// Whether what is left is not known: it counts by an API key of which only the digest is known.
    pub is_unknown: bool,
}
