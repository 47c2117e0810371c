//! Which permission each call of the description needs. A call that is missing here fails a test.

/// The permission that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    /// None: any client that reaches the port may call.
    Nothing,
    /// To check requests.
    Caller,
    /// To peek.
    Look,
    /// To read what concerns all tenants.
    Viewer,
    /// To read rules and lists, maybe of one tenant.
    RuleViewer,
    /// To change rules and lists, maybe of one tenant.
    RuleEditor,
    /// To change what concerns all tenants.
    Operator,
    /// To read and change tokens.
    Admin,
}

impl Least {
    /// The roles that have it.
    pub(crate) const fn roles(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &["admin", "operator", "viewer", "caller", "tenant-admin"],
            Self::Caller => &["admin", "operator", "caller"],
            Self::Look => &["admin", "operator", "viewer", "caller"],
            Self::Viewer => &["admin", "operator", "viewer"],
            Self::RuleViewer => &["admin", "operator", "viewer", "tenant-admin"],
            Self::RuleEditor => &["admin", "operator", "tenant-admin"],
            Self::Operator => &["admin", "operator"],
            Self::Admin => &["admin"],
        }
    }

    /// Its name in a refusal.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Caller | Self::Look => "`caller`",
            Self::Viewer | Self::RuleViewer => "`viewer`",
            Self::RuleEditor | Self::Operator => "`operator`",
            Self::Admin => "`admin`",
        }
    }
}

use Least::{Admin, Caller, Look, Nothing, Operator, RuleEditor, RuleViewer, Viewer};

#[rustfmt::skip]
pub(crate) const CALLS: &[(&str, &str, Least)] = &[
    ("get", "/health/live", Nothing),
    ("get", "/health/ready", Nothing),
    ("get", "/healthcheck", Nothing),
    ("get", "/metrics", Nothing),
    ("get", "/api/v1/rate-limits/status", Nothing),
    ("post", "/api/v1/rate-limit/check", Caller),
    ("post", "/api/v1/rate-limit/check/batch", Caller),
    ("get", "/api/v1/rate-limit/authorize", Caller),
    ("post", "/json", Caller),
    ("post", "/api/v1/rate-limit/peek", Look),
    ("post", "/api/v1/rate-limit/explain", Look),
    ("post", "/api/v1/rate-limit/refund", Operator),
    ("post", "/api/v1/rate-limit/reset", Operator),
    ("get", "/api/v1/decisions/{decision_id}", RuleViewer),
    ("get", "/api/v1/rules", RuleViewer),
    ("post", "/api/v1/rules", RuleEditor),
    ("get", "/api/v1/rules/{rule_id}", RuleViewer),
    ("put", "/api/v1/rules/{rule_id}", RuleEditor),
    ("patch", "/api/v1/rules/{rule_id}", RuleEditor),
    ("delete", "/api/v1/rules/{rule_id}", RuleEditor),
    ("get", "/api/v1/whitelist", RuleViewer),
    ("post", "/api/v1/whitelist", RuleEditor),
    ("delete", "/api/v1/whitelist", RuleEditor),
    ("get", "/api/v1/blacklist", RuleViewer),
    ("post", "/api/v1/blacklist", RuleEditor),
    ("delete", "/api/v1/blacklist", RuleEditor),
    ("get", "/admin/api/v1/rate-limits/rules", RuleViewer),
    ("post", "/admin/api/v1/rate-limits/rules", RuleEditor),
    ("get", "/admin/api/v1/rate-limits/rules/{rule_id}", RuleViewer),
    ("put", "/admin/api/v1/rate-limits/rules/{rule_id}", RuleEditor),
    ("patch", "/admin/api/v1/rate-limits/rules/{rule_id}", RuleEditor),
    ("delete", "/admin/api/v1/rate-limits/rules/{rule_id}", RuleEditor),
    ("get", "/admin/api/v1/rate-limits/whitelist", RuleViewer),
    ("post", "/admin/api/v1/rate-limits/whitelist", RuleEditor),
    ("delete", "/admin/api/v1/rate-limits/whitelist", RuleEditor),
    ("get", "/admin/api/v1/rate-limits/blacklist", RuleViewer),
    ("post", "/admin/api/v1/rate-limits/blacklist", RuleEditor),
    ("delete", "/admin/api/v1/rate-limits/blacklist", RuleEditor),
    ("get", "/api/v1/overrides", RuleViewer),
    ("put", "/api/v1/overrides", RuleEditor),
    ("delete", "/api/v1/overrides", RuleEditor),
    ("get", "/api/v1/bans", RuleViewer),
    ("delete", "/api/v1/bans", RuleEditor),
    ("get", "/admin/api/v1/rate-limits/bans", RuleViewer),
    ("delete", "/admin/api/v1/rate-limits/bans", RuleEditor),
    ("get", "/api/v1/audit", RuleViewer),
    ("get", "/api/v1/audit/decisions", RuleViewer),
    ("get", "/api/v1/stats", RuleViewer),
    ("get", "/api/v1/envoy/limits", Viewer),
    ("get", "/api/v1/top", RuleViewer),
    ("get", "/api/v1/history", RuleViewer),
    ("post", "/api/v1/preview", RuleViewer),
    ("get", "/api/v1/recommendation", RuleViewer),
    ("get", "/api/v1/nodes", Viewer),
    ("get", "/api/v1/events", RuleViewer),
    ("get", "/api/v1/policy", RuleViewer),
    ("put", "/api/v1/policy", RuleEditor),
    ("get", "/api/v1/policy/revisions", RuleViewer),
    ("get", "/api/v1/policy/revisions/{revision}", RuleViewer),
    ("get", "/api/v1/policy/revisions/{revision}/diff", RuleViewer),
    ("post", "/api/v1/policy/revisions/{revision}/rollback", RuleEditor),
    ("get", "/api/v1/tiers", Viewer),
    ("put", "/api/v1/tiers", Operator),
    ("get", "/api/v1/clients", Viewer),
    ("put", "/api/v1/clients", Operator),
    ("delete", "/api/v1/clients", Operator),
    ("get", "/api/v1/users/{user_id}/limits", Viewer),
    ("put", "/api/v1/users/{user_id}/tier", Operator),
    ("delete", "/api/v1/users/{user_id}/tier", Operator),
    ("post", "/api/v1/users/{user_id}/override", Operator),
    ("delete", "/api/v1/users/{user_id}/override", Operator),
    ("get", "/api/v1/api-keys", Viewer),
    ("post", "/api/v1/api-keys", Operator),
    ("delete", "/api/v1/api-keys/{key_id}", Operator),
    ("get", "/api/v1/tokens", Admin),
    ("post", "/api/v1/tokens", Admin),
    ("delete", "/api/v1/tokens/{token_id}", Admin),
];
