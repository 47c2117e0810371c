//! The first page: four figures, one large chart, and lists that lead somewhere.

use maud::{Markup, html};

use super::rules::{no_rules, rule_table};
use crate::model::{Chrome, Figure, FirstCheck, Outcome, Overview, RangeChoice, Section};
use crate::part::{
    course, course_legend, course_part, cut_off, empty, failed, fleet, latency, latency_legend,
    latency_part, of_nodes, range_words, spark, store_state, t, top_list,
};
use crate::{format, path};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Overview) -> Markup {
    html! {
        @if let Some(first) = &model.first_check { (first_check(first)) }
        (tiles(chrome, model))
        section.card {
            h2 { "Requests per second " (course_legend()) span.legend { "this node" } }
            (course("course", "Requests per second", &model.course, chrome))
        }
        div.two {
            (most_refused(model))
            (rules(chrome, model))
        }
        @if sees_machines(chrome) {
            div.two {
                section.card {
                    h2 { "Duration of checks " (latency_legend()) span.legend { "this node" } }
                    (latency("check-latency", "Duration of checks", &model.check_latency, chrome.now))
                }
                section.card {
                    h2 { "Duration in the store " (latency_legend()) span.legend { "this node" } a.more href=(path::HEALTH) { "Health" } }
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
    let range = range_words(chrome);
    let now = match chrome.range.choice {
        RangeChoice::Custom => "this node, at the end".to_owned(),
        _ => "this node, now".to_owned(),
    };
    let of_requests = match model.fleet_requests {
        Some((nodes, rate)) => format!("this node · {nodes} nodes {}/s", format::rate(rate)),
        None => now.clone(),
    };
    let refusals =
        path::with_query(path::AUDIT, &[("log", "decisions"), ("action", Outcome::REFUSALS)]);
    let no_checks = check_p99_ms.course.is_empty();
    html! {
        div #tiles .tiles {
            (Tile {
                label: "Requests",
                address: path::LIVE,
                value: &format::rate(requests.value),
                unit: "/s",
                of: &of_requests,
                ..Tile::of(requests)
            }.html())
            (Tile {
                label: "Refused",
                title: Some("Requests that did not pass: refused over a limit, denied (on the deny list or banned), or not checked, because they were invalid or a rule fails closed"),
                address: &refusals,
                value: &format::percentage(refused_share.value),
                unit: " %",
                of: &format!("with denied and not checked; this node, {range}"),
                class: if refused_share.value >= 0.01 { "bad" } else { "" },
                ..Tile::of(refused_share)
            }.html())
            @if sees_machines(chrome) {
                (Tile {
                    label: "Check p99",
                    address: "#check-latency",
                    value: &(if no_checks { "–".to_owned() } else { format::millis(check_p99_ms.value) }),
                    unit: if no_checks { "" } else { " ms" },
                    of: &now,
                    ..Tile::of(check_p99_ms)
                }.html())
                (Tile {
                    label: "Without store",
                    title: Some("Requests that were decided while the store could not be reached: each rule's on_store_failure says how"),
                    address: path::HEALTH,
                    value: &format::rate(without_store.value),
                    unit: "/s",
                    of: &now,
                    class: if without_store.value > 0.0 { "warn" } else { "" },
                    ..Tile::of(without_store)
                }.html())
            }
        }
    }
}

/// A figure that leads to what it is made of.
struct Tile<'a> {
    label: &'a str,
    /// What it means, if the label does not say it.
    title: Option<&'a str>,
    address: &'a str,
    value: &'a str,
    unit: &'a str,
    /// Of what and of which time it is.
    of: &'a str,
    class: &'a str,
    course: &'a [f64],
}

impl<'a> Tile<'a> {
    fn of(figure: &'a Figure) -> Self {
        let (label, address, value, unit, of, class) = ("", "", "", "", "", "");
        Self { label, title: None, address, value, unit, of, class, course: &figure.course }
    }

    fn html(&self) -> Markup {
        let course = format!("{}: the course over the range", self.label);
        html! {
            a.tile href=(self.address) title=[self.title] {
                span { (self.label) }
                b class=(self.class) { (self.value) small { (self.unit) } }
                small { (self.of) }
                (spark(&course, self.course, self.class))
            }
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
            h2 {
                "Most refused"
                @if model.top_seconds > 0 {
                    span.legend { span { (of_nodes(&model.most_refused_of)) ", in the last " (window) } }
                }
                a.more href=(path::LIVE) { "Live" }
            }
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
            h2 {
                "Rules by refusals"
                span.legend { "this node, " (range_words(chrome)) }
                a.more href=(path::RULES) { "All rules" }
            }
            @if model.rules.is_empty() {
                (no_rules(chrome))
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
                Section::Ready(nodes) => {
                    (cut_off(model.cut_off_since, chrome.now))
                    (fleet(nodes, chrome.revision, chrome.now))
                }
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
                            td { (store_state(store, chrome.now)) }
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
