//! What the candidates of rules would have done, as pages show it.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::rules::candidate_id;
use tollgate::rules::document::RuleDocument;
use tollgate_dashboard::model::CandidateFigures;

use super::overview::top_client;
use crate::edge::ui::convert::quota_of;
use crate::edge::ui::visit::Visit;
use crate::observe::history::{RuleFigures, RuleHistory};
use crate::observe::recent_traffic::top::{RankedBy, RankedEntry, TopAsk};

/// How many clients are looked at.
const MAX_RANKED: usize = 200;
/// How many clients are listed.
const MAX_LISTED: usize = 8;

impl Visit {
    /// Which clients of the last minutes are asked for.
    pub(super) fn candidate_clients(&self) -> TopAsk {
        let tenant = self.principal.tenant().map(str::to_owned);
        TopAsk { by: RankedBy::Client, window_seconds: 300, limit: MAX_RANKED, tenant }
    }
}

/// The candidate of a rule, with the decisions of rules over the range of the page, and the clients that shadow rules
/// and candidates would have refused.
pub(super) fn candidate_figures(
    rule: &RuleDocument,
    figures: &HashMap<Arc<str>, RuleHistory>,
    would_refuse: &[RankedEntry],
) -> Option<CandidateFigures> {
    let promoted = rule.promoted()?;
    let id = candidate_id(&rule.rule_id);
    let sum = |count: fn(&RuleFigures) -> u64| {
        figures.get(id.as_str()).map_or(0, |history| history.points.iter().map(count).sum())
    };
    let own = || would_refuse.iter().filter(|it| it.rule_id.as_deref() == Some(id.as_str()));
    Some(CandidateFigures {
        quota: quota_of(&promoted),
        requests: sum(|it| it.allowed + it.would_refuse),
        would_refuse: sum(|it| it.would_refuse),
        clients_refused: own().count() as u64,
        clients: own().take(MAX_LISTED).cloned().map(top_client).collect(),
    })
}
