//! The frame of every page: who is signed in, where, and what is wrong right now.

use super::time::Time;

/// The frame of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chrome {
    /// The moment the page is made at; ages are counted from it.
    pub now: Time,
    /// The page in the navigation.
    pub tab: Tab,
    /// Who is signed in. The sign-in page has none.
    pub viewer: Viewer,
    /// The version of the program.
    pub version: String,
    /// The name of this node.
    pub node: String,
    /// The revision of the policy in force.
    pub revision: u64,
    /// The token that every form posts, in the field `csrf`.
    pub csrf: String,
    /// What is wrong right now, the worst first. Pages show the first and count the others.
    pub banners: Vec<Banner>,
    /// What the last form did, or why it did not.
    pub notice: Option<Notice>,
    /// The range of time that the charts show.
    pub range: Range,
    /// Pages that the navigation leaves out: the viewer may not see them, or this server does not have them.
    pub hidden: Vec<Tab>,
    /// How many limits of Envoy's files are in force. They are not rules, and not listed on pages.
    pub envoy_limits: u64,
    /// Why nothing can be changed here, as a sentence: "The rules come from the file rules.yaml: change it there."
    pub read_only: Option<String>,
}

/// A page in the navigation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// What happens now.
    #[default]
    Overview,
    /// The rules, and one rule.
    Rules,
    /// Search for a client, and one client.
    Clients,
    /// Top lists and the tail of decisions; one decision.
    Live,
    /// Why a request passes or not.
    Try,
    /// An access log against rules.
    Simulate,
    /// Changes and refusals.
    Audit,
    /// Allow list, deny list, bans, overrides.
    Lists,
    /// API keys and tokens.
    Keys,
    /// Stores, catalog, nodes.
    Health,
}

/// Who is signed in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    /// The id or the name of the token.
    pub name: String,
    /// The role, as the API names it.
    pub role: String,
    /// The only tenant whose data is shown.
    pub tenant: Option<String>,
    /// What the viewer may do here. Pages hide what it may not.
    pub rights: Rights,
}

/// What a viewer may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Write rules, lists and overrides, maybe of one tenant only; lift bans.
    pub edits_rules: bool,
    /// Reset counters, refund, put clients into tiers, register API keys.
    pub operates: bool,
    /// See and create tokens.
    pub administers: bool,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    #[default]
    Info,
    /// Works, but not as it should.
    Warning,
    /// Requests are refused, or limits not kept.
    Bad,
}

/// Something that is wrong right now: "**redis-2: circuit open since 12:41:08** — 3 rules count locally at 2x".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Banner {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in a few words.
    pub what: String,
    /// Since when; the page adds "since 12:41:08".
    pub since: Option<Time>,
    /// What that means, as the rest of the sentence.
    pub means: String,
    /// The text and the address of the link to more.
    pub link: Option<(String, String)>,
}

/// What a form did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// `Info` if it was done, else why not.
    pub severity: Severity,
    /// One sentence: "Saved as revision 43."
    pub text: String,
    /// The text and the address of a link to what it is about.
    pub link: Option<(String, String)>,
}

/// A range of time, as in the query of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Which one was chosen.
    pub choice: RangeChoice,
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub until: Time,
}

/// A range of time that a page offers. `?range=15m`, `1h`, `4h`, `24h`, or `?from=SECONDS&until=SECONDS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeChoice {
    /// The last 15 minutes.
    Minutes15,
    /// The last hour.
    #[default]
    Hour,
    /// The last four hours.
    Hours4,
    /// The last day.
    Day,
    /// From one moment to another; figures do not move.
    Custom,
}

impl RangeChoice {
    /// Those that follow the present.
    pub const ALL: [Self; 4] = [Self::Minutes15, Self::Hour, Self::Hours4, Self::Day];

    /// Its word in the query; empty for a custom one.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Minutes15 => "15m",
            Self::Hour => "1h",
            Self::Hours4 => "4h",
            Self::Day => "24h",
            Self::Custom => "",
        }
    }

    /// Its length in seconds; 0 for a custom one.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Minutes15 => 900,
            Self::Hour => 3_600,
            Self::Hours4 => 14_400,
            Self::Day => 86_400,
            Self::Custom => 0,
        }
    }

    /// The choice that a word of a query names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.word() == word)
    }
}
