//! The top lists: clients, rules and endpoints with most requests of a kind, in fixed memory.

/// What is ranked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RankedBy {
    #[default]
    Client,
    Rule,
    Endpoint,
}

/// Which top lists are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopAsk {
    pub(crate) by: RankedBy,
    /// How many seconds back; up to 300.
    pub(crate) window_seconds: u64,
    /// How many entries of each list; up to 100.
    pub(crate) limit: usize,
    /// Only requests of this tenant.
    pub(crate) tenant: Option<String>,
}

/// The top lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopFigures {
    /// By requests that did not pass.
    pub(crate) refused: RankedList,
    /// By requests that passed above the warning share of a limit, or after a delay.
    pub(crate) near_limit: RankedList,
    /// By all requests.
    pub(crate) busiest: RankedList,
    /// By requests that passed, but that a shadow rule would have refused.
    pub(crate) would_refuse: RankedList,
}

/// Names with the highest counts, in descending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankedList {
    pub(crate) entries: Vec<RankedEntry>,
    /// How much any count may be too low, at most. None is too high.
    pub(crate) may_lack: u64,
}

/// A client, rule or endpoint of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankedEntry {
    /// The client as it is recorded, the rule, or the endpoint.
    pub(crate) name: String,
    /// The tenant of a client.
    pub(crate) tenant: Option<String>,
    /// The rule that decided the last of these requests; of a rule, none.
    pub(crate) rule_id: Option<String>,
    /// How much of that rule's limit was used then, in percent: for clients near a limit.
    pub(crate) used_percent: Option<u8>,
    pub(crate) count: u64,
}
