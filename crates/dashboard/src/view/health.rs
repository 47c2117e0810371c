//! What works and what does not, and what happens without the store.

use maud::{Markup, html};

use crate::model::{
    Breaker, CatalogHealth, Chrome, FallbackGroup, FallbackMode, FileHealth, Health, Section,
    StoreServer,
};
use crate::part::{
    ago, bar, client_by, cut_off, empty, failed, fleet, latency, latency_legend, latency_part,
    moment, rule, store_state, t,
};
use crate::{format, path};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Health) -> Markup {
    html! {
        (stores(chrome, model))
        div.two {
            (fallbacks(model))
            section.card {
                h2 { "Duration in the store " (latency_legend()) span.legend { "this node" } }
                (latency("store-latency", "Duration in the store", &model.store_latency, chrome.now))
            }
        }
        (nodes(chrome, model))
        div.two { (policy(chrome, model)) (memory(model)) }
        div.two { (hot_keys(model)) (facts(model)) }
    }
}

/// The parts that move.
pub(crate) fn parts(chrome: &Chrome, model: &Health) -> Vec<(&'static str, Markup)> {
    let latency =
        latency_part("store-latency", "Duration in the store", &model.store_latency, chrome.now);
    vec![
        ("stores", stores(chrome, model)),
        ("fallbacks", fallbacks(model)),
        ("store-latency", latency),
        ("nodes", nodes(chrome, model)),
        ("policy", policy(chrome, model)),
        ("memory", memory(model)),
        ("hot-keys", hot_keys(model)),
        ("facts", facts(model)),
    ]
}

fn stores(chrome: &Chrome, model: &Health) -> Markup {
    html! {
        section.card #stores {
            h2 { "Store" span.legend.cut { (t(&model.store)) } }
            @if model.stores.is_empty() {
                p.dim { "Counters are in the memory of this node only. Nodes of a fleet need a shared store, Redis or PostgreSQL." }
            } @else {
                table {
                    thead {
                        tr {
                            th scope="col" { "Server" }
                            th scope="col" { "State" }
                            th scope="col" .num .m-hide { "p50" }
                            th scope="col" .num .m-hide { "p95" }
                            th scope="col" .num { "p99" }
                            th scope="col" .num .m-hide { "Calls" }
                            th scope="col" .num { "Failures" }
                            th scope="col" .num .m-hide { "Clock" }
                        }
                    }
                    tbody { @for store in &model.stores { (server(chrome, store, model.drift_warning_seconds)) } }
                }
                @if model.stores.iter().any(|it| it.breaker != Breaker::Closed) { (meanwhile(&model.stores)) }
            }
        }
    }
}

/// What an unavailable store means for clients.
fn meanwhile(stores: &[StoreServer]) -> Markup {
    let is_away_for = |why: &str| stores.iter().any(|it| it.failure.as_deref() == Some(why));
    html! {
        @if is_away_for("other_fleet") {
            p { "The store has the mark of another fleet: give this node the secret of that fleet, or another store or prefix." }
        }
        @if is_away_for("refused") {
            p { "The store responds and refuses: it is out of memory, read only, or the user lacks permission." }
        }
        p {
            "Meanwhile, under a rule with " code { "local" } " each node lets pass up to " code { "fallback_factor" }
            " × the limit (2 × unless the rule says otherwise), a rule with " code { "open" } " limits nothing, and one with "
            code { "closed" } " refuses. " a href="#fallbacks" { "Which rule does what" }
        }
    }
}

fn server(chrome: &Chrome, store: &StoreServer, warning: f64) -> Markup {
    let time = |value: Option<f64>| {
        html! {
            @match value { Some(value) => { (format::millis(value)) " ms" } None => span.dim { "–" } }
        }
    };
    html! {
        tr {
            td.cut {
                b.id { (t(&store.server)) }
                @for error in &store.errors {
                    div.small { (t(&error.kind)) " " span.dim { (format::count(error.count)) } }
                }
            }
            td {
                (store_state(store, chrome.now))
                @if store.openings > 0 { div.dim.small { "opened " (format::counted(store.openings, "time")) } }
            }
            td.num.m-hide { (time(store.p50_ms)) }
            td.num.m-hide { (time(store.p95_ms)) }
            td.num { (time(store.p99_ms)) }
            td.num.m-hide { (format::count(store.calls)) }
            td.num.bad[store.failures > 0] { (format::count(store.failures)) }
            td.num.m-hide {
                @match store.drift_seconds {
                    Some(drift) => span.warn[drift.abs() > warning] {
                        (format::duration((drift.abs() * 1_000.0) as u64)) @if drift < 0.0 { " behind" } @else { " ahead" }
                    },
                    None => span.dim { "–" },
                }
            }
        }
    }
}

fn fallbacks(model: &Health) -> Markup {
    html! {
        section.card #fallbacks {
            h2 { "What happens without the store" }
            @if model.fallbacks.is_empty() { p.dim { "No rules are in force: every request passes." } }
            ul.fallbacks { @for group in &model.fallbacks { (fallback(group)) } }
        }
    }
}

