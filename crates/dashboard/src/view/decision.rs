//! One decision of the past: why it was made, and what each rule saw.

use maud::{Markup, html};

use super::explanation::rules;
use crate::model::{Chrome, ExplainedDecision, Outcome, Tab};
use crate::part::{
    client, hidden, identifier_links, identifiers, outcome, post, rule, sentence, t, tenant_tag,
};
use crate::{format, path};

/// The line below the title.
pub(crate) fn about(chrome: &Chrome, model: &ExplainedDecision) -> String {
    let id = model.decision.decision_id.as_deref().unwrap_or("");
    format!("{} UTC · {id}", format::moment(model.decision.at, chrome.now))
}

/// Why the client is not known.
const fn not_recorded(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed => "not recorded: of allowed requests, a sample is",
        _ => "not recorded yet, or not any more",
    }
}

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &ExplainedDecision) -> Markup {
    let row = &model.decision;
    let has_clients = !chrome.hidden.contains(&Tab::Clients);
    html! {
        div.two.wide {
            section.card {
                h2 { "Decision " (outcome(row.outcome)) }
                p.because { (sentence(&model.because, chrome.now)) }
                dl.facts {
                    @if row.client.name.is_empty() {
                        dt { "Client" } dd.dim { (not_recorded(row.outcome)) }
                    } @else {
                        dt { "Client" }
                        dd {
                            @if has_clients { (client(&row.client)) } @else { b.id { (t(&row.client.name)) } }
                            (tenant_tag(row.tenant.as_deref()))
                        }
                    }
                    @if !model.identifiers.is_empty() {
                        dt { "Identifiers" }
                        dd { @if has_clients { (identifier_links(&model.identifiers)) } @else { (identifiers(&model.identifiers)) } }
                    }
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
                    @if !chrome.hidden.contains(&Tab::Try) {
                        a.button href=(path::try_request(&model.again)) { "Try it again now" }
                    }
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
                    @if chrome.viewer.tenant.is_some() {
                        p.dim { "None of your rules was counted. Rules of operators are not shown." }
                    } @else { p.dim { (t(&model.uncounted)) } }
                } @else {
                    div.tree { (rules(&model.rules, chrome.now)) }
                }
            }
        }
    }
}
