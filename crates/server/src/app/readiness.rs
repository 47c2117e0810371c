//! Whether a node should get traffic. Load balancers ask; checks are answered in any case.

use std::sync::atomic::Ordering;

use http::StatusCode;

use crate::app::state::Shared;
use crate::edge::http::problem::Problem;

/// Whether a node should get traffic, and why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeReadiness {
    #[default]
    Ready,
    /// The built-in rules are in force until the catalog can be read: other nodes know better limits.
    WaitingForCatalog,
    Draining,
}

impl NodeReadiness {
    /// Its name in responses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::WaitingForCatalog => "waiting_for_catalog",
            Self::Draining => "draining",
        }
    }
}

impl Shared {
    pub(crate) fn readiness(&self) -> NodeReadiness {
        if self.is_draining.load(Ordering::Relaxed) {
            NodeReadiness::Draining
        } else if self.policy_source.is_awaited() {
            NodeReadiness::WaitingForCatalog
        } else {
            NodeReadiness::Ready
        }
    }
}

/// The problem of a token while none is known. Making another one would not help.
pub(crate) fn tokens_unknown() -> Problem {
    let detail = "this node has not reached the catalog since it started, so it does not know any tokens yet; use \
                  another node, or TOLLGATE_ADMIN_TOKEN if it is set";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "catalog_unavailable", detail)
}
