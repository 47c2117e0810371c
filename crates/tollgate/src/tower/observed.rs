//! What an observer sees of each request that was checked.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::request::Parts;
use tollgate_rules::Attributes;

use crate::decision::Decision;
use crate::identity::Identity;

/// Called with each request that was checked. May name those that were refused.
pub(super) type Observer = Arc<dyn Fn(&Observed<'_>) -> Option<String> + Send + Sync>;

/// An extension of responses to requests that were refused before any rule was checked, for their path or their
/// credentials. Observers do not see such requests.
#[derive(Clone, Copy, Debug)]
pub struct NotChecked;

/// A request that was checked, borrowed until the observer returns.
#[non_exhaustive]
pub struct Observed<'a> {
    /// The decision: passed, delayed, or refused, and why.
    pub decision: &'a Decision,
    /// The request as rules saw it, with the program's attributes.
    pub request: &'a dyn Attributes,
    /// The identity that the layer found.
    pub identity: &'a Identity,
    /// Method, target, header fields and extensions.
    pub parts: &'a Parts,
    /// How long the check took, without identification and delay.
    pub took: Duration,
}

/// Omits header fields and attributes: they may contain secrets.
impl fmt::Debug for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("is_allowed", &self.decision.is_allowed())
            .field("took", &self.took)
            .finish_non_exhaustive()
    }
}
