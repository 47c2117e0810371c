//! An access log against rules: the upload, and what would have happened.

use maud::{Markup, html};

use crate::model::{AlgorithmRow, Chrome, Simulation, SimulationReport};
use crate::part::{
    card, caveat, course_legend, course_part, findings, moment, name, rule, select, shadow_tag,
    spark, t,
};
use crate::{format, path};

/// The content.
pub(crate) fn body(chrome: &Chrome, model: &Simulation) -> Markup {
    html! {
        div #problem { @if let Some(problem) = &model.problem { div.notice.bad role="alert" { (t(problem)) } } }
        section.card {
            h2 { "Log and rules" }
            (form(chrome, model))
        }
        div #report { @if let Some(found) = &model.report { (report(chrome, found)) } }
    }
}

fn form(chrome: &Chrome, model: &Simulation) -> Markup {
    let form = &model.form;
    let formats: Vec<(&str, &str)> =
        form.formats.iter().map(|it| (it.as_str(), it.as_str())).collect();
    html! {
        form method="post" action=(path::SIMULATE) enctype="multipart/form-data" data-upload=(form.max_bytes) {
            input type="hidden" name="csrf" value=(chrome.csrf);
            div.form {
                label.grow.drop data-drop="" {
                    span { "Access log" span.dim { " · at most " (format::bytes(form.max_bytes)) ", read and forgotten" } }
                    input type="file" name="log" required;
                    small { "Common, combined or nginx JSON format, or a trace; also compressed with gzip." }
                }
                (select("Format", "format", &formats, &form.format))
            }
            fieldset {
                legend { "Rules" }
                label.check { input type="radio" name="policy" value="in_force" checked[!form.is_edited]; span { "in force, revision " (chrome.revision) } }
                label.check { input type="radio" name="policy" value="edited" checked[form.is_edited]; span { "as edited below" } }
                details open[form.is_edited] data-chooses="edited" {
                    summary { "Edit the rules" }
                    label {
                        span.hidden-text { "The policy in YAML" }
                        textarea.code name="document" rows="16" spellcheck="false" autocomplete="off" { "\n" (form.yaml) }
                    }
                    div #rule-findings { @if !model.findings.is_empty() { (findings(&model.findings, true)) } }
                }
            }
            div.actions { button.primary type="submit" { "Simulate" } span.dim { "Nothing is charged, nothing is saved." } }
        }
    }
}

fn report(chrome: &Chrome, report: &SimulationReport) -> Markup {
    html! {
        div.tiles {
            (tile("Requests", &format::count(report.requests), &format::span(report.from, report.until, chrome.now), ""))
            (tile("Refused", &format::part_of(report.refused, report.requests), &format::counted(report.refused, "request"), if report.refused > 0 { "bad" } else { "" }))
            (tile("Clients refused", &format::count(report.clients_refused), &format!("of {}", format::count(report.clients)), ""))
            (tile("Delayed", &format::count(report.delayed), &longest(report.delayed, report.longest_delay_ms), if report.delayed > 0 { "warn" } else { "" }))
        }
        section.card {
            h2 { (t(&report.file)) span.legend { (t(&report.format)) " · requests " (per(report.course.step_seconds)) } (course_legend()) }
            (log_course(chrome, report))
            @if report.skipped_lines > 0 {
                p.warn.after-chart {
                    (format::counted(report.skipped_lines, "line")) " could not be read"
                    @if let Some(first) = &report.first_skipped { span.dim { ", the first: " (t(first)) } }
                }
            }
            @if report.unlimited > 0 { p.dim { (format::counted(report.unlimited, "request")) " matched no rule." } }
            (caveat(report.caveat.as_deref()))
        }
        (by_rule(report))
        (by_client(chrome, report))
        @if !report.in_shadow.is_empty() { (by_client_in_shadow(report)) }
        @if !report.algorithms.is_empty() { (algorithms(report)) }
    }
}

/// The chart of the log has the range of the log.
fn log_course(chrome: &Chrome, report: &SimulationReport) -> Markup {
    let mut of_log = chrome.clone();
    of_log.range.from = report.from;
    of_log.range.until = report.until;
    let title = format!("Requests of the log {}", per(report.course.step_seconds));
    let chart = course_part("log-course", &title, &report.course, &of_log);
    html! { figure.plot { (chart) } }
}

/// A step of the chart in words, as the report of `tollgate simulate` has it: `per hour`.
fn per(step: u64) -> String {
    match step {
        0 | 1 => "per second".to_owned(),
        60 => "per minute".to_owned(),
        3_600 => "per hour".to_owned(),
        86_400 => "per day".to_owned(),
        step => format!("per {}", format::duration(step.saturating_mul(1_000))),
    }
}

/// A rule of a report: a link if its page says what was replayed.
fn simulated(rule_id: &str, report: &SimulationReport) -> Markup {
    let written = rule_id.strip_suffix(path::CANDIDATE).unwrap_or(rule_id);
    let is_in_force = report.rules_in_force.iter().any(|known| known == written);
    if is_in_force {
        rule(rule_id)
    } else {
        html! { span.id { (name(rule_id)) } }
    }
}

