//! What several pages show: clients, limits, decisions, and parts that could not be read.

use super::time::Time;

/// A part of a page that depends on something that can fail, like the catalog.
#[derive(Clone, Debug, PartialEq)]
pub enum Section<T> {
    /// It was read.
    Ready(T),
    /// It could not be read; the rest of the page is shown.
    Failed(Failure),
}

/// Why a part of a page is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What failed, as a sentence: "The catalog does not respond."
    pub what: String,
    /// Since when, if that is known.
    pub since: Option<Time>,
    /// What still works, or what to do next, as a sentence.
    pub still_works: Option<String>,
}

/// One identifier of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identifier {
    /// Its type, as rules name it: `user_id`, `api_key`, `ip`, `tenant`, `header:NAME`...
    pub identifier_type: String,
    /// Its value; API keys and headers as the digest that the logs show.
    pub value: String,
}

/// A client that a page names and links to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientRef {
    /// What it is called in the logs: the user, else the API key, the address, the tenant, or others.
    pub name: String,
    /// Its identifiers, which the link leads to; if they are not known, the link leads to the search.
    pub identifiers: Vec<Identifier>,
}

/// A limit in figures, shown as "10 / 1 s, burst 50 · ip".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Units per window.
    pub limit: u64,
    /// The window in milliseconds; of the calendar, the current one.
    pub window_ms: u64,
    /// The window of the calendar, if it is of one: "1 month, Europe/Berlin".
    pub calendar: Option<String>,
    /// The capacity of a bucket, where it is not the limit.
    pub burst: Option<u64>,
    /// How usage is counted, as rules name it.
    pub algorithm: String,
    /// The types of identifiers that counters are kept by.
    pub identifiers: Vec<String>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    #[default]
    Allowed,
    /// It passed after a delay.
    Throttled,
    /// A limit refused it.
    Refused,
    /// The deny list, a ban or a missing identifier refused it.
    Denied,
    /// It passed, and a shadow rule would have refused it.
    WouldRefuse,
    /// No rule applied, or the client is on the allow list.
    Unlimited,
    /// It was not checked.
    Error,
}

/// One decision in a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionRow {
    /// When.
    pub at: Time,
    /// Its id, which the link to its explanation needs; none if it was not kept.
    pub decision_id: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// The client.
    pub client: ClientRef,
    /// The tenant of the request.
    pub tenant: Option<String>,
    /// The HTTP method.
    pub method: Option<String>,
    /// The path, without its query.
    pub endpoint: Option<String>,
    /// The rule that decided.
    pub rule_id: Option<String>,
    /// Further shadow rules and candidates that would have refused it.
    pub also_would_refuse: Vec<String>,
    /// Why it was refused: `rate_limited`, `denied`, `banned`, `store_unavailable`.
    pub reason: Option<String>,
    /// What the request cost under the rule that decided.
    pub cost: u64,
    /// The limit of that rule.
    pub limit: Option<u64>,
    /// What was left of it.
    pub remaining: Option<u64>,
    /// After how many seconds the same request would have passed.
    pub retry_after: Option<u64>,
    /// Why the check was made without the shared store, if it was.
    pub degraded: Option<String>,
    /// The node that decided, where decisions of several nodes are listed.
    pub node: Option<String>,
}

/// One client in a ranking.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopClient {
    /// The client.
    pub client: ClientRef,
    /// The rule that counts most here, if one is known.
    pub rule_id: Option<String>,
    /// How many requests.
    pub count: u64,
    /// The share of the limit that is in use, in rankings of clients near a limit.
    pub used: Option<f64>,
}

/// Whose figures a list shows: those of this node, or of the fleet as far as it responds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FiguresOf {
    /// How many nodes they are of.
    pub nodes: usize,
    /// How many nodes did not respond.
    pub silent: usize,
    /// Whether the other nodes cannot be reached at all, because the store that nodes talk through is away.
    pub is_cut_off: bool,
}

/// The way to other pages of a long list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// The query of the next page, like `after=x&limit=100`; none if there is none.
    pub next: Option<String>,
    /// The query of the first page, on any other page.
    pub first: Option<String>,
    /// How many there are in all, if that is known.
    pub total: Option<u64>,
}

impl<T> Section<T> {
    /// What was read.
    pub const fn ready(&self) -> Option<&T> {
        match self {
            Self::Ready(value) => Some(value),
            Self::Failed(_) => None,
        }
    }
}

impl<T: Default> Default for Section<T> {
    fn default() -> Self {
        Self::Ready(T::default())
    }
}

impl ClientRef {
    /// A client with one identifier, named by its value.
    #[must_use]
    pub fn one(identifier_type: &str, value: &str) -> Self {
        let identifier =
            Identifier { identifier_type: identifier_type.to_owned(), value: value.to_owned() };
        Self { name: value.to_owned(), identifiers: vec![identifier] }
    }
}
