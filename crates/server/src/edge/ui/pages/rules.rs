//! The list of rules.

use std::cmp::Reverse;

use tollgate::rules::document::RuleDocument;
use tollgate_dashboard::model::{CandidateFigures, Paging, RuleOrder, RuleRow, RuleState, Rules};
use tollgate_dashboard::path;

use super::candidate::candidate_figures;
use crate::admin::auth::Right;
use crate::edge::ui::convert::{applies_to, quota_of, state_of};
use crate::edge::ui::figures::rule_row_figures;
use crate::edge::ui::page_problem::PageProblem;
use crate::edge::ui::visit::Visit;
use crate::policy::source::PolicySource;

/// How many rules a page has.
const PAGE: usize = 100;

/// What the page shows.
pub(super) fn gather(visit: &Visit) -> Result<Rules, PageProblem> {
    visit.require(Right::RuleViewer)?;
    let query = visit.parameter("q").unwrap_or_default().to_owned();
    let state = visit.parameter("state").and_then(|word| {
        RuleState::ALL.into_iter().find(|(_, known)| *known == word).map(|(state, _)| state)
    });
    let order = visit.parameter("order").and_then(|word| {
        RuleOrder::ALL.into_iter().find(|(_, known)| *known == word).map(|(order, _)| order)
    });
    let order = order.unwrap_or_default();
    let rules = visit.visible_rules();
    let rules_in_all = rules.len() as u64;
    let mut rows = rows_of(visit, &rules);
    rows.retain(|row| is_found(row, &query) && state.is_none_or(|state| row.state == state));
    sort(&mut rows, order);
    let total = rows.len();
    let start = visit.parameter("after").and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    let end = start.saturating_add(PAGE).min(total);
    let rows = rows.drain(start.min(total)..end).collect();
    let link = |after: Option<usize>| {
        let order = RuleOrder::ALL.iter().find(|(known, _)| *known == order).map_or("", |it| it.1);
        let after = after.map(|after| after.to_string()).unwrap_or_default();
        let parameters = [
            ("q", query.as_str()),
            ("state", state.map_or("", RuleState::word)),
            ("order", order),
            ("after", &after),
        ];
        path::with_query("", &parameters).trim_start_matches('?').to_owned()
    };
    let paging = Paging {
        next: (end < total).then(|| link(Some(end))),
        first: (start > 0).then(|| link(None)),
        total: Some(total as u64),
    };
    Ok(Rules { query, state, order, rows, rules_in_all, paging })
}

impl Visit {
    /// The rules that the visitor may see, as they are in force on this node.
    pub(in crate::edge::ui) fn visible_rules(&self) -> Vec<RuleDocument> {
        let own = self.principal.tenant();
        let is_visible = |rule: &&RuleDocument| own.is_none() || rule.tenant.as_deref() == own;
        match &self.ui.app.policy_source {
            PolicySource::Catalog(catalog_sync) => {
                let view = catalog_sync.view();
                view.rules().values().filter(is_visible).cloned().collect()
            }
            PolicySource::File(source) => {
                let loaded = source.loaded.load();
                loaded.document.rules.iter().filter(is_visible).cloned().collect()
            }
        }
    }
}

/// The rows of some rules, with their figures over the range of the page.
pub(super) fn rows_of(visit: &Visit, rules: &[RuleDocument]) -> Vec<RuleRow> {
    let figures = visit.rule_figures(|_| true);
    let app = &visit.ui.app;
    let has_candidates = rules.iter().any(|rule| rule.candidate.is_some());
    let top = has_candidates.then(|| app.recent_traffic.top(&visit.candidate_clients(), app.now()));
    let would_refuse = top.map(|top| top.would_refuse.entries).unwrap_or_default();
    let row = |rule: &RuleDocument| {
        let (requests, refused_share, refused) =
            rule_row_figures(figures.get(rule.rule_id.as_str()));
        RuleRow {
            rule_id: rule.rule_id.clone(),
            name: rule.name.clone(),
            state: state_of(rule),
            quota: quota_of(rule),
            applies_to: applies_to(&rule.applies_to),
            tenant: rule.tenant.clone(),
            requests,
            refused_share,
            refused,
            candidate: candidate_figures(rule, &figures, &would_refuse)
                .map(|figures| CandidateFigures { clients: Vec::new(), ..figures }),
        }
    };
    rules.iter().map(row).collect()
}

/// Puts rules into an order; those that are equal in it, by their ids.
pub(super) fn sort(rows: &mut [RuleRow], order: RuleOrder) {
    rows.sort_by(|one, other| one.rule_id.cmp(&other.rule_id));
    match order {
        RuleOrder::Refused => rows.sort_by_key(|row| Reverse(row.refused)),
        RuleOrder::Requests => {
            rows.sort_by(|one, other| other.requests.value.total_cmp(&one.requests.value));
        }
        RuleOrder::Name => {}
    }
}

fn is_found(row: &RuleRow, query: &str) -> bool {
    let query = query.to_lowercase();
    let texts = [Some(&row.rule_id), row.name.as_ref(), row.tenant.as_ref(), Some(&row.applies_to)];
    query.is_empty() || texts.into_iter().flatten().any(|text| text.to_lowercase().contains(&query))
}
