//! The list of rules.

use super::series::Figure;
use super::shared::{Paging, Quota, TopClient};

/// The list of rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// What was searched for: a part of an id, name, endpoint or tenant.
    pub query: String,
    /// Only rules in this state.
    pub state: Option<RuleState>,
    /// The order of the list.
    pub order: RuleOrder,
    /// The rules of this page.
    pub rows: Vec<RuleRow>,
    /// How many rules there are without the search.
    pub rules_in_all: u64,
    /// The way to the others.
    pub paging: Paging,
}

/// The order of the list of rules: `?order=refused`, `requests`, `name`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleOrder {
    /// Those with most refusals first.
    #[default]
    Refused,
    /// Those with most requests first.
    Requests,
    /// By their ids.
    Name,
}

/// Whether a rule is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleState {
    /// It refuses or delays requests.
    #[default]
    Enforced,
    /// It counts and reports only (`action: log_only`).
    Shadow,
    /// It does not apply (`enabled: false`).
    Disabled,
}

/// One rule in a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleRow {
    /// Its id.
    pub rule_id: String,
    /// What people call it.
    pub name: Option<String>,
    /// Whether it is enforced.
    pub state: RuleState,
    /// Its limit.
    pub quota: Quota,
    /// Which requests it applies to, in a few words: "POST /login"; empty for all.
    pub applies_to: String,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// Requests per second that it counted, with their course.
    pub requests: Figure,
    /// The share that it refused in the range; of a shadow rule, that it would have refused.
    pub refused_share: Figure,
    /// How many it refused in the range; of a shadow rule, would have refused.
    pub refused: u64,
    /// The limit that is tried beside it, if there is one.
    pub candidate: Option<CandidateFigures>,
}

/// A limit that is tried beside that of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateFigures {
    /// The limit that is tried.
    pub quota: Quota,
    /// Requests of this node that passed in the range, and that it counted.
    pub requests: u64,
    /// Requests of these that it would have refused.
    pub would_refuse: u64,
    /// How many clients of this node it would have refused in the last minutes.
    pub clients_refused: u64,
    /// The clients that it would have refused most; empty in lists.
    pub clients: Vec<TopClient>,
}

impl RuleOrder {
    /// All of them, with the words of the query.
    pub const ALL: [(Self, &str); 3] =
        [(Self::Refused, "refused"), (Self::Requests, "requests"), (Self::Name, "name")];
}

impl RuleState {
    /// All of them, with their words in queries and forms.
    pub const ALL: [(Self, &str); 3] =
        [(Self::Enforced, "enforced"), (Self::Shadow, "shadow"), (Self::Disabled, "disabled")];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Shadow => "shadow",
            Self::Disabled => "disabled",
        }
    }
}
