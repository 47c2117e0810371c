//! One decision of the past: why it was made, and what each rule saw.

use maud::{Markup, html};

use super::explanation::rules;
use crate::model::{Chrome, ExplainedDecision};
use crate::part::{client, hidden, outcome, post, rule, t, tenant_tag};
use crate::{format, path};

/// The line below the title.
pub(crate) fn about(chrome: &Chrome, model: &ExplainedDecision) -> String {
    let id = model.decision.decision_id.as_deref().unwrap_or("");
    format!("{} UTC · {id}", format::moment(model.decision.at, chrome.now))
}

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &ExplainedDecision) -> Markup {
    let row = &model.decision;
    html! {
        div.two.wide {
            section.card {
                h2 { "Decision " (outcome(row.outcome)) }
                p.because { (t(&model.because)) }
                dl.facts {
                    dt { "Client" } dd { (client(&row.client)) (tenant_tag(row.tenant.as_deref())) }
                    dt { "Request" } dd { (t(row.method.as_deref().unwrap_or(""))) " " (t(row.endpoint.as_deref().unwrap_or("–"))) }
                    dt { "Time" } dd { (format::rfc_3339(row.at)) }
                    @if let Some(rule_id) = &row.rule_id { dt { "Rule" } dd { (rule(rule_id)) } }
                    @if let (Some(remaining), Some(limit)) = (row.remaining, row.limit) {
                        dt { "Left" } dd { (format::count(remaining)) " of " (format::count(limit)) }
                    }
                    @if let Some(seconds) = row.retry_after {
                        dt { "Try again" } dd { "after " (format::duration(seconds.saturating_mul(1_000))) }
                    }
                    @if let Some(tier) = &model.tier { dt { "Tier" } dd { (t(tier)) } }
                    @if let Some(revision) = model.revision { dt { "Policy" } dd { "revision " (revision) } }
                    @if let Some(degraded) = &row.degraded { dt { "Without store" } dd { (t(degraded)) } }
                    @if let Some(node) = &row.node { dt { "Node" } dd { (t(node)) } }
                }
                div.actions {
                    a.button href=(path::try_request(&model.again)) { "Try it again now" }
                    @if model.can_refund && chrome.viewer.rights.operates {
                        @let id = row.decision_id.as_deref().unwrap_or("");
                        @let fields = html! { (hidden("decision_id", id)) button type="submit" { "Refund its charge" } };
                        (post(chrome, path::REFUND, Some(&path::decision(id)), &fields))
                    }
                }
            }
            section.card {
                h2 { "Rules at that moment" }
                @if let Some(source) = &model.source { p.dim { "From " (t(source)) "." } }
                @if model.rules.is_empty() {
                    p.dim { "No rule was counted: a list or a ban decides before that, and some requests have no rule." }
                } @else {
                    div.tree { (rules(&model.rules, chrome.now)) }
                }
            }
        }
    }
}