/// A client of the log. This server may not know it, so the link leads to the search.
fn logged_client(client: &str) -> Markup {
    html! { a.id href=(path::client_search(client)) title="Search for this client" { (name(client)) } }
}

/// The longest delay, if a request was delayed.
fn longest(delayed: u64, longest_ms: u64) -> String {
    match delayed {
        0 => "no request waits".to_owned(),
        _ => format!("at most {}", format::duration(longest_ms)),
    }
}

fn tile(label: &str, value: &str, about: &str, class: &str) -> Markup {
    html! { div.tile { span { (label) } b class=(class) { (value) } small { (about) } } }
}

fn by_rule(report: &SimulationReport) -> Markup {
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Rule" }
                    th scope="col" .m-hide { "Limit" }
                    th scope="col" .num .m-hide { "Applied" }
                    th scope="col" .num { "Exceeded" }
                    th scope="col" .num { "Share" }
                    th scope="col" .num { "Clients" }
                }
            }
            tbody {
                @for row in &report.rules {
                    tr {
                        td.cut { (simulated(&row.rule_id, report)) @if row.is_shadow { " " span.tag { "shadow" } } }
                        td.dim.m-hide { (t(&format::quota(&row.quota))) }
                        td.num.m-hide { (format::count(row.applied)) }
                        td.num { (format::count(row.exceeded)) }
                        td.num { (format::part_of(row.exceeded, row.applied)) }
                        td.num { (format::count(row.clients)) }
                    }
                }
            }
        }
    };
    card(&html! { "By rule" }, None, &table)
}

fn by_client(chrome: &Chrome, report: &SimulationReport) -> Markup {
    let table = html! {
        @if report.top.is_empty() { p.dim { "No client would have been refused." } } @else {
            table {
                thead {
                    tr {
                        th scope="col" { "Client" }
                        th scope="col" .num .m-hide { "Requests" }
                        th scope="col" .num { "Refused" }
                        th scope="col" { "Rule" }
                        th scope="col" .m-hide { "First" }
                    }
                }
                tbody {
                    @for row in &report.top {
                        tr {
                            td.cut {
                                (logged_client(&row.client))
                                @if let Some(path) = &row.path { small.dim.under { (t(path)) } }
                                @if let Some(agent) = &row.user_agent { small.dim.under { (t(agent)) } }
                            }
                            td.num.m-hide { (format::count(row.requests)) }
                            td.num { (format::count(row.refused)) }
                            td.cut { @if let Some(rule_id) = &row.rule_id { (simulated(rule_id, report)) } }
                            td.dim.m-hide.nowrap { @if let Some(at) = row.first_refused { (moment(at, chrome.now)) } }
                        }
                    }
                }
            }
        }
    };
    card(&html! { "Most refused" }, None, &table)
}

fn by_client_in_shadow(report: &SimulationReport) -> Markup {
    let table = html! {
        p.dim { "Shadow rules and candidates refuse nothing. These clients were over their limits." }
        table {
            thead {
                tr {
                    th scope="col" { "Client" }
                    th scope="col" .num .m-hide { "Requests" }
                    th scope="col" .num { "Exceeded" }
                    th scope="col" { "Rule" }
                }
            }
            tbody {
                @for row in &report.in_shadow {
                    tr {
                        td.cut { (logged_client(&row.client)) }
                        td.num.m-hide { (format::count(row.requests)) }
                        td.num { (format::count(row.exceeded)) }
                        td.cut { (simulated(&row.rule_id, report)) (shadow_tag(&row.rule_id)) }
                    }
                }
            }
        }
    };
    card(&html! { "Would be refused if these rules were in force" }, None, &table)
}

fn algorithms(report: &SimulationReport) -> Markup {
    let table = html! {
        p.dim { "The same limits, counted by each algorithm. \"Unlike the log\" are requests with another decision than sliding_window_log, which is exact." }
        table {
            thead {
                tr {
                    th scope="col" { "Algorithm" }
                    th scope="col" .num { "Refused" }
                    th scope="col" .num { "Share" }
                    th scope="col" .num .m-hide { "Clients" }
                    th scope="col" .num .m-hide { "Delayed" }
                    th scope="col" .num .m-hide { "Unlike the log" }
                    th scope="col" .num { "Over time" }
                }
            }
            tbody { @for row in &report.algorithms { (algorithm(row, report.requests)) } }
        }
    };
    card(&html! { "Six algorithms side by side" }, None, &table)
}

fn algorithm(row: &AlgorithmRow, requests: u64) -> Markup {
    html! {
        tr {
            td { (name(&row.algorithm)) @if row.is_in_use { " " span.tag { "in use" } } }
            td.num { (format::count(row.refused)) }
            td.num { (format::part_of(row.refused, requests)) }
            td.num.m-hide { (format::count(row.clients_refused)) }
            td.num.m-hide {
                @if row.delayed == 0 { span.dim { "–" } } @else {
                    (format::count(row.delayed)) span.dim { ", at most " (format::duration(row.longest_delay_ms)) }
                }
            }
            td.num.m-hide { (format::part_of(row.unlike_log, requests)) }
            td.num { @if row.refused == 0 { span.dim { "–" } } @else { (spark(&format!("Refusals under {} over the log", row.algorithm), &row.course, "bad")) } }
        }
    }
}
