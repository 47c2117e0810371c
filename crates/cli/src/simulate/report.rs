//! What a person wants to know after a simulation.

use std::io::{self, Write as _};

use tollgate_simulate::traffic::Traffic;
use tollgate_simulate::{Doubt, Tally};

use super::replay::sentence;
use crate::failure::Failure;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, moment, share, span, sparkline};

pub(super) fn print(
    traffic: &Traffic,
    tally: &Tally<'_>,
    doubt: Option<Doubt>,
    top: usize,
) -> Result<(), Failure> {
    let report = render(traffic, tally, doubt, top);
    Ok(io::stdout().lock().write_all(report.as_bytes())?)
}

fn render(traffic: &Traffic, tally: &Tally<'_>, doubt: Option<Doubt>, top: usize) -> String {
    let mut parts = vec![heading(traffic, tally), verdicts(tally), course(tally), by_rule(tally)];
    if tally.refused > 0 && top > 0 {
        parts.push(by_client(tally, top));
    }
    parts.extend(by_client_in_shadow(tally, top));
    parts.extend(doubt.map(sentence));
    parts.join("\n")
}

fn heading(traffic: &Traffic, tally: &Tally<'_>) -> String {
    let mut lines = String::new();
    for source in traffic.sources() {
        let (requests, format) = (count(source.requests, "request"), source.format.name());
        lines += &format!("{}: {requests} ({format})\n", source.name);
    }
    let course = &tally.course;
    let lasted = span(course.last.since(course.first).get());
    lines += &if traffic.is_trace() {
        format!("{lasted} of traffic\n")
    } else {
        format!("{} to {}, {lasted}\n", moment(course.first), moment(course.last))
    };
    lines
}

/// Only what happened is listed.
fn verdicts(tally: &Tally<'_>) -> String {
    let of_all = |number: u64| share(number, tally.requests);
    let mut rows = vec![
        ["requests".to_owned(), grouped(tally.requests), String::new()],
        ["allowed".to_owned(), grouped(tally.allowed), of_all(tally.allowed)],
        ["refused".to_owned(), grouped(tally.refused), of_all(tally.refused)],
    ];
    let more = [
        ("allowed, but warned", tally.warned),
        ("allowed, but delayed", tally.delayed),
        ("allowed by list", tally.listed.0),
        ("refused by list", tally.listed.1),
        ("refused, no identifier", tally.unidentified),
        ("refused, banned", tally.banned),
        ("no rule applied", tally.unlimited),
    ];
    for (what, number) in more {
        if number > 0 {
            rows.push([what.to_owned(), grouped(number), of_all(number)]);
        }
    }
    let clients = tally.clients.len() as u64;
    let refused = tally.clients_refused();
    rows.push(["clients".to_owned(), grouped(clients), String::new()]);
    rows.push(["clients refused".to_owned(), grouped(refused), share(refused, clients)]);
    if tally.delayed > 0 {
        let longest = span(tally.longest_delay_ms.saturating_mul(1_000));
        rows.push(["longest delay".to_owned(), longest, String::new()]);
    }
    let mut lines = table([Column::Text(""), Column::Figure(""), Column::Figure("")], &rows);
    if tally.requests > 0 && tally.unlimited == tally.requests {
        lines += "\nAccess logs seldom have hosts, and no users: rules with `hosts`, or by user_id, api_key or tenant, apply to \
                  nothing in them.\n";
    }
    lines
}

fn course(tally: &Tally<'_>) -> String {
    let course = &tally.course;
    let row = |what: &str, values: &[u64]| {
        let most = values.iter().copied().max().unwrap_or(0);
        format!(" {what:<9}{}  at most {}\n", sparkline(values), grouped(most))
    };
    format!(
        " each column is {}\n{}{}",
        span(course.width),
        row("requests", &course.requests),
        row("refused", &course.refused)
    )
}

fn by_rule(tally: &Tally<'_>) -> String {
    let rows: Vec<[String; 5]> = tally
        .rules
        .iter()
        .map(|rule| {
            let name = if rule.is_shadow {
                format!("{} (log only)", rule.rule_id)
            } else {
                rule.rule_id.clone()
            };
            [
                name,
                grouped(rule.applied),
                grouped(rule.exceeded),
                share(rule.exceeded, rule.applied),
                grouped(rule.clients_exceeding.len() as u64),
            ]
        })
        .collect();
    let columns = [
        Column::Text("rule"),
        Column::Figure("applied"),
        Column::Figure("exceeded"),
        Column::Figure("share"),
        Column::Figure("clients"),
    ];
    table(columns, &rows)
}

fn by_client(tally: &Tally<'_>, top: usize) -> String {
    let rows: Vec<[String; 4]> = tally
        .most_refused(top)
        .into_iter()
        .map(|(name, client)| {
            let refused = share(client.refused, client.requests);
            [name.to_owned(), grouped(client.requests), grouped(client.refused), refused]
        })
        .collect();
    let columns = [
        Column::Text("client"),
        Column::Figure("requests"),
        Column::Figure("refused"),
        Column::Figure("share"),
    ];
    table(columns, &rows)
}

/// Whom shadow rules and candidates would have refused, if they would have refused anyone.
fn by_client_in_shadow(tally: &Tally<'_>, top: usize) -> Option<String> {
    let rows: Vec<[String; 5]> = tally
        .most_refused_in_shadow(top)
        .into_iter()
        .map(|it| {
            [
                it.client.to_owned(),
                tally.rules[it.rule].rule_id.clone(),
                grouped(it.requests),
                grouped(it.exceeded),
                share(it.exceeded, it.requests),
            ]
        })
        .collect();
    let columns = [
        Column::Text("client"),
        Column::Text("would be refused by"),
        Column::Figure("requests"),
        Column::Figure("exceeded"),
        Column::Figure("share"),
    ];
    (!rows.is_empty()).then(|| table(columns, &rows))
}
