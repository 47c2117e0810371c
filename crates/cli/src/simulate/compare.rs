//! `--compare`: the same limits through all six algorithms, beside each other.

use std::io::{self, Write as _};

use serde::Serialize;
use tollgate::rules::document::{Action, PolicyDocument};
use tollgate::rules::{AlgorithmName, CompileOptions, Source};
use tollgate::store::StoreUrl;
use tollgate::{Algorithm, Policy};

use super::replay::replay;
use super::tally::Tally;
use crate::failure::Failure;
use crate::policy_file::PolicyText;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, share, span};
use crate::traffic::Traffic;

/// The result of the traffic under one algorithm.
#[derive(Serialize)]
struct AlgorithmRow {
    algorithm: &'static str,
    requests: u64,
    allowed: u64,
    refused: u64,
    clients_refused: u64,
    delayed: u64,
    longest_delay_ms: u64,
    /// Requests with another decision than by the log, which is exact.
    unlike_log: u64,
}

pub(super) fn run(file: &PolicyText, traffic: &Traffic, json: bool) -> Result<(), Failure> {
    let exact = judge(file, Algorithm::SlidingWindowLog, traffic, &[])?;
    let mut output = io::stdout().lock();
    let mut rows = Vec::new();
    for algorithm in Algorithm::ALL {
        let (row, _) = judge(file, algorithm, traffic, &exact.1)?;
        if json {
            let line = serde_json::to_string(&row).map_err(io::Error::from)?;
            writeln!(output, "{line}")?;
        }
        rows.push(row);
    }
    if !json {
        write!(output, "{}", render(&rows))?;
    }
    Ok(())
}

/// Replays the traffic under one algorithm. Also returns each decision, to compare with.
fn judge(
    file: &PolicyText,
    algorithm: Algorithm,
    traffic: &Traffic,
    exact: &[bool],
) -> Result<(AlgorithmRow, Vec<bool>), Failure> {
    let source = Source::from_document(with_algorithm(&file.source.document, algorithm));
    let options = CompileOptions { unbounded_log: true };
    let policy =
        Policy::compile_with(&source, &options).map_err(|problems| file.unusable(&problems))?;
    let mut tally = Tally::new(&policy, traffic);
    let mut verdicts = Vec::with_capacity(traffic.len());
    let replayed =
        replay(policy, traffic, &StoreUrl::default(), |record, decision| -> Result<(), Failure> {
            tally.add(record, decision);
            verdicts.push(decision.is_allowed());
            Ok(())
        })?;
    if let Some(doubt) = replayed.doubt() {
        eprint!("tollgate: {algorithm}: {doubt}");
    }
    let unlike = verdicts.iter().zip(exact).filter(|(ours, exact)| ours != exact).count();
    let row = AlgorithmRow {
        algorithm: algorithm.name(),
        requests: tally.requests,
        allowed: tally.allowed,
        refused: tally.refused,
        clients_refused: tally.clients_refused(),
        delayed: tally.delayed,
        longest_delay_ms: tally.longest_delay_ms,
        unlike_log: unlike as u64,
    };
    Ok((row, verdicts))
}

/// The same limits, counted otherwise. What only buckets have is left out for the others. Windows of the calendar are
/// fixed ones under every algorithm.
fn with_algorithm(document: &PolicyDocument, algorithm: Algorithm) -> PolicyDocument {
    let mut document = document.clone();
    for rule in document.rules.iter_mut().filter(|rule| rule.time_zone.is_none()) {
        rule.algorithm = AlgorithmName(algorithm);
        if !algorithm.is_bucket() {
            rule.burst = None;
            rule.throttle = None;
            if rule.action == Action::Throttle {
                rule.action = Action::Reject;
            }
        }
    }
    if !algorithm.is_bucket() {
        document.overrides.iter_mut().for_each(|exception| exception.burst = None);
    }
    document
}

fn render(rows: &[AlgorithmRow]) -> String {
    let requests = rows.first().map_or(0, |row| row.requests);
    let cells: Vec<[String; 7]> = rows
        .iter()
        .map(|row| {
            [
                row.algorithm.to_owned(),
                grouped(row.allowed),
                grouped(row.refused),
                share(row.refused, row.requests),
                grouped(row.clients_refused),
                if row.delayed == 0 {
                    "-".to_owned()
                } else {
                    let longest = span(row.longest_delay_ms.saturating_mul(1_000));
                    format!("{} (up to {longest})", grouped(row.delayed))
                },
                share(row.unlike_log, row.requests),
            ]
        })
        .collect();
    let columns = [
        Column::Text("algorithm"),
        Column::Figure("allowed"),
        Column::Figure("refused"),
        Column::Figure("share"),
        Column::Figure("clients"),
        Column::Figure("delayed"),
        Column::Figure("unlike the log"),
    ];
    let requests = count(requests, "request");
    format!("{requests}, the same limits, six algorithms\n\n{}", table(columns, &cells))
}
