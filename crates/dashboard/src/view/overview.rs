//! The first page: four figures, one large chart, and lists that lead somewhere.

use maud::{Markup, html};

use super::rules::rule_table;
use crate::model::{Chrome, Figure, FirstCheck, Overview, Section};
use crate::part::{
    breaker, course, course_legend, course_part, empty, failed, fleet, latency, latency_legend,
    latency_part, spark, t, top_list,
};
use crate::{format, path};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Overview) -> Markup {
    html! {
        @if let Some(first) = &model.first_check { (first_check(first)) }
        (tiles(chrome, model))
        section.card {
            h2 { "Requests per second " (course_legend()) }
            (course("course", "Requests per second", &model.course, chrome))
        }
        div.two {
            (most_refused(model))
            (rules(chrome, model))
        }
        @if sees_machines(chrome) {
            div.two {
                section.card {
                    h2 { "Duration of checks " (latency_legend()) }
                    (latency("check-latency", "Duration of checks", &model.check_latency, chrome.now))
                }
                section.card {
                    h2 { "Duration in the store " (latency_legend()) a.more href=(path::HEALTH) { "Health" } }
                    (latency("store-latency", "Duration in the store", &model.store_latency, chrome.now))
                }
            }
            div.two {
                (nodes(chrome, model))
                (storage(chrome, model))
            }
        }
    }
}

/// The parts that move.
pub(crate) fn parts(chrome: &Chrome, model: &Overview) -> Vec<(&'static str, Markup)> {
    let mut parts = vec![
        ("tiles", tiles(chrome, model)),
        ("course", course_part("course", "Requests per second", &model.course, chrome)),
        ("most-refused", most_refused(model)),
        ("top-rules", rules(chrome, model)),
    ];
    if sees_machines(chrome) {
        let check = &model.check_latency;
        let check = latency_part("check-latency", "Duration of checks", check, chrome.now);
        let store = &model.store_latency;
        let store = latency_part("store-latency", "Duration in the store", store, chrome.now);
        parts.extend([
            ("check-latency", check),
            ("store-latency", store),
            ("nodes", nodes(chrome, model)),
            ("storage", storage(chrome, model)),
        ]);
    }
    parts
}

/// Whether the viewer sees the machines, and not only the data of a tenant.
fn sees_machines(chrome: &Chrome) -> bool {
    chrome.viewer.tenant.is_none()
}

fn tiles(chrome: &Chrome, model: &Overview) -> Markup {
    let Overview { requests, refused_share, check_p99_ms, without_store, .. } = model;
    let refused = if refused_share.value >= 0.01 { "bad" } else { "" };
    let degraded = if without_store.value > 0.0 { "warn" } else { "" };
    let refusals = path::with_query(path::AUDIT, &[("log", "decisions"), ("action", "refused")]);
    html! {
        div #tiles .tiles {
            (tile("Requests", path::LIVE, &format::rate(requests.value), "/s", requests, ""))
            (tile("Refused", &refusals, &format::percentage(refused_share.value), " %", refused_share, refused))
            @if sees_machines(chrome) {
                (tile("Check p99", "#check-latency", &format::millis(check_p99_ms.value), " ms", check_p99_ms, ""))
                (tile("Without store", path::HEALTH, &format::rate(without_store.value), "/s", without_store, degraded))
            }
        }
    }
}

fn tile(
    label: &str,
    address: &str,
    value: &str,
    unit: &str,
    figure: &Figure,
    class: &str,
) -> Markup {
    html! {
        a.tile href=(address) {
            span { (label) }
            b class=(class) { (value) small { (unit) } }
            (spark(&format!("{label}: the course over the range"), &figure.course, class))
        }
    }
}

fn first_check(first: &FirstCheck) -> Markup {
    let token = if first.needs_token { " \\\n  -H \"Authorization: Bearer $TOKEN\"" } else { "" };
    let line = format!(
        "curl {}/api/v1/rate-limit/check{token} \\\n  -H 'Content-Type: application/json' \\\n  -d '{{\"identifiers\": {{\"ip\": \"203.0.113.7\"}}, \"endpoint\": \"/orders\", \"method\": \"GET\"}}'",
        first.base_url
    );
    html! {
        section.card.first {
            h2 { "No requests yet. Try this:" }
            div.copyable {
                pre.code #first-check tabindex="0" aria-label="A first check, as a command line" {
                    @for part in line.split('\n') { (t(part)) "\n" }
                }
                button.copy type="button" data-copy="first-check" hidden { "Copy" }
            }
            p.dim {
                "Then see it " a href=(path::LIVE) { "live" } ", or " a href=(path::TRY) { "try a request" }
                " without charging it. " a href=(path::RULES) { "Rules" } " say what is limited."
            }
        }
    }
}

fn most_refused(model: &Overview) -> Markup {
    let window = format::duration(model.top_seconds.saturating_mul(1_000));
    html! {
        section.card #most-refused {
            h2 { "Most refused" @if model.top_seconds > 0 { span.legend { "last " (window) } } a.more href=(path::LIVE) { "Live" } }
            @if model.most_refused.is_empty() {
                (empty("No client was refused.", &html! {
                    "Clients that come close to a limit are on the page " a href=(path::LIVE) { "Live" } "."
                }))
            } @else {
                (top_list(&model.most_refused, "k-ref"))
            }
        }
    }
}

fn rules(chrome: &Chrome, model: &Overview) -> Markup {
    html! {
        section.card #top-rules {
            h2 { "Rules by refusals" a.more href=(path::RULES) { "All rules" } }
            @if model.rules.is_empty() {
                (empty("No rules.", &html! {
                    "Every request passes. " a href=(path::NEW_RULE) { "Write the first rule" } "."
                }))
            } @else {
                (rule_table(&model.rules, chrome, true))
            }
        }
    }
}

fn nodes(chrome: &Chrome, model: &Overview) -> Markup {
    html! {
        section.card #nodes {
            h2 { "Fleet" a.more href=(path::HEALTH) { "Health" } }
            @match &model.nodes {
                Section::Ready(nodes) => (fleet(nodes, chrome.revision, chrome.now)),
                Section::Failed(failure) => (failed(failure, chrome.now)),
            }
        }
    }
}

fn storage(chrome: &Chrome, model: &Overview) -> Markup {
    let memory = &model.memory;
    let used = format!("{} of {}", format::bytes(memory.bytes), format::bytes(memory.max_bytes));
    html! {
        section.card #storage {
            h2 { "Counters" a.more href=(path::HEALTH) { "Health" } }
            table {
                thead {
                    tr {
                        th scope="col" { "Where" }
                        th scope="col" { "State" }
                        th scope="col" .num { "p99" }
                    }
                }
                tbody {
                    @for store in &model.stores {
                        tr {
                            td.cut { a.id href=(path::HEALTH) { (t(&store.server)) } }
                            td { (breaker(store.breaker, store.since, chrome.now)) }
                            td.num {
                                @match store.p99_ms {
                                    Some(p99) => { (format::millis(p99)) " ms" }
                                    None => span.dim { "–" },
                                }
                            }
                        }
                    }
                    @if memory.max_bytes > 0 {
                        tr {
                            td { "memory of " (t(&chrome.node)) }
                            td colspan="2" {
                                (format::counted(memory.counters, "counter")) span.dim { " · " (used) }
                            }
                        }
                    }
                }
            }
        }
    }
}
