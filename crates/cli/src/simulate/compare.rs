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
pub(super) struct AlgorithmRow {
    pub(super) algorithm: &'static str,
    pub(super) requests: u64,
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) clients_refused: u64,
    pub(super) delayed: u64,
    pub(super) longest_delay_ms: u64,
    /// Requests with another decision than by the log, which is exact.
    pub(super) unlike_log: u64,
    /// Of these, those that the log refused.
    #[serde(skip)]
    pub(super) looser: u64,
    /// Of these, those that the log allowed.
    #[serde(skip)]
    pub(super) stricter: u64,
    /// Whether each request was allowed.
    #[serde(skip)]
    pub(super) verdicts: Vec<bool>,
}

pub(super) fn run(file: &PolicyText, traffic: &Traffic, json: bool) -> Result<(), Failure> {
    let rows = all(file, traffic)?;
    let mut output = io::stdout().lock();
    if json {
        for row in &rows {
            let line = serde_json::to_string(row).map_err(io::Error::from)?;
            writeln!(output, "{line}")?;
        }
    } else {
        write!(output, "{}", render(&rows))?;
    }
    Ok(())
}

/// The results under all algorithms.
pub(super) fn all(file: &PolicyText, traffic: &Traffic) -> Result<Vec<AlgorithmRow>, Failure> {
    let exact = judge(file, Algorithm::SlidingWindowLog, traffic, &[])?;
    Algorithm::ALL
        .into_iter()
        .map(|algorithm| judge(file, algorithm, traffic, &exact.verdicts))
        .collect()
}

/// Replays the traffic under one algorithm, and compares each decision.
fn judge(
    file: &PolicyText,
    algorithm: Algorithm,
    traffic: &Traffic,
    exact: &[bool],
) -> Result<AlgorithmRow, Failure> {
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
    let unlike = |allowed: bool| {
        let pairs = verdicts.iter().zip(exact);
        pairs.filter(|(ours, exact)| **ours == allowed && ours != exact).count() as u64
    };
    let (looser, stricter) = (unlike(true), unlike(false));
    Ok(AlgorithmRow {
        algorithm: algorithm.name(),
        requests: tally.requests,
        allowed: tally.allowed,
        refused: tally.refused,
        clients_refused: tally.clients_refused(),
        delayed: tally.delayed,
        longest_delay_ms: tally.longest_delay_ms,
        unlike_log: looser + stricter,
        looser,
        stricter,
        verdicts,
    })
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
