//! Policy documents in, an immutable policy out; then requests in, a plan of charges out.
//!
//! A text becomes a [`Source`], which remembers where everything stood; a source compiles to a
//! [`Policy`], or to every [`Problem`] it has. A policy is a [`RuleSet`], compiled whole, and a
//! [`Directory`] of what is known about single clients, which is changed entry by entry. A request
//! is whatever implements [`Attributes`]. [`Policy::plan`] finds the rules that apply to it by
//! walking its path, not by trying every rule, and allocates nothing for an ordinary request.
//!
//! ```
//! use tollgate_core::Timestamp;
//! use tollgate_rules::{Attribute, Attributes, Policy};
//!
//! struct Request;
//!
//! impl Attributes for Request {
//!     fn get(&self, attribute: Attribute<'_>) -> Option<&str> {
//!         match attribute {
//!             Attribute::UserId => Some("u1"),
//!             Attribute::Path => Some("/api/orders"),
//!             _ => None,
//!         }
//!     }
//! }
//!
//! let policy = Policy::from_text(
//!     "rules:
//!        - {rule_id: api, limit: 100, window: 1m, identifier_type: user_id,
//!           applies_to: {endpoints: [/api/*]}}",
//! )
//! .expect("a valid policy");
//! let hasher = std::hash::RandomState::new();
//! let plan = policy.plan(&[&Request], Timestamp::from_secs(0), &hasher);
//! let charge = plan.charges(policy.rules()).next().expect("the rule applies");
//! assert_eq!((charge.key.rule, charge.key.subject, charge.cost), ("api", &b"u1"[..], 1));
//! ```
//!
//! What a rule means, where that is not obvious:
//!
//! - All rules that match apply. They are reported by priority, then the narrower ones first.
//! - `replaces` is one simultaneous step over the rules that matched: a rule that is replaced still
//!   replaces others.
//! - `/api/*` covers `/api` itself. Paths are compared in one [normal form](normalise_path).
//! - An identifier that is empty, or an address that is none, is missing.
//! - Lists come before rules; the longest prefix decides among networks, and deny wins otherwise.
#![forbid(unsafe_code)]

mod attributes;
mod calendar;
mod candidate;
mod choice;
mod compile;
mod directory;
pub mod document;
mod explain;
mod identifier;
mod limit_from;
mod lint;
mod matching;
mod past_time;
mod plan;
mod policy;
mod record;
mod refusal;
mod rule;
mod ruleset;
mod schema;
mod secret;
mod source;
pub mod syntax;
mod to_yaml;
mod value;
mod window;

pub use attributes::{Attribute, Attributes};
pub use calendar::find_calendar;
pub use candidate::{candidate_id, candidate_of};
pub use compile::CompileOptions;
pub use compile::group::rule_digest;
pub use directory::bans::{Digest, Subject};
pub use directory::client::Client;
pub use directory::expiry::{format_time, parse_time};
pub use directory::lists::{List, Listed, Listing};
pub use directory::overrides::{Amount, Override};
pub use directory::{Directory, DirectoryChange};
pub use document::PolicyDocument;
pub use explain::{
    ExplainScope, Explanation, KeyPart, ListedExplanation, QuotaExplanation, RuleExplanation,
    TierOrigin,
};
pub use identifier::Identifier;
pub use lint::{
    LintContext, beyond_tenant_in_redis, inspect, lint, never_applies,
    overrides_uncountable_in_redis, uncountable_in_redis,
};
pub use matching::network::{client_address, client_network};
pub use matching::path::{PathCase, normalise as normalise_path};
pub use past_time::{PAST_TIME, parse_past_time};
pub use plan::{Admission, Plan, Planned, Restored};
pub use policy::{Policy, Revision};
pub use refusal::{
    FigureValue, InvalidRefusal, InvalidTemplate, RefusalBody, RefusalTemplate, RuleRefusal,
    TemplateFigure,
};
pub use rule::{Penalty, Rule, SoftLimit, StatusSet};
pub use ruleset::{Referenced, RuleSet};
pub use schema::schema;
pub use secret::{SECRET_DIGEST, redacted_values};
pub use source::Source;
pub use to_yaml::to_yaml;
pub use tollgate_document::{Format, Position, Problem, Severity};
pub use value::{AlgorithmName, Decimal, OneOrMany, StatusPattern};
pub use window::{Seconds, Window, WindowLength, parse_window};
