//! `--compare`: the same limits through all six algorithms, as a table or as JSON.

use std::io::{self, Write as _};

use tollgate_simulate::traffic::Traffic;
use tollgate_simulate::{AlgorithmFigures, CompareError, ReplayOptions, compare};

use super::replay::{sentence, with_progress};
use crate::failure::Failure;
use crate::policy_file::PolicyText;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, share, span};

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
pub(super) fn all(file: &PolicyText, traffic: &Traffic) -> Result<Vec<AlgorithmFigures>, Failure> {
    let compared = with_progress(traffic, |watch| {
        let options = ReplayOptions::default();
        compare(&file.source.document, traffic, &options, &|policy| policy, watch)
    });
    let rows = compared.map_err(|error| match error {
        CompareError::Policy(problems) => file.unusable(&problems),
        CompareError::Stopped => Failure::usage("the replay was stopped"),
    })?;
    for row in &rows {
        if let Some(doubt) = row.doubt {
            eprint!("tollgate: {}: {}", row.algorithm, sentence(doubt));
        }
    }
    Ok(rows)
}

fn render(rows: &[AlgorithmFigures]) -> String {
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
