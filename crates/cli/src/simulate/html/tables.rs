//! Who was refused, by which rule, on which endpoint: the tables of the report.

use tollgate::rules::Rule;
use tollgate_chart::{Meter, Size, Sparkline};
use tollgate_simulate::Breakdown;

use super::HtmlReport;
use super::markup::{Markup, card, heading, table};
use crate::terminal::{count, grouped, quota, share, span};

/// Longer texts of the traffic are cut.
const MAX_TEXT: usize = 120;

/// A text of the traffic, which may be long.
pub(super) fn of_traffic(class: &'static str, text: &str) -> Markup {
    let mut short: String = text.chars().take(MAX_TEXT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    Markup::with_text("span", class, &short)
}

pub(super) fn figure(number: u64) -> Markup {
    Markup::text(&grouped(number))
}

/// A share as a figure, above a bar.
pub(super) fn share_bar(part: u64, whole: u64, class: &str) -> Markup {
    let shown = share(part, whole);
    let label = format!("{} of {}", grouped(part), grouped(whole));
    // Bars have far fewer points than numbers have digits.
    let meter = Meter { label: &label, value: part as f64, whole: whole as f64, class };
    Markup::all([Markup::text(&shown), Markup::chart(meter.to_svg())])
}

/// A small line of refusals.
fn small_line(label: &str, values: &[u64]) -> Markup {
    let values: Vec<Option<f64>> = values.iter().map(|value| Some(*value as f64)).collect();
    let size = Size { width: 120, height: 28 };
    Markup::chart(Sparkline { label, values: &values, class: "bad", size }.to_svg())
}

/// What a rule allows, in one line.
pub(super) fn limit_of(rule: &Rule) -> String {
    let limit = &rule.quota;
    let window =
        limit.calendar.as_ref().map_or_else(|| span(limit.window.get()), ToString::to_string);
    let identifiers: Vec<String> = rule.identifiers.iter().map(ToString::to_string).collect();
    let limit_text = quota(limit.limit, &window, limit.burst.unwrap_or(limit.limit));
    format!("{limit_text} · {} · {}", identifiers.join(" + "), limit.algorithm.name())
}

pub(super) fn rules(report: &HtmlReport<'_>) -> Markup {
    let rows = report
        .tally
        .rules
        .iter()
        .zip(report.rules)
        .map(|(tally, rule)| {
            let mut name = Markup::with_text("b", "", &tally.rule_id);
            if tally.is_shadow {
                name += Markup::with_text("span", "tag", "log only");
            }
            name += Markup::with_text("span", "dim under", &limit_of(rule));
            let label = format!("Requests over the limit of {} over time", tally.rule_id);
            [
                name,
                figure(tally.applied),
                figure(tally.exceeded),
                share_bar(tally.exceeded, tally.applied, "k-ref"),
                figure(tally.clients_exceeding.len() as u64),
                small_line(&label, &tally.exceeded_over_time),
            ]
        })
        .collect();
    let headings = [
        heading("rule", "text"),
        heading("applied", "num opt"),
        heading("exceeded", "num"),
        heading("share", "num share"),
        heading("clients", "num opt"),
        heading("over time", "num opt spark-cell"),
    ];
    let about =
        "A request that exceeds two rules is in both lines. Clients are those over the limit.";
    card(Markup::text("Rules"), about, table(headings, rows))
}

pub(super) fn clients(report: &HtmlReport<'_>, breakdown: &Breakdown<'_>) -> Markup {
    let title = Markup::text("Clients refused most often");
    let refused = report.tally.clients_refused();
    if breakdown.clients.is_empty() {
        let text =
            if refused == 0 { "No client was refused." } else { "None are listed (--top 0)." };
        return card(title, "", Markup::with_text("p", "empty", text));
    }
    let rows = breakdown
        .clients
        .iter()
        .map(|client| {
            let mut path = client.path().map(|path| of_traffic("code", path)).unwrap_or_default();
            if let Some(agent) = client.user_agent {
                path += of_traffic("dim under", agent);
            }
            let label = "Refusals of this client over time";
            [
                of_traffic("code", client.name),
                figure(client.requests),
                figure(client.refused),
                share_bar(client.refused, client.requests, "k-ref"),
                small_line(label, &client.over_time),
                path,
            ]
        })
        .collect();
    let headings = [
        heading("client", "text"),
        heading("requests", "num opt"),
        heading("refused", "num"),
        heading("share", "num share"),
        heading("over time", "num opt spark-cell"),
        heading("most refused path, user agent", "opt wide-text"),
    ];
    let shown = breakdown.clients.len() as u64;
    let were = if refused == 1 { "was" } else { "were" };
    let mut about = format!("{} {were} refused", count(refused, "client"));
    if shown < refused {
        about += &format!("; the first {} are listed", grouped(shown));
    }
    card(title, &(about + "."), table(headings, rows))
}

/// Whom shadow rules and candidates would have refused, if they would have refused anyone.
pub(super) fn clients_in_shadow(report: &HtmlReport<'_>) -> Option<Markup> {
    let tally = report.tally;
    let refused = tally.most_refused_in_shadow(report.top);
    if refused.is_empty() {
        return None;
    }
    let rows = refused
        .iter()
        .map(|it| {
            [
                of_traffic("code", it.client),
                Markup::with_text("b", "", &tally.rules[it.rule].rule_id),
                figure(it.requests),
                figure(it.exceeded),
                share_bar(it.exceeded, it.requests, "k-ref"),
            ]
        })
        .collect();
    let headings = [
        heading("client", "text"),
        heading("would be refused by", "text"),
        heading("requests", "num opt"),
        heading("exceeded", "num"),
        heading("share", "num share"),
    ];
    let about = "Shadow rules and candidates refuse nothing; these clients were over their limits. \
                 A client is listed once for each rule.";
    let title = Markup::text("Clients that rules would refuse if they were in force");
    Some(card(title, about, table(headings, rows)))
}

pub(super) fn endpoints(breakdown: &Breakdown<'_>) -> Option<Markup> {
    if breakdown.endpoints.is_empty() {
        return None;
    }
    let rows = breakdown
        .endpoints
        .iter()
        .map(|row| {
            [
                of_traffic("code", &row.endpoint),
                figure(row.requests),
                figure(row.refused),
                share_bar(row.refused, row.requests, "k-ref"),
            ]
        })
        .collect();
    let headings = [
        heading("endpoint", "text"),
        heading("requests", "num opt"),
        heading("refused", "num"),
        heading("share", "num share"),
    ];
    let about = "Parts of a path that name a thing are shown as {id}.";
    Some(card(Markup::text("Endpoints refused most often"), about, table(headings, rows)))
}

/// What was replayed, and what could not be read.
pub(super) fn inputs(report: &HtmlReport<'_>) -> Markup {
    let rows = report
        .traffic
        .sources()
        .iter()
        .map(|source| {
            [
                of_traffic("code", &source.name),
                Markup::text(source.format.name()),
                figure(source.requests),
                figure(source.unparsable),
            ]
        })
        .collect();
    let headings = [
        heading("input", "text"),
        heading("format", "opt"),
        heading("requests", "num"),
        heading("lines left out", "num"),
    ];
    let mut content = table(headings, rows);
    for bad in report.traffic.bad_lines() {
        let text = format!("{}:{}: {}: {}", bad.input, bad.line, bad.reason, bad.excerpt);
        content += Markup::element("p", "dim bad-line", of_traffic("code", &text));
    }
    card(Markup::text("What was replayed"), "", content)
}
