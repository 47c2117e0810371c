//! What a [`Decision`](crate::Decision) looks like over HTTP: header fields, statuses, bodies.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate::http::{HeaderFamilies, write_fields};
//! use tollgate::{Limiter, Request};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Limiter::from_text("rules: [{rule_id: per_user, limit: 5, window: 1m, identifier_type: user_id}]")?;
//! let decision = limiter.check(&Request::new().user_id("alice")).now();
//! let mut headers = HeaderMap::new();
//! write_fields(&decision, HeaderFamilies::default(), &mut headers);
//! assert_eq!(headers["x-ratelimit-remaining"], "4");
//! assert_eq!(headers["ratelimit-policy"], "\"per_user\";q=5;w=60");
//! # Ok(())
//! # }
//! ```

mod families;
mod fields;
mod figures;
mod listed;
mod path;
mod refusal;
mod refusal_format;

pub use families::{CollidingFamilies, HeaderFamilies, HeaderFamily, UnknownFamily};
pub use fields::{for_each_field, write_fields};
pub use figures::{full_at, remaining, reset_at, retry_after, retry_after_rule};
pub use path::{PathMatching, PathProblem};
pub use refusal::{PROBLEM_JSON, refusal_body};
pub use refusal_format::{RefusalFormat, content_fields};
pub use tollgate_rules::{InvalidRefusal, InvalidTemplate, RefusalBody, RefusalTemplate};
