//! The kinds of entries of a catalog, and the table that each has.

use std::fmt;

/// A kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A rule, by its `rule_id`.
    Rule,
    /// A tier, by its name.
    Tier,
    /// The tier of a client.
    Client,
    /// An exception from a rule for a client.
    Override,
    /// A client that is never limited.
    Whitelist,
    /// A client that is always refused.
    Blacklist,
    /// A known API key.
    ApiKey,
    /// A token for this server.
    Token,
    /// A client that a rule refuses for a while.
    Ban,
}

impl Kind {
    /// All kinds, those first that others refer to.
    pub const ALL: [Self; 9] = [
        Self::Tier,
        Self::Rule,
        Self::Client,
        Self::Override,
        Self::Whitelist,
        Self::Blacklist,
        Self::ApiKey,
        Self::Token,
        Self::Ban,
    ];

    /// The kinds of entries in a policy document, in its order.
    pub const POLICY: [Self; 6] =
        [Self::Rule, Self::Tier, Self::Client, Self::Override, Self::Whitelist, Self::Blacklist];

    /// Its name in the audit log, and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Tier => "tier",
            Self::Client => "client",
            Self::Override => "override",
            Self::Whitelist => "whitelist",
            Self::Blacklist => "blacklist",
            Self::ApiKey => "api_key",
            Self::Token => "token",
            Self::Ban => "ban",
        }
    }

    /// The name of a list of them, in policy documents and responses.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Rule => "rules",
            Self::Tier => "tiers",
            Self::Client => "clients",
            Self::Override => "overrides",
            Self::Whitelist => "whitelist",
            Self::Blacklist => "blacklist",
            Self::ApiKey => "api_keys",
            Self::Token => "tokens",
            Self::Ban => "bans",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Rule => "tollgate_rules",
            Self::Tier => "tollgate_tiers",
            Self::Client => "tollgate_clients",
            Self::Override => "tollgate_overrides",
            Self::Whitelist => "tollgate_whitelist",
            Self::Blacklist => "tollgate_blacklist",
            Self::ApiKey => "tollgate_api_keys",
            Self::Token => "tollgate_tokens",
            Self::Ban => "tollgate_bans",
        }
    }

    /// The columns that only this kind has; [`crate::entry::Entry::columns`] gives their values.
    pub(crate) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Rule => &["tenant", "enabled", "author_tenant", "window_ms"],
            Self::Tier => &["is_default"],
            Self::Client => &["identifier_type", "identifier", "tier"],
            Self::Override => &[
                "rule_id",
                "identifier_type",
                "identifier",
                "tenant",
                "expires_at",
                "author_tenant",
            ],
            Self::Whitelist => &["identifier_type", "identifier", "tenant", "reason", "expires_at"],
            Self::Blacklist => &[
                "identifier_type",
                "identifier",
                "tenant",
                "reason",
                "expires_at",
                "author_tenant",
            ],
            Self::ApiKey => &["digest", "owner", "tier", "tenant"],
            Self::Token => &["digest", "role", "tenant", "expires_at"],
            Self::Ban => &["rule_id", "identifier", "tenant", "expires_at"],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
