//! One limit of a file: what it allows, and what responses to Envoy need.

use std::sync::Arc;

use tollgate_core::{Limit, Quota};
use tollgate_document::{Node, Position};

use crate::envoy::unit::Unit;

/// One limit.
#[derive(Clone, Debug)]
pub struct FileLimit {
    /// Names the limit: 1 to 100 of a-z, 0-9, underscore, dot and hyphen, different for each.
    ///
    /// It is the domain and then, for each level, the key or `key_value`, joined with dots:
    /// `shop.tenant_acme.remote_address`. If that is too long or has other characters in it, they
    /// become hyphens, and a hyphen and 16 digits follow, which are made from the exact path. The id
    /// of a limit depends on its own path only, so it stays when other limits come and go.
    pub id: Arc<str>,
    /// The domain it is in.
    pub domain: Arc<str>,
    /// The name of the file it is in.
    pub file: Arc<str>,
    /// Where its descriptor begins in that file.
    pub position: Position,
    /// How it is reached, the outermost first; never empty.
    pub path: Box<[LimitStep]>,
    /// How much is allowed.
    pub allowance: Allowance,
    /// Its name in `replaces` of other limits, and in responses to Envoy.
    pub name: Option<Box<str>>,
    /// The names of the limits that do not apply where this one does.
    pub replaces: Box<[Box<str>]>,
    /// Whether it only watches.
    pub shadow: bool,
    /// Whether its metrics name every value of a request.
    pub detailed_metric: bool,
    /// Whether a request that exceeds it is refused only if it exceeds all others of its kind too.
    pub quota: bool,
    /// What responses carry while it is not exceeded.
    pub metadata: Option<Node>,
}

/// One level on the way to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStep {
    /// The key of the entry.
    pub key: Arc<str>,
    /// Its value; any if there is none.
    pub value: Option<Arc<str>>,
    /// Whether all that match the wildcard are counted together.
    pub share_threshold: bool,
    /// Whether metrics name the value of the entry.
    pub value_to_metric: bool,
}

/// How much a limit allows.
#[derive(Clone, Debug)]
pub enum Allowance {
    /// Everything, and nothing is counted.
    Unlimited,
    /// So much per unit.
    Limited {
        /// The unit as it was written.
        unit: Unit,
        /// The limit as its author means it.
        quota: Quota,
        /// The limit, compiled.
        limit: Box<Limit>,
    },
}
