//! What a program is shown of each request that was judged.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::request::Parts;
use tollgate_rules::Attributes;

use crate::decision::Decision;
use crate::identity::Identity;

/// Whoever looks at requests that were judged. May name those that were refused.
pub(super) type Observer = Arc<dyn Fn(&Observed<'_>) -> Option<String> + Send + Sync>;

/// An extension of responses to requests that were refused before any rule judged them, for their path or
/// their credentials. Observers do not see such requests.
#[derive(Clone, Copy, Debug)]
pub struct NotJudged;

/// A request that was judged. What it was made of is lent until the observer returns.
#[non_exhaustive]
pub struct Observed<'a> {
    /// What was decided: passed, held, or refused, and why.
    pub decision: &'a Decision,
    /// The request as rules saw it, with what the program itself knows about it.
    pub request: &'a dyn Attributes,
    /// Who it is from, as far as the layer found out by itself.
    pub identity: &'a Identity,
    /// Method, target, header fields and extensions.
    pub parts: &'a Parts,
    /// How long it took to judge it. Finding out who it is from, and waiting for its turn, are not
    /// part of that.
    pub took: Duration,
}

/// Header fields and attributes may hold secrets, so they are not shown.
impl fmt::Debug for Observed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("is_allowed", &self.decision.is_allowed())
            .field("took", &self.took)
            .finish_non_exhaustive()
    }
}
