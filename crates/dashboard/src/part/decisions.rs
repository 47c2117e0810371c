//! Lists of decisions. Every refusal leads to its explanation.

use maud::{Markup, html};

use super::texts::{client, rule, t};
use crate::model::{DecisionRow, Outcome, Time};
use crate::{format, path};

/// Which columns a list of decisions has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecisionColumns {
    /// All of them.
    All,
    /// Those of one client, which is not named again.
    OneClient,
    /// All of them, for a viewer who sees no pages of clients: their names are no links.
    PlainClients,
}

/// An outcome in words, with a colour that agrees.
pub(crate) fn outcome(outcome: Outcome) -> Markup {
    let (class, text) = match outcome {
        Outcome::Allowed => ("tag good", "allowed"),
        Outcome::Throttled => ("tag warn", "throttled"),
        Outcome::Refused => ("tag bad", "refused"),
        Outcome::Denied => ("tag bad", "denied"),
        Outcome::WouldRefuse => ("tag warn", "would refuse"),
        Outcome::Unlimited => ("tag", "unlimited"),
        Outcome::Error => ("tag bad", "error"),
    };
    html! { span class=(class) { (text) } }
}

/// A table of decisions, the newest first.
pub(crate) fn decisions(rows: &[DecisionRow], columns: DecisionColumns, now: Time) -> Markup {
    let has_client = columns != DecisionColumns::OneClient;
    let has_node = rows.iter().any(|row| row.node.is_some());
    html! {
        table.decisions {
            thead {
                tr {
                    th scope="col" { "Time" span.m-hide { ", UTC" } }
                    @if has_client { th scope="col" { "Client" } }
                    th scope="col" { "Request" }
                    th scope="col" { "Outcome" }
                    th scope="col" .m-hide { "Rule" }
                    th scope="col" .num .m-hide { "Left" }
                    @if has_node { th scope="col" .m-hide { "Node" } }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        td.dim.nowrap { (time_of(row, now)) }
                        @match columns {
                            DecisionColumns::All => td.cut { (client(&row.client)) },
                            DecisionColumns::PlainClients => td.cut { span.id { (t(&row.client.name)) } },
                            DecisionColumns::OneClient => {}
                        }
                        td.cut {
                            @if let Some(method) = &row.method { span.dim { (t(method)) " " } }
                            (t(row.endpoint.as_deref().unwrap_or("")))
                            @if row.cost > 1 { span.dim { " · cost " (format::count(row.cost)) } }
                        }
                        td { (outcome_link(row)) }
                        td.m-hide.cut { (rules(row)) }
                        td.num.m-hide { (left(row, has_client)) }
                        @if has_node { td.m-hide.dim { (t(row.node.as_deref().unwrap_or(""))) } }
                    }
                }
            }
        }
    }
}

/// The rule that decided, and those that would have refused the request as well.
fn rules(row: &DecisionRow) -> Markup {
    html! {
        @for (at, rule_id) in row.rule_id.iter().chain(&row.also_would_refuse).enumerate() {
            @if at > 0 { ", " }
            (rule(rule_id))
        }
    }
}

fn time_of(row: &DecisionRow, now: Time) -> Markup {
    let whole = format::rfc_3339(row.at);
    let is_today = now.as_secs() / 86_400 == row.at.as_secs() / 86_400;
    html! {
        time datetime=(whole) title=(whole) {
            @if is_today {
                (format::clock(row.at)) span.m-hide { (format::fraction(row.at)) }
            } @else {
                (format::moment(row.at, now))
            }
        }
    }
}

/// The outcome, as a link to its explanation if it was kept.
fn outcome_link(row: &DecisionRow) -> Markup {
    let is_news = |reason: &&str| *reason != row.outcome.word();
    let why = row.reason.as_deref().filter(is_news).map(|reason| reason.replace('_', " "));
    html! {
        @match &row.decision_id {
            Some(id) => a.explain href=(path::decision(id)) title="Explain this decision" { (outcome(row.outcome)) },
            None => (outcome(row.outcome)),
        }
        @if let Some(why) = &why { " " span.dim.small { (t(why)) } }
        @if let Some(degraded) = &row.degraded {
            " " span.warn.small title=(tollgate_chart::shown(degraded)) { "without store" }
        }
    }
}

fn left(row: &DecisionRow, has_limit: bool) -> Markup {
    html! {
        @match (row.remaining, row.limit) {
            (Some(remaining), Some(limit)) if has_limit => {
                (format::count(remaining)) span.dim { " of " (format::count(limit)) }
            }
            (Some(remaining), _) => (format::count(remaining)),
            _ => span.dim { "–" },
        }
    }
}
