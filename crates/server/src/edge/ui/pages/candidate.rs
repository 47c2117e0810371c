//! What the candidates of rules would have done, as pages show it.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate::rules::candidate_id;
use tollgate::rules::document::RuleDocument;
use tollgate_dashboard::model::CandidateFigures;

use super::overview::top_client;
use crate::edge::ui::convert::quota_of;
use crate::edge::ui::visit::Visit;
use crate::observe::fleet_figures::{FigureScope, Merged};
use crate::observe::history::{RuleFigures, RuleHistory};
use crate::observe::recent_traffic::top::{RankedBy, RankedEntry, TopAsk, TopFigures};

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

    /// Rankings as the visitor may see them.
    pub(super) async fn top(&self, scope: FigureScope, ask: &TopAsk) -> Merged<TopFigures> {
        self.ui.app.top(scope, ask, self.principal.tenant()).await
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
    let refused = sum(|it| it.would_refuse);
    // The ranking goes on with the clients of an earlier try; counts begin anew with each.
    let is_own = |it: &&RankedEntry| refused > 0 && it.rule_id.as_deref() == Some(id.as_str());
    let own = || would_refuse.iter().filter(is_own);
    Some(CandidateFigures {
        quota: quota_of(&promoted),
        requests: sum(|it| it.allowed + it.would_refuse),
        would_refuse: refused,
        clients_refused: own().count() as u64,
        clients: own().take(MAX_LISTED).cloned().map(top_client).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::rules::{Format, Source};
    use tollgate::{Micros, Timestamp};

    /// The card used to list clients of an earlier try beside "0 requests".
    #[test]
    fn a_candidate_that_has_refused_nothing_yet_has_no_clients() {
        let text = "rules: [{rule_id: api, limit: 9, window: 1m, identifier_type: ip, candidate: {limit: 2}}]";
        let source = Source::parse_as(text, Format::Yaml);
        let rule = source.document.rules.first().expect("a rule");
        let entry = |rule_id: &str| RankedEntry {
            name: "bob".to_owned(),
            rule_id: Some(rule_id.to_owned()),
            ..RankedEntry::default()
        };
        let ranked = [entry("api~candidate"), entry("watch")];
        let check = |would_refuse: u64, clients: u64| {
            let point = RuleFigures { allowed: 7, would_refuse, ..RuleFigures::default() };
            let rule_id: Arc<str> = Arc::from("api~candidate");
            let (step, from) = (Micros::from_secs(10), Timestamp::from_secs(0));
            let history =
                RuleHistory { rule_id: Arc::clone(&rule_id), step, from, points: vec![point] };
            let figures = HashMap::from([(rule_id, history)]);
            let found = candidate_figures(rule, &figures, &ranked).expect("figures");
            assert_eq!((found.would_refuse, found.clients_refused), (would_refuse, clients));
            assert_eq!(found.clients.len() as u64, clients);
        };
        check(0, 0);
        check(3, 1);
    }
}
