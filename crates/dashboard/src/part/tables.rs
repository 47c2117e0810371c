//! Cards, tabs, top lists, nodes, and the way to more.

use maud::{Markup, html};

use super::charts::bar;
use super::texts::{ago, by, client, moment, rule, t};
use crate::model::{Breaker, NodeRow, NodeState, NodeStore, Paging, StoreServer, Time, TopClient};
use crate::{format, path};

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
    let this = nodes.iter().find(|node| node.is_this);
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
                            @match &node.state {
                                Some(NodeState { unready: Some(why), .. }) => div { span.tag.bad { (why) } },
                                Some(_) => {}
                                None => div.bad.small { "silent for " (format::rough(now.since(node.seen_at))) },
                            }
                        }
                        td { (node_policy(node, this, revision, now)) }
                        @match &node.state {
                            Some(state) => {
                                td.num { (format::rate(state.requests_per_second)) }
                                td.num.m-hide { (format::percentage(state.refused_share)) " %" }
                                td { (node_store(state.store)) }
                            }
                            None => {
                                td.num { span.dim { "–" } }
                                td.num.m-hide { span.dim { "–" } }
                                td { span.dim.nowrap { "not known" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What is in force on a node, and whether that is what is in force on this one.
fn node_policy(node: &NodeRow, this: Option<&NodeRow>, revision: u64, now: Time) -> Markup {
    let files = [
        ("file", "rules", &node.rules_file, this.map(|it| &it.rules_file)),
        ("Envoy", "limits for Envoy", &node.envoy_files, this.map(|it| &it.envoy_files)),
    ];
    html! {
        @for (name, what, file, ours) in files {
            // Earlier versions do not announce all of them.
            @let is_announced = file.is_some() || this.is_some_and(|it| it.version == node.version);
            @let differs = is_announced && ours.is_some_and(|ours| ours != file);
            @if let Some(file) = file {
                div {
                    span.nowrap.warn[differs] title=(format!("SHA-256 of its {what}")) {
                        (name) " " span.id { (t(file)) }
                    }
                }
            }
            @if differs { div.warn.small { "other " (what) " than this node" } }
        }
        @if node.rules_file.is_none() {
            span.nowrap.warn[node.revision != revision] {
                "rev " (node.revision) @if node.revision < revision { ", behind" }
            }
        }
        @if let Some(at) = node.revision_at { div.dim.small.nowrap { (ago(at, now)) } }
    }
}

/// The store, as a node sees it.
fn node_store(store: NodeStore) -> Markup {
    html! {
        @match store {
            NodeStore::Memory => span.nowrap { "in memory" },
            NodeStore::Reachable => span.ok.nowrap { "reachable" },
            NodeStore::Partly { up, servers } => span.tag.warn.nowrap { (up) " of " (servers) " servers" },
            NodeStore::Unreachable => span.tag.bad.nowrap { "unreachable" },
        }
    }
}

/// That the figures of other nodes are missing, as a sentence above their list.
pub(crate) fn cut_off(since: Option<Time>, now: Time) -> Markup {
    html! {
        @if let Some(since) = since {
            p.warn {
                "Other nodes cannot be reached since " (moment(since, now)) ": what nodes talk through is away. "
                "Figures are of this node only."
            }
        }
    }
}

/// Whether a server of the store can be reached, with its circuit breaker as a detail.
pub(crate) fn store_state(store: &StoreServer, now: Time) -> Markup {
    let age = store.since.map(|since| format::duration(now.since(since)));
    let breaker = match store.breaker {
        Breaker::Closed => "closed",
        Breaker::HalfOpen => "half-open",
        Breaker::Open => "open",
    };
    html! {
        @match (store.breaker, store.failure.as_deref()) {
            (Breaker::Closed, None) => span.ok { "reachable" },
            (Breaker::Closed, Some(why)) => {
                span.tag.warn { "last call failed" } " " span.dim.small { (t(why)) }
            }
            (_, why) => {
                span.tag.bad {
                    @match why {
                        Some("refused") => "refuses calls",
                        Some("other_fleet") => "of another fleet",
                        _ => "unreachable",
                    }
                }
                @if let Some(age) = age { span.bad.small.nowrap { " " (age) } }
            }
        }
        div.dim.small.nowrap { "circuit breaker " (breaker) }
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
