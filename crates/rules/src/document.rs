//! The policy document: one shape in files, APIs, databases and forms.
//!
//! These types mirror the text and mean nothing by themselves; compiling turns them into a policy.

use std::collections::BTreeMap;

use tollgate_core::MAX_LIMIT;
use tollgate_document::Fields;

use crate::choice::choice;
use crate::record::record;
use crate::value::{AlgorithmName, Decimal, OneOrMany, StatusPattern};
use crate::window::{Seconds, Window};

record! {
    /// A whole policy.
    #[derive(Default)]
    pub struct PolicyDocument {
        /// The limits. Every rule that matches a request applies to it.
        pub rules: Vec<RuleDocument> = Vec::new(),
        /// The tiers a client can be in; at most one is the default.
        pub tiers: Vec<TierDocument> = Vec::new(),
        /// Which client is in which tier.
        pub clients: Vec<ClientDocument> = Vec::new(),
        /// Exceptions from a rule for one client.
        pub overrides: Vec<OverrideDocument> = Vec::new(),
        /// Clients that are never limited.
        pub whitelist: Vec<ListDocument> = Vec::new(),
        /// Clients that are always refused.
        pub blacklist: Vec<ListDocument> = Vec::new(),
    }
}

record! {
    /// One limit: whom it counts, what it allows, what happens beyond it.
    #[either(window_seconds, window)]
    #[check(refuse_composite)]
    pub struct RuleDocument {
        /// Names the rule: 1 to 100 of a-z, 0-9, underscore, dot, hyphen.
        #[pattern("^[a-z0-9_.-]{1,100}$")]
        pub rule_id: String,
        /// What people call it.
        pub name: Option<String> = None,
        /// What it is for.
        pub description: Option<String> = None,
        /// Units per window; 0 blocks.
        pub limit: u64,
        /// Takes the limit of a client from a claim of its verified token; without it, `limit` holds.
        pub limit_from: Option<LimitFromDocument> = None,
        /// The window in seconds: 0.001 to 31622400, in whole milliseconds.
        pub window_seconds: Option<Seconds> = None,
        /// The window with a unit, instead of `window_seconds`: 500ms, 10s, 5m, 1h, 1d; or, with `time_zone` and
        /// `fixed_window`, of the calendar: 1 day, 1 week, 1 month.
        pub window: Option<Window> = None,
        /// Windows of the calendar only: the IANA name of the time zone in which they begin, like Europe/Berlin.
        pub time_zone: Option<String> = None,
        /// How usage is counted.
        pub algorithm: AlgorithmName = AlgorithmName::default(),
        /// Bucket algorithms only: capacity; the limit if not given.
        #[range(1..=MAX_LIMIT)]
        pub burst: Option<u64> = None,
        /// A limit to try on live traffic: counted beside the rule's, and never enforced.
        pub candidate: Option<CandidateDocument> = None,
        /// What counters are kept by: `user_id`, `api_key`, `ip`, `tenant`, `endpoint`, `path`,
        /// `global`, `header:NAME`, `claim:NAME` or `attribute:NAME`; a list makes a composite key.
        pub identifier_type: OneOrMany,
        /// A glob on the first identifier's value.
        pub key_pattern: String = "*".to_owned(),
        /// What happens to a request that lacks the identifier.
        pub on_missing: OnMissing = OnMissing::default(),
        /// The tenant the rule belongs to and only sees.
        pub tenant: Option<String> = None,
        /// Which requests it applies to; empty means all.
        pub applies_to: AppliesTo = AppliesTo::default(),
        /// What one request costs here.
        pub cost: u64 = 1,
        /// What a request costs by endpoint, as "METHOD /pattern" or "/pattern"; else `cost`.
        pub costs: BTreeMap<String, u64> = BTreeMap::new(),
        /// What happens beyond the limit.
        pub action: Action = Action::default(),
        /// How `throttle` holds requests back.
        pub throttle: Option<ThrottleDocument> = None,
        /// When to warn, and how much to tolerate.
        pub soft: Option<SoftDocument> = None,
        /// Higher ones are reported first.
        pub priority: i64 = 0,
        /// Rules that do not apply where this one does.
        pub replaces: Vec<String> = Vec::new(),
        /// Whether nodes share this counter.
        pub consistency: Consistency = Consistency::default(),
        /// What happens when the shared store is away.
        pub on_store_failure: OnStoreFailure = OnStoreFailure::default(),
        /// With `on_store_failure: local`: each node allows this many times the limit.
        #[range(1..=4_294_967_295)]
        pub fallback_factor: u32 = 2,
        /// Bans clients that keep exceeding the limit.
        pub penalty: Option<PenaltyDocument> = None,
        /// Statuses, like 503 or 5xx, that give the charge back.
        pub refund_on: Vec<StatusPattern> = Vec::new(),
        /// How the gateway and forward-auth refuse, if not as the settings say.
        pub refusal: Option<RefusalDocument> = None,
        /// Whether the rule applies at all.
        pub enabled: bool = true,
    }
}

