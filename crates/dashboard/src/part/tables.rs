//! Cards, tabs, top lists, nodes, and the way to more.

use maud::{Markup, html};

use super::charts::bar;
use super::texts::{ago, by, client, rule, t};
use crate::model::{Breaker, NodeRow, Paging, Time, TopClient};
use crate::{format, path};

/// A node that has not reported for so many milliseconds is silent.
const MAX_SILENCE: u64 = 10_000;

/// A card with a title, and a link to more.
pub(crate) fn card(title: &Markup, more: Option<(&str, &str)>, body: &Markup) -> Markup {
    html! {
        section.card {
            h2 {
                (title)
                @if let Some((text, address)) = more { a.more href=(address) { (text) } }
            }
            (body)
        }
    }
}

/// Tabs: each with its address, its text, a count, and whether it is the current one.
pub(crate) fn tabs(label: &str, tabs: &[(String, &str, Option<u64>, bool)]) -> Markup {
    html! {
        nav.tabs aria-label=(label) {
            @for (address, text, count, is_current) in tabs {
                a href=(address) aria-current=[is_current.then_some("page")] {
                    (text) @if let Some(count) = count { " " span.dim { (format::count(*count)) } }
                }
            }
        }
    }
}

/// A ranking of clients with bars.
pub(crate) fn top_list(rows: &[TopClient], class: &str) -> Markup {
    let most = rows.iter().map(|row| row.count).max().unwrap_or(0);
    html! {
        ol.top {
            @for row in rows {
                li {
                    span.cut { (client(&row.client)) }
                    span.dim.cut.about {
                        (by(&row.client.identifiers))
                        @if let Some(rule_id) = &row.rule_id {
                            @if !row.client.identifiers.is_empty() { " · " }
                            (rule(rule_id))
                        } @else if class == "k-ref" {
                            // A list refuses without a rule.
                            "denied"
                        }
                    }
                    @match row.used {
                        Some(used) => {
                            span.bar { (bar(&format!("{} % of the limit used", format::percentage(used)), used, 1.0, class)) }
                            b.num { (format::percentage(used)) " %" }
                        }
                        None => {
                            span.bar { (bar(&format::count(row.count), row.count as f64, most as f64, class)) }
                            b.num { (format::count(row.count)) }
                        }
                    }
                }
            }
        }
    }
}

/// The nodes of the fleet.
pub(crate) fn fleet(nodes: &[NodeRow], revision: u64, now: Time) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th scope="col" { "Node" }
                    th scope="col" { "Policy" }
                    th scope="col" .num { "Requests/s" }
                    th scope="col" .num .m-hide { "Refused" }
                    th scope="col" { "Store" }
                }
            }
            tbody {
                @for node in nodes {
                    tr {
                        td.word {
                            b.id { (t(&node.name)) } " " span.dim.id { (t(&node.version)) }
                            @if node.is_this { div.dim.small { "this node" } }
                            @if !node.is_ready { div { span.tag.bad { "not ready" } } }
                            @if now.since(node.seen_at) > MAX_SILENCE {
                                div.bad.small { "silent for " (format::rough(now.since(node.seen_at))) }
                            }
                        }
                        td {
                            span.nowrap.warn[node.revision != revision] {
                                "rev " (node.revision) @if node.revision < revision { ", behind" }
                            }
                            @if let Some(at) = node.revision_at { div.dim.small.nowrap { (ago(at, now)) } }
                        }
                        td.num { (format::rate(node.requests_per_second)) }
                        td.num.m-hide { (format::percentage(node.refused_share)) " %" }
                        td { (breaker(node.breaker, node.breaker_since, now)) }
                    }
                }
            }
        }
    }
}

/// The state of a circuit breaker in words.
pub(crate) fn breaker(state: Breaker, since: Option<Time>, now: Time) -> Markup {
    let age = since.map(|since| format::duration(now.since(since)));
    html! {
        @match state {
            Breaker::Closed => span.ok { "closed" },
            Breaker::HalfOpen => span.tag.warn { "half-open" },
            Breaker::Open => {
                span.tag.bad { "open" }
                @if let Some(age) = age { span.bad.small.nowrap { " " (age) } }
            }
        }
    }
}

/// The way to the other pages of a list. `kept` are the parameters that stay.
pub(crate) fn paging(address: &str, kept: &[(&str, &str)], paging: &Paging) -> Markup {
    if paging.next.is_none() && paging.first.is_none() {
        return html! {};
    }
    let page = path::with_query(address, kept);
    let with = |query: &str| {
        let joint = if page.contains('?') { '&' } else { '?' };
        if query.is_empty() { page.clone() } else { format!("{page}{joint}{query}") }
    };
    html! {
        nav.paging aria-label="Pages of this list" {
            @if let Some(first) = &paging.first { a.button href=(with(first)) { "First page" } }
            @if let Some(next) = &paging.next { a.button href=(with(next)) rel="next" { "Next page" } }
            @if let Some(total) = paging.total { span.dim { (format::count(total)) " in all" } }
        }
    }
}
