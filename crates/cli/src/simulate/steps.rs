//! `--json`: one line per request, in the order of the traffic.

use std::io::{self, BufWriter, Stdout, Write as _};

use serde::Serialize;
use tollgate::{Decision, Micros};

use crate::failure::Failure;

/// The decision about one request. Durations are rounded up to whole milliseconds.
#[derive(Serialize)]
struct SimulatedDecision<'a> {
    allowed: bool,
    /// `null` where no enforced rule applied.
    remaining: Option<u64>,
    /// `null`: never.
    retry_after_ms: Option<u64>,
    reset_ms: Option<u64>,
    /// `null`: everything is left.
    next_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_id: Option<&'a str>,
}

/// Writes decisions to standard output.
pub(super) struct Steps {
    output: BufWriter<Stdout>,
    is_inline: bool,
}

impl Steps {
    pub(super) fn new(is_inline: bool) -> Self {
        Self { output: BufWriter::new(io::stdout()), is_inline }
    }

    pub(super) fn write(&mut self, decision: &Decision) -> Result<(), Failure> {
        let line = step(decision, self.is_inline);
        serde_json::to_writer(&mut self.output, &line).map_err(io::Error::from)?;
        Ok(self.output.write_all(b"\n")?)
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }
}

fn step(decision: &Decision, is_inline: bool) -> SimulatedDecision<'_> {
    let millis = |span: Option<Micros>| span.map(Micros::as_millis_ceil);
    let binding = decision.binding();
    let rule = binding.map(|binding| binding.rule).or_else(|| decision.refuser());
    let report = binding.map(|binding| binding.outcome.report);
    let at_once = decision.is_allowed().then_some(0);
    SimulatedDecision {
        allowed: decision.is_allowed(),
        remaining: report.map(|report| report.remaining),
        retry_after_ms: at_once.or_else(|| millis(decision.retry_after())),
        reset_ms: report.map(|report| report.reset_after.as_millis_ceil()),
        next_ms: report.and_then(|report| millis(report.next_after)),
        delay_ms: millis(decision.delay()),
        rule_id: rule.filter(|_| !is_inline).map(|rule| &*rule.id),
    }
}