impl RuleDocument {
    /// Whether rules have a field of that name.
    pub(crate) fn has_field(name: &str) -> bool {
        Self::FIELDS.iter().any(|field| field.name == name)
    }
}

record! {
    /// Which requests a rule applies to. An empty list means any.
    #[derive(Default)]
    pub struct AppliesTo {
        /// Host names, `*.example.com` included.
        pub hosts: Vec<String> = Vec::new(),
        /// Paths: exact, with parameters (`/users/{id}`), or with a tail (`/api/*`).
        pub endpoints: Vec<String> = Vec::new(),
        /// HTTP methods.
        pub methods: Vec<String> = Vec::new(),
        /// Tiers of clients.
        pub user_tiers: Vec<String> = Vec::new(),
        /// Globs that attributes of the request must match, one of the list each.
        pub attributes: BTreeMap<String, Vec<String>> = BTreeMap::new(),
    }
}

record! {
    /// A tier of clients.
    pub struct TierDocument {
        /// The name of the tier.
        pub tier: String,
        /// Whether clients without a tier are in this one.
        pub default: bool = false,
    }
}

record! {
    /// The tier of one client.
    #[check(refuse_composite)]
    pub struct ClientDocument {
        /// What kind of identifier names the client.
        pub identifier_type: OneOrMany,
        /// The identifier; a list for a composite one.
        pub identifier: OneOrMany,
        /// The tier it is in.
        pub tier: String,
    }
}

record! {
    /// An exception from a rule for one client: a limit, window, burst, or a multiplier of the limit.
    #[check(refuse_composite)]
    pub struct OverrideDocument {
        /// What kind of identifier names the client.
        pub identifier_type: OneOrMany,
        /// The identifier; a list for a composite one.
        pub identifier: OneOrMany,
        /// The rule it is an exception from.
        pub rule_id: String,
        /// Another limit.
        pub limit: Option<u64> = None,
        /// Another window.
        pub window_seconds: Option<Seconds> = None,
        /// Another capacity.
        #[range(1..=MAX_LIMIT)]
        pub burst: Option<u64> = None,
        /// The rule's limit and burst times this, with at most six fraction digits.
        pub multiplier: Option<Decimal> = None,
        /// When the exception begins, as an RFC 3339 time; at once if not given.
        pub starts_at: Option<String> = None,
        /// When the exception ends, as an RFC 3339 time.
        pub expires_at: Option<String> = None,
    }
}

record! {
    /// A client that is never limited, or always refused.
    #[check(refuse_composite)]
    pub struct ListDocument {
        /// What kind of identifier names the client.
        pub identifier_type: OneOrMany,
        /// The identifier; for `ip` also a network like 10.0.0.0/8.
        pub identifier: OneOrMany,
        /// Why it is listed.
        pub reason: Option<String> = None,
        /// When the entry ends, as an RFC 3339 time.
        pub expires_at: Option<String> = None,
    }
}