fn fallback(group: &FallbackGroup) -> Markup {
    let (class, what) = match group.mode {
        FallbackMode::Local => ("tag warn", "local: each node counts for itself"),
        FallbackMode::Open => ("tag warn", "open: requests pass"),
        FallbackMode::Closed => ("tag bad", "closed: requests are refused"),
        FallbackMode::NotShared => ("tag", "not shared: nothing changes"),
    };
    let shown = group.rule_ids.len() as u64;
    html! {
        li {
            div {
                b { (format::counted(group.rules, "rule")) } " " span class=(class) { (what) }
                @if !group.allowance.is_empty() { " " span.dim { (t(&group.allowance)) } }
            }
            div.small {
                @for (at, rule_id) in group.rule_ids.iter().enumerate() { @if at > 0 { ", " } (rule(rule_id)) }
                @if group.rules > shown { span.dim { " and " (format::count(group.rules - shown)) " more" } }
            }
            @if group.per_second > 0.0 || group.requests > 0 {
                div.small.(if group.per_second > 0.0 { "warn" } else { "dim" }) {
                    @if group.per_second > 0.0 { "now " (format::rate(group.per_second)) "/s, " }
                    (format::counted(group.requests, "request")) " so far"
                }
            }
        }
    }
}

fn nodes(chrome: &Chrome, model: &Health) -> Markup {
    html! {
        section.card #nodes {
            h2 { "Nodes" }
            (cut_off(model.cut_off_since, chrome.now))
            @match &model.nodes {
                Section::Ready(nodes) => (fleet(nodes, chrome.revision, chrome.now)),
                Section::Failed(failure) => (failed(failure, chrome.now)),
            }
        }
    }
}

fn policy(chrome: &Chrome, model: &Health) -> Markup {
    html! {
        section.card #policy {
            h2 { "Policy" a.more href=(path::RULES) { "Rules" } }
            dl.facts {
                dt { "In force" } dd { "revision " (chrome.revision) }
                @if let Some(catalog) = &model.catalog { (catalog_facts(chrome, catalog)) }
                @for file in &model.files { (file_facts(chrome, file)) }
            }
        }
    }
}

fn catalog_facts(chrome: &Chrome, catalog: &CatalogHealth) -> Markup {
    html! {
        dt { "Catalog" } dd.cut { (t(&catalog.location)) }
        dt { "State" }
        dd {
            @if catalog.is_reachable { span.ok { "responds" } } @else { span.tag.bad { "does not respond" } }
            @if let Some(at) = catalog.synced_at { span.dim { " · read " (ago(at, chrome.now)) } }
            span.dim { " · revision " (catalog.revision) }
        }
        @if let Some(error) = &catalog.error { dt { "Error" } dd.bad { (t(error)) " " span.dim { "The last valid policy stays in force." } } }
        @if let Some(copy) = &catalog.copy { dt { "Copy" } dd.warn { "started from " (t(copy)) } }
    }
}

fn file_facts(chrome: &Chrome, file: &FileHealth) -> Markup {
    html! {
        dt { "File, " (t(&file.what)) } dd.cut { (t(&file.path)) }
        dt { "Loaded" }
        dd {
            @match file.loaded_at { Some(at) => (moment(at, chrome.now)), None => "never" }
            @if let Some(error) = &file.error { " " span.bad { (t(error)) } " " span.dim { "The one before stays in force." } }
        }
    }
}

fn memory(model: &Health) -> Markup {
    let memory = &model.memory;
    let used = memory.bytes as f64 / (memory.max_bytes.max(1) as f64);
    let class = if used > 0.9 {
        "k-ref"
    } else if used > 0.75 {
        "k-thr"
    } else {
        ""
    };
    let label =
        format!("{} of {} used", format::bytes(memory.bytes), format::bytes(memory.max_bytes));
    html! {
        section.card #memory {
            h2 { "Counters in memory" }
            @if memory.max_bytes == 0 {
                p.dim { "Counters are in the store. This node counts in memory only what it counts without the store." }
            } @else {
                p { b { (format::counted(memory.counters, "counter")) } " · " (label) }
                (bar(&label, memory.bytes as f64, memory.max_bytes as f64, class))
                p.(if memory.evictions > 0 { "warn" } else { "dim" }) {
                    (format::counted(memory.evictions, "counter")) " evicted before they expired"
                    @if memory.evictions > 0 { ": raise the setting " code { "memory" } "." }
                }
            }
        }
    }
}

fn hot_keys(model: &Health) -> Markup {
    html! {
        section.card #hot-keys {
            h2 { "Hot keys" span.legend { "this node, in the last 1 min" } }
            @if model.hot_keys.is_empty() {
                (empty("No counter is hot.", &html! { "A counter that at least 20 % of the requests charge is listed here: it is on one server of the store, and more servers do not help." }))
            } @else {
                table {
                    thead { tr { th scope="col" { "Counter" } th scope="col" { "Rule" } th scope="col" .num { "Requests/s" } th scope="col" .num { "Share" } } }
                    tbody {
                        @for key in &model.hot_keys {
                            tr {
                                td.cut {
                                    @if key.identifiers.is_empty() { span.id { (t(&key.name)) } }
                                    @else { (client_by(&key.identifiers)) }
                                }
                                td.cut { (rule(&key.rule_id)) }
                                td.num { (format::rate(key.per_second)) }
                                td.num { (format::percentage(key.share)) " %" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(model: &Health) -> Markup {
    html! {
        section.card #facts {
            h2 { "Other figures" a.more href="/metrics" { "All metrics" } }
            table {
                tbody {
                    @for fact in &model.facts {
                        tr {
                            th scope="row" { (t(&fact.name)) @if !fact.hint.is_empty() { div.dim.small { (t(&fact.hint)) } } }
                            td.num.text.(if fact.is_bad { "bad" } else { "" }) { (t(&fact.value)) }
                        }
                    }
                }
            }
        }
    }
}
