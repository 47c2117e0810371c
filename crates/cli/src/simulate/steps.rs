//! `--json`: one line per request, in the order of the traffic.

use std::io::{self, BufWriter, Stdout, Write as _};

use serde::Serialize;
use tollgate::rules::Rule;
use tollgate::{Decision, Micros, Mode};
use tollgate_simulate::client_of;
use tollgate_simulate::traffic::RecordView;

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
    /// Shadow rules and candidates that the request exceeds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    would_be_refused_by: Vec<&'a str>,
    /// Present beside `would_be_refused_by`, so that it says whom these rules would hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
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

    pub(super) fn write(
        &mut self,
        record: RecordView<'_>,
        decision: &Decision,
    ) -> Result<(), Failure> {
        let line = step(record, decision, self.is_inline);
        serde_json::to_writer(&mut self.output, &line).map_err(io::Error::from)?;
        Ok(self.output.write_all(b"\n")?)
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }
}

fn step<'a>(
    record: RecordView<'a>,
    decision: &'a Decision,
    is_inline: bool,
) -> SimulatedDecision<'a> {
    let millis = |span: Option<Micros>| span.map(Micros::as_millis_ceil);
    let binding = decision.binding();
    let rule = binding.map(|binding| binding.rule).or_else(|| decision.refuser());
    let report = binding.map(|binding| binding.outcome.report);
    let at_once = decision.is_allowed().then_some(0);
    let would_be_refused_by = shadow_refusals(decision);
    SimulatedDecision {
        allowed: decision.is_allowed(),
        remaining: report.map(|report| report.remaining),
        retry_after_ms: at_once.or_else(|| millis(decision.retry_after())),
        reset_ms: report.map(|report| report.reset_after.as_millis_ceil()),
        next_ms: report.and_then(|report| millis(report.next_after)),
        delay_ms: millis(decision.delay()),
        rule_id: rule.filter(|_| !is_inline).map(|rule| &*rule.id),
        client: (!would_be_refused_by.is_empty()).then(|| client_of(record)),
        would_be_refused_by,
    }
}

/// The rules that would have refused a request if they refused any. Where it was refused, its candidates are left out,
/// as in the figures of the report.
fn shadow_refusals(decision: &Decision) -> Vec<&str> {
    let is_shadow =
        |rule: &Rule| rule.mode == Mode::Shadow && (decision.is_allowed() || !rule.is_candidate());
    let exceeded = decision.outcomes().filter(|it| it.is_exceeded() && is_shadow(it.rule));
    exceeded.map(|it| &*it.rule.id).collect()
}
