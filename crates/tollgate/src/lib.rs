//! A rate limiter for Rust programs.
//!
//! ```
//! use tollgate::{Limiter, Request};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::from_text("rules: [{rule_id: per_user, limit: 5, window: 1s, identifier_type: user_id}]")?;
//! let decision = limiter.check(&Request::new().user_id("alice")).now();
//! assert!(decision.is_allowed());
//! # Ok(())
//! # }
//! ```
//!
//! A [`Limiter`] checks requests by a [`Policy`]: all rules that match apply, and a request is charged to all of them or
//! to none. [`Limiter::check`] cannot fail; its [`Decision`] has the rule that binds, what is left, and when to retry.
//! [`Limiter::install`] puts another policy in force between two requests; counters are kept.
//!
//! Counters are in a [`Store`]; the [`MemoryStore`] of this process is the default. Time comes from a [`Clock`]; tests
//! and simulations use a [`ManualClock`].

mod batch;
mod builder;
mod checked;
mod claim;
mod clock;
mod decision;
mod explain;
mod fallbacks;
#[cfg(feature = "http")]
pub mod http;
mod idempotent;
#[cfg(feature = "http")]
pub mod identity;
mod limiter;
mod local_charges;
mod penalty;
mod receipt;
mod refund;
mod request;
mod settler;
mod snapshot;
mod soft;
mod stats;
mod target;
#[cfg(feature = "tower")]
pub mod tower;
mod uncancelled;
mod used_key;

pub use builder::{InvalidPolicy, LimiterBuilder, Unmatched};
pub use checked::{Checked, Pending, Promise, PromiseFuture};
pub use claim::{ClaimOutcome, ClaimedOutcome, RefundClaim};
pub use clock::{CachedClock, Clock, ManualClock, Stopwatch, SystemClock};
pub use decision::{Decision, DecisionReason, Refusal, RuleOutcome};
pub use explain::{Explained, Figures};
pub use idempotent::Idempotent;
pub use limiter::Limiter;
pub use penalty::{Ban, BanCounts, Offence, Penalties};
pub use receipt::Receipt;
pub use request::Request;
pub use soft::SoftState;
pub use stats::RuleCounts;
pub use target::{CheckTarget, ExplicitCharge, Peek};
pub use used_key::UsedKey;

pub use tollgate_core::{
    Algorithm, Limit, Micros, Mode, Outcome, Quota, Report, Timestamp, decide,
};
pub use tollgate_rules as rules;
pub use tollgate_rules::{
    Attribute, Attributes, PathCase, Policy, Problem, Revision, client_address, client_network,
};
pub use tollgate_store as store;
pub use tollgate_store::{IdempotencyKey, MemoryStore, Store};

/// The snippets of the guide, so that they keep compiling.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct Guide;

#[cfg(all(doctest, feature = "tower"))]
#[doc = include_str!("../../../docs/layer.md")]
struct LayerGuide;