record! {
    /// A limit that is tried beside that of its rule. A field that is missing is as the rule has it.
    #[derive(Default)]
    pub struct CandidateDocument {
        /// Another limit.
        pub limit: Option<u64> = None,
        /// Another window, in seconds.
        pub window_seconds: Option<Seconds> = None,
        /// Another window, with a unit, instead of `window_seconds`.
        pub window: Option<Window> = None,
        /// Another capacity, for bucket algorithms only.
        #[range(1..=MAX_LIMIT)]
        pub burst: Option<u64> = None,
        /// Another way to count.
        pub algorithm: Option<AlgorithmName> = None,
    }
}

record! {
    /// A limit that verified tokens carry.
    pub struct LimitFromDocument {
        /// The name of the claim: a whole number of units per window; 0 blocks.
        pub claim: String,
        /// The largest limit that a token can give. A larger claim counts as this one.
        #[range(1..=MAX_LIMIT)]
        pub ceiling: u64,
    }
}

record! {
    /// How requests beyond the limit are held back.
    pub struct ThrottleDocument {
        /// The longest a request may be held.
        #[range(0..=31_622_400_000)]
        pub max_delay_ms: u64,
    }
}

record! {
    /// When a client is warned, and what is tolerated beyond the limit.
    pub struct SoftDocument {
        /// The share of the limit from which on a client is warned.
        #[range(0..=1)]
        pub warn_at: Decimal = Decimal::from_millionths(800_000),
        /// The share below which the warning ends.
        #[range(0..=1)]
        pub clear_at: Decimal = Decimal::from_millionths(700_000),
        /// Units admitted above the limit, flagged, and not part of the reported limit.
        pub grace: u64 = 0,
    }
}

record! {
    /// A ban for clients that keep exceeding a limit.
    pub struct PenaltyDocument {
        /// How many refusals lead to a ban.
        #[range(1..=1_000_000)]
        pub after: u64,
        /// Within which time.
        #[range(1..=31_622_400)]
        pub within_seconds: u64,
        /// How long the ban lasts.
        #[range(1..=31_622_400)]
        pub ban_seconds: u64,
    }
}

record! {
    /// The status and body of a refusal.
    pub struct RefusalDocument {
        /// The status.
        #[range(400..=599)]
        pub status: Option<u64> = None,
        /// `problem`, `flat`, or a text with figures, as in `retry in {retry_after} s`.
        pub body: Option<String> = None,
        /// The content type of a text; application/json if not given.
        pub content_type: Option<String> = None,
    }
}

choice! {
    /// What happens to a request that lacks the identifier.
    pub enum OnMissing {
        /// The rule does not apply to it.
        #[default]
        Skip = "skip",
        /// It is refused.
        Deny = "deny",
    }
    later: []
}

choice! {
    /// What happens beyond the limit.
    pub enum Action {
        /// Requests are refused.
        #[default]
        Reject = "reject",
        /// Requests are held back until there is room for them.
        Throttle = "throttle",
        /// Requests pass, and a note is made of it.
        LogOnly = "log_only",
    }
    later: ["queue"]
}

choice! {
    /// Whether nodes share a counter.
    pub enum Consistency {
        /// All nodes count together, in the shared store.
        #[default]
        Strict = "strict",
        /// Each node counts for itself.
        Local = "local",
    }
    later: ["leased"]
}

choice! {
    /// What happens when the shared store is away.
    pub enum OnStoreFailure {
        /// Each node counts for itself meanwhile.
        #[default]
        Local = "local",
        /// Requests pass.
        Open = "open",
        /// Requests are refused.
        Closed = "closed",
    }
    later: []
}

/// A composite identifier is written as the list of its parts; there is no word for it.
fn refuse_composite(fields: &mut Fields<'_>) {
    let Some(node) = fields.get("identifier_type") else { return };
    if node.as_str() == Some("composite") {
        let advice = "list its parts, as in [user_id, endpoint]";
        fields.problem("identifier_type", node.position, "there is no type composite", advice);
    }
}
