//! What a changed policy would have done: the recent requests of this node, replayed against the policy in force and
//! against the changed one, on a virtual clock with counters of their own.

mod candidate;
pub(crate) mod changed_policy;
mod replay;

use std::sync::Arc;

use http::StatusCode;
use tollgate::rules::{PolicyDocument, candidate_id};
use tollgate::{PathCase, Store as _, Timestamp, Unmatched};

use self::replay::Replay;
use crate::app::state::Shared;
use crate::edge::http::problem::Problem;
use crate::observe::replay_budget::CancelOnDrop;
pub(crate) use candidate::CandidatePreview;

/// A change of the policy in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyChange {
    /// Entries that are added, or replace those of the same name.
    pub(crate) document: PolicyDocument,
    /// Rules that are removed.
    pub(crate) removed: Vec<String>,
}

/// What a changed policy would have done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PreviewFigures {
    /// The first and the last request that was replayed; `None` if there was none.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
    /// How many requests were replayed.
    pub(crate) requests: u64,
    /// How many nodes share the counters: each has a part of the requests.
    pub(crate) nodes: usize,
    /// One in so many clients was kept, and so replayed: 1 if all were.
    pub(crate) one_in: u64,
    /// By the policy in force.
    pub(crate) now: PreviewSide,
    /// By the changed policy.
    pub(crate) then: PreviewSide,
    /// Clients with refusals by either, the most changed first.
    pub(crate) clients: Vec<PreviewClient>,
    /// How many clients both refuse equally often.
    pub(crate) clients_unchanged: u64,
    /// What the candidates of the changed rules would have refused of the requests that pass.
    pub(crate) candidates: Vec<CandidatePreview>,
    /// Over time, in equal steps.
    pub(crate) points: Vec<PreviewPoint>,
    /// Headers, claims and attributes that the changed policy refers to, and that were not kept of these requests,
    /// because the policy in force does not.
    pub(crate) unknown: Vec<String>,
    /// Whether requests were left out, to end in time.
    pub(crate) is_cut: bool,
}

/// What one policy did with the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreviewSide {
    /// Refused or denied.
    pub(crate) refused: u64,
    pub(crate) throttled: u64,
    /// Would have been refused by a shadow rule.
    pub(crate) would_refuse: u64,
    /// Clients with a refused request.
    pub(crate) clients: u64,
}

/// A client with a request that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreviewClient {
    /// As it is recorded elsewhere.
    pub(crate) client: String,
    pub(crate) tenant: Option<String>,
    pub(crate) requests: u64,
    pub(crate) refused_now: u64,
    pub(crate) refused_then: u64,
}

/// A step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreviewPoint {
    pub(crate) at: Timestamp,
    pub(crate) requests: u64,
    pub(crate) refused_now: u64,
    pub(crate) refused_then: u64,
}

/// How requests are checked, besides the policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckOptions {
    pub(crate) path_case: PathCase,
    pub(crate) unmatched: Unmatched,
}

impl Shared {
    /// Replays the recent requests of this node, of one tenant if that is given. `caller` is the name whose share of
    /// the queue it takes. Ends early if the caller stops waiting.
    ///
    /// # Errors
    /// The changed policy is invalid, no requests are kept (`recent_traffic: 0`), or too many previews run.
    pub(crate) async fn preview(
        &self,
        caller: &str,
        change: PolicyChange,
        tenant: Option<String>,
    ) -> Result<PreviewFigures, Problem> {
        let ticket = self.queues.previews.enter(caller)?;
        let base = self.policy_base();
        let traffic = Arc::clone(&self.recent_traffic);
        let options = self.check_options;
        let canceller = CancelOnDrop::default();
        let is_cancelled = canceller.flag();
        let replaying = async move {
            let tried = change.document.rules.iter().filter(|rule| rule.candidate.is_some());
            let candidates = tried.map(|rule| candidate_id(&rule.rule_id)).collect();
            let changed = base.changed(change, tenant.as_deref())?.policy;
            let view = traffic.view().ok_or_else(no_traffic)?;
            let replay = Replay { in_force: base.policy, changed, candidates, options };
            Ok(replay.run(&view, tenant.as_deref(), &is_cancelled))
        };
        let figures = ticket.run(replaying).await?;
        drop(canceller);
        let nodes = if self.limiter.store().is_shared() { self.live_nodes() } else { 1 };
        figures.map(|figures| PreviewFigures { nodes, ..figures })
    }
}

/// The problem that no requests are kept.
pub(super) fn no_traffic() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_recent_traffic",
        "recent requests are not kept on this server, so that there is nothing to try a change on; set recent_traffic \
         to a size like 64MiB",
    )
}
