//! The list of rules, and the table of rules that other pages show too.

use maud::{Markup, html};

use crate::model::{CandidateFigures, Chrome, Outcome, RuleOrder, RuleRow, RuleState, Rules};
use crate::part::{empty, hidden, paging, range_words, rule, spark, t, tenant_tag};
use crate::{format, path};

/// The line below the title.
pub(crate) fn about(chrome: &Chrome, model: &Rules) -> String {
    let rules = format::counted(model.rules_in_all, "rule");
    format!("{rules} · requests of this node, {}", crate::frame::span(chrome))
}

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Rules) -> Markup {
    let state = model.state.map_or("", RuleState::word);
    let order = order_word(model.order);
    let kept = [("q", model.query.as_str()), ("state", state), ("order", order)];
    let can_write = chrome.viewer.rights.edits_rules && chrome.read_only.is_none();
    html! {
        section.card {
            form.filters method="get" action=(path::RULES) {
                label.grow {
                    span { "Search" }
                    input type="search" name="q" value=(model.query) placeholder="id, name, endpoint or tenant"
                        autocomplete="off" data-filter="rules-table";
                }
                label {
                    span { "State" }
                    select name="state" {
                        option value="" { "all" }
                        @for (state, word) in RuleState::ALL {
                            option value=(word) selected[model.state == Some(state)] { (word) }
                        }
                    }
                }
                label {
                    span { "Order" }
                    select name="order" {
                        @for (order, word) in RuleOrder::ALL {
                            option value=(word) selected[model.order == order] { "by " (word) }
                        }
                    }
                }
                (hidden("range", chrome.range.choice.word()))
                button type="submit" { "Show" }
                @if can_write { a.button.primary href=(path::NEW_RULE) { "New rule" } }
            }
            (table(chrome, model))
            (paging(path::RULES, &kept, &model.paging))
        }
    }
}

/// The parts that move.
pub(crate) fn parts(chrome: &Chrome, model: &Rules) -> Vec<(&'static str, Markup)> {
    vec![("rules-table", table(chrome, model))]
}

fn table(chrome: &Chrome, model: &Rules) -> Markup {
    html! {
        div #rules-table {
            @if !model.rows.is_empty() {
                (rule_table(&model.rows, chrome, false))
            } @else if let (0, Some(tenant)) = (model.rules_in_all, &chrome.viewer.tenant) {
                (empty("No rules of this tenant.", &html! {
                    "Rules of operators apply to " (t(tenant)) " too, and are not shown here. "
                    a href=(path::NEW_RULE) { "Write the first rule" } " of the tenant."
                }))
            } @else if model.rules_in_all == 0 {
                (no_rules(chrome))
            } @else {
                (empty("No rule fits the search.", &html! { a href=(path::RULES) { "Show all rules" } }))
            }
        }
    }
}

/// What there is instead of rules.
pub(crate) fn no_rules(chrome: &Chrome) -> Markup {
    if chrome.envoy_limits > 0 {
        let limits = format::counted(chrome.envoy_limits, "limit");
        return empty(
            "No rules of Tollgate.",
            &html! {
                "Requests of Envoy are counted by " (limits) " of its files, which this command lists: "
                code { "tollgate rules list --envoy" }
            },
        );
    }
    empty(
        "No rules.",
        &html! {
            "Every request passes. " a href=(path::NEW_RULE) { "Write the first rule" }
            ", or apply a file: " code { "tollgate rules apply --file rules.yaml" }
        },
    )
}

/// A table of rules; a short one has no column for requests.
pub(crate) fn rule_table(rows: &[RuleRow], chrome: &Chrome, is_short: bool) -> Markup {
    let range = chrome.range;
    let span = format::duration(range.until.since(range.from));
    html! {
        table.rules {
            thead {
                tr {
                    th scope="col" { "Rule" }
                    th scope="col" .m-hide { "Limit" }
                    @if !is_short { th scope="col" .m-hide { "Applies to" } th scope="col" .num { "Requests/s" } }
                    th scope="col" .num { "Refused" }
                    th scope="col" .num .m-hide[is_short] { (span) }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        td {
                            (rule(&row.rule_id))
                            (state_tag(row.state))
                            @if let Some(candidate) = &row.candidate {
                                " " span.tag { "candidate " (format::count(candidate.quota.limit)) }
                            }
                            (tenant_tag(row.tenant.as_deref()))
                            @if let (Some(name), false) = (&row.name, is_short) { div.dim.small { (t(name)) } }
                            @if let (Some(candidate), false) = (&row.candidate, is_short) {
                                div.small { a href=(path::rule_candidate(&row.rule_id)) { (tried(candidate, chrome)) } }
                            }
                        }
                        td.dim.m-hide { (t(&format::quota(&row.quota))) }
                        @if !is_short {
                            td.dim.m-hide.cut { (t(if row.applies_to.is_empty() { "all requests" } else { &row.applies_to })) }
                            td.num { (format::rate(row.requests.value)) }
                        }
                        td.num { (refused(row)) }
                        td.num.m-hide[is_short] { (course_of(row)) }
                    }
                }
            }
        }
    }
}

/// What a candidate would have done, in a sentence. All of it is of this node.
pub(crate) fn tried(figures: &CandidateFigures, chrome: &Chrome) -> Markup {
    html! {
        "Candidate " (t(&format::quota(&figures.quota))) ": would have refused "
        b { (format::count(figures.would_refuse)) } " of " (format::counted(figures.requests, "request")) " of this node "
        (range_words(chrome))
        @if figures.clients_refused > 0 { ", and " (format::counted(figures.clients_refused, "client")) " in the last 5 min" }
    }
}

/// The share that a rule refused, as a link to those refusals.
fn refused(row: &RuleRow) -> Markup {
    let share = format::percentage(row.refused_share.value);
    let action = if row.state == RuleState::Shadow { "would_refuse" } else { Outcome::REFUSALS };
    let fields = [("log", "decisions"), ("action", action), ("rule_id", &row.rule_id)];
    let title = format!("{} in this range", format::count(row.refused));
    html! { a href=(path::with_query(path::AUDIT, &fields)) title=(title) { (share) " %" } }
}

fn course_of(row: &RuleRow) -> Markup {
    let is_bad = row.state == RuleState::Enforced && row.refused_share.value >= 0.01;
    let class = if is_bad { "bad" } else { "" };
    spark(
        &format!("Share refused by {} over the range", row.rule_id),
        &row.refused_share.course,
        class,
    )
}

/// A tag for rules that are not enforced.
pub(crate) fn state_tag(state: RuleState) -> Markup {
    html! {
        @match state {
            RuleState::Enforced => {}
            RuleState::Shadow => { " " span.tag { "shadow" } }
            RuleState::Disabled => { " " span.tag { "disabled" } }
        }
    }
}

fn order_word(order: RuleOrder) -> &'static str {
    RuleOrder::ALL.into_iter().find(|(it, _)| *it == order).map_or("", |(_, word)| word)
}
