//! The top lists of all nodes, added up.

use std::mem;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use super::query::{FigureQuery, FigureResponse};
use super::{FigureScope, Merged, SENT_ENTRIES, merge_top};
use crate::app::state::Shared;
use crate::observe::recent_traffic::top::{TopAsk, TopFigures};

impl Shared {
    /// The top lists, at most a second old; for an administrator of a tenant without rules of others.
    pub(crate) async fn top(
        &self,
        scope: FigureScope,
        ask: &TopAsk,
        tenant: Option<&str>,
    ) -> Merged<TopFigures> {
        let sent = TopAsk { limit: SENT_ENTRIES.max(ask.limit), ..ask.clone() };
        let asking = self.others(scope, FigureQuery::Top(sent.clone()));
        let (own, mut others) = tokio::join!(self.own_top(sent), asking);
        let tops =
            mem::take(&mut others.responses).into_iter().filter_map(|response| match response {
                FigureResponse::Top(figures) => Some(figures),
                FigureResponse::Stats(_) | FigureResponse::Tail(_) => None,
            });
        let tops: Vec<TopFigures> = tops.collect();
        let nodes = 1 + tops.len();
        let merge = |limit| merge_top(&own, &tops, limit);
        let figures = match tenant {
            None => merge(ask.limit),
            Some(tenant) => self.top_without_foreign_rules(merge(SENT_ENTRIES), ask, tenant),
        };
        others.merged(figures, nodes)
    }

    pub(super) async fn own_top(&self, ask: TopAsk) -> TopFigures {
        let (traffic, now) = (Arc::clone(&self.recent_traffic), self.now());
        // On another thread than those of checks. It fails only if the runtime ends.
        spawn_blocking(move || traffic.top(&ask, now)).await.unwrap_or_default()
    }
}
