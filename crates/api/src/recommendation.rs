//! Limits that traffic proposes, with what each would do to it.

use serde::{Deserialize, Serialize};

/// Limits that the recent requests of a node propose, as rules, and what these would have done together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecommendationResponse {
    /// When the first of these requests was made, in RFC 3339.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub from: String,
    /// When the last one was made.
    #[cfg_attr(feature = "openapi", schema(format = DateTime))]
    pub until: String,
    /// How many requests were replayed.
    pub requests: u64,
    /// Those that the rules refuse.
    pub refused: u64,
    /// How many clients sent them.
    pub clients: u64,
    /// Those with a request that the rules refuse.
    pub clients_refused: u64,
    /// One in so many clients was kept, and so replayed: 1 if all were.
    pub one_in: u64,
    /// Whether older requests were left out because there were too many.
    pub cut: bool,
    /// Rules in force that are not among the proposed ones. They refuse more than `refused` if they stay beside them, as
    /// in a preview, unless they are removed.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub other_rules: u64,
    /// The rules: those of classes of clients first, then those of endpoints.
    pub rules: Vec<RecommendedRule>,
}

/// A rule that traffic proposes, and what it would do to that traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecommendedRule {
    /// The id of the rule.
    pub rule_id: String,
    /// What it is for, in words.
    pub name: String,
    /// The limit: what nearly all requests needed, and the headroom on top.
    pub limit: u64,
    /// The window, as policies write it.
    pub window: String,
    /// The algorithm.
    pub algorithm: String,
    /// What it counts by: `user_id`, `api_key` or `ip`.
    pub identifier_type: String,
    /// The endpoint; null for a rule of a class of clients.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub endpoint: Option<String>,
    /// The methods of the endpoint; empty for all.
    pub methods: Vec<String>,
    /// The tier of its clients; null for all.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub tier: Option<String>,
    /// The tenant that the rule belongs to; null for all.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub tenant: Option<String>,
    /// Rules that do not apply where this one does.
    pub replaces: Vec<String>,
    /// What all but a small share of requests needed within a window.
    pub needed: u64,
    /// What the busiest client needed.
    pub busiest: u64,
    /// Requests it applies to.
    pub requests: u64,
    /// Requests it refuses.
    pub refused: u64,
    /// Clients with a request that it refuses.
    pub clients_refused: u64,
}
