//! What can be written in a policy, for programs that make one from something else.

use std::sync::Arc;

use tollgate_core::{Limit, Quota};
use tollgate_document::Problem;

use crate::compile::quota;
use crate::matching::glob::Glob;
use crate::matching::host::HostMatcher;
use crate::matching::path::PathMatcher;

pub use crate::directory::client::MAX_IDENTIFIERS;

/// Whether conditions on attributes and `key_pattern` accept the text.
#[must_use]
pub fn is_glob(text: &str) -> bool {
    Glob::parse(text).is_ok()
}

/// Whether `applies_to.hosts` accepts the text.
#[must_use]
pub fn is_host(text: &str) -> bool {
    HostMatcher::parse(text).is_ok()
}

/// The normal form of an endpoint, if `applies_to.endpoints` accepts the text.
#[must_use]
pub fn endpoint(text: &str) -> Option<Arc<str>> {
    PathMatcher::parse(text).ok().map(|pattern| pattern.text)
}

/// The limit of a quota, within the bounds of a policy.
///
/// # Errors
/// The bound that it exceeds.
pub fn compile_quota(quota: Quota) -> Result<Limit, Problem> {
    quota::compile_quota(quota, false).map_err(Problem::from)
}
