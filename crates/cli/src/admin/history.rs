//! `tollgate stats history`: how requests ended on a node over the last hours, and how long checks took.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use tollgate::Micros;

use super::stats::OUTCOMES;
use super::times::parse_span;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::Remote;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, lasting, printable, share, span, sparkline};

/// How wide a chart is at most.
const CHART_WIDTH: usize = 40;

/// Arguments of `tollgate stats history`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate stats history --range 24h

The figures are those of the node that is called. A tenant-admin sees those of its rules.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct NodeHistoryArguments {
    /// How far to look back: 1m to 24h.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span)]
    range: Micros,

    #[command(flatten)]
    server: ServerArguments,
}

/// The figures of a node over a range.
#[derive(Deserialize)]
struct NodeHistory {
    range_seconds: u64,
    /// A tenant-admin does not see it.
    node: Option<NodeSteps>,
    revisions: Vec<RevisionRow>,
    rules: Vec<RuleSteps>,
}

/// Figures for each step, the oldest first.
#[derive(Deserialize)]
struct NodeSteps {
    from: String,
    step_seconds: u64,
    check_seconds: QuantileSteps,
    store_seconds: QuantileSteps,
    /// How requests ended, by the names of [`OUTCOMES`].
    #[serde(flatten)]
    outcomes: BTreeMap<String, Vec<u64>>,
}

#[derive(Deserialize)]
struct QuantileSteps {
    p50: Vec<Option<f64>>,
    p95: Vec<Option<f64>>,
    p99: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct RevisionRow {
    at: String,
    revision: u64,
    rules: u64,
}

#[derive(Deserialize)]
struct RuleSteps {
    rule_id: String,
    allowed: Vec<u64>,
    refused: Vec<u64>,
    would_refuse: Vec<u64>,
}

/// Prints the figures.
pub(super) fn history(arguments: &NodeHistoryArguments) -> Result<ExitCode, Failure> {
    let NodeHistoryArguments { range, server } = arguments;
    let path = format!("/api/v1/history?range={}s", range.as_secs_ceil());
    let response = Remote::new(server)?.get::<NodeHistory>(&path)?;
    print(&if server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

impl NodeHistory {
    fn render(&self) -> String {
        let Self { range_seconds, node, revisions, rules } = self;
        let range = span(range_seconds.saturating_mul(1_000_000));
        let mut text = match node {
            Some(node) => format!(
                "the last {range} of this node, from {} on, in steps of {}\n\n{}",
                printable(&node.from),
                span(node.step_seconds.saturating_mul(1_000_000)),
                node.render()
            ),
            None => format!("the last {range} of the rules of this tenant, on this node\n"),
        };
        if !rules.is_empty() {
            let columns = [
                Column::Text("rule"),
                Column::Figure("allowed"),
                Column::Figure("refused"),
                Column::Figure("share"),
                Column::Figure("would refuse"),
                Column::Text("refused over time"),
            ];
            let rows: Vec<_> = rules.iter().map(RuleSteps::cells).collect();
            text += &format!("\n{}", table(columns, &rows));
        }
        if !revisions.is_empty() {
            text += "\n";
        }
        for RevisionRow { at, revision, rules } in revisions {
            let rules = count(*rules, "rule");
            text += &format!("revision {revision} with {rules} in force since {}\n", printable(at));
        }
        text
    }
}

impl NodeSteps {
    fn render(&self) -> String {
        // Of all requests there is no list: each ends in one way.
        let ends = || OUTCOMES.iter().filter_map(|name| Some((*name, self.outcomes.get(*name)?)));
        let all: u64 = ends().map(|(_, steps)| sum(steps)).fold(0, u64::saturating_add);
        let row = |(name, steps): (&str, &Vec<u64>)| {
            [name.to_owned(), grouped(sum(steps)), share(sum(steps), all), chart(steps)]
        };
        let columns = [
            Column::Text(""),
            Column::Figure("requests"),
            Column::Figure("share"),
            Column::Text("over time"),
        ];
        let mut text = table(columns, &ends().map(row).collect::<Vec<_>>());
        let columns = [
            Column::Text("slowest step"),
            Column::Figure("p50"),
            Column::Figure("p95"),
            Column::Figure("p99"),
        ];
        let rows = [("checks", &self.check_seconds), ("store", &self.store_seconds)];
        let rows: Vec<_> = rows.into_iter().map(|(what, steps)| steps.cells(what)).collect();
        text += &format!("\n{}", table(columns, &rows));
        text
    }
}

impl QuantileSteps {
    /// The highest of all steps.
    fn cells(&self, what: &str) -> [String; 4] {
        let highest = |steps: &[Option<f64>]| {
            let highest = steps.iter().flatten().copied().reduce(f64::max);
            highest.map(lasting).unwrap_or_default()
        };
        [what.to_owned(), highest(&self.p50), highest(&self.p95), highest(&self.p99)]
    }
}

impl RuleSteps {
    fn cells(&self) -> [String; 6] {
        let (allowed, refused) = (sum(&self.allowed), sum(&self.refused));
        [
            self.rule_id.clone(),
            grouped(allowed),
            grouped(refused),
            share(refused, allowed.saturating_add(refused)),
            grouped(sum(&self.would_refuse)),
            chart(&self.refused),
        ]
    }
}

fn sum(steps: &[u64]) -> u64 {
    steps.iter().fold(0, |sum, step| sum.saturating_add(*step))
}

/// Counts as bars: neighbours are added up until they fit.
fn chart(steps: &[u64]) -> String {
    let together = steps.len().div_ceil(CHART_WIDTH).max(1);
    // The last bar is the one that is compared with now, so it is whole.
    let (first, rest) = steps.split_at(steps.len() % together);
    let bars = std::iter::once(first).filter(|first| !first.is_empty());
    let bars: Vec<u64> = bars.chain(rest.chunks(together)).map(sum).collect();
    sparkline(&bars)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, expected: &str) {
        let history: NodeHistory = serde_json::from_str(answer).expect("an answer");
        assert_eq!(history.render(), expected);
    }

    #[test]
    fn a_node_is_shown_with_its_rules_and_revisions() {
        let quantiles = r#"{"p50":[null,0.000002],"p95":[null,0.000005],"p99":[0.00002,0.00001]}"#;
        let none = r#"{"p50":[null,null],"p95":[null,null],"p99":[null,null]}"#;
        check(
            &format!(
                r#"{{"range_seconds":3600,"node":{{"from":"2026-11-15T16:00:00Z","step_seconds":10,"allowed":[1,5],"refused":[0,2],
                    "denied":[0,0],"throttled":[0,0],"unlimited":[0,0],"error":[0,0],"degraded":[0,0],
                    "check_seconds":{quantiles},"store_seconds":{none}}},
                    "revisions":[{{"at":"2026-11-15T16:00:11Z","revision":8,"rules":5}}],
                    "rules":[{{"rule_id":"r\u001b","from":"t","step_seconds":60,"allowed":[3,3],"refused":[2,0],"would_refuse":[0,1]}}]}}"#
            ),
            "the last 1 h of this node, from 2026-11-15T16:00:00Z on, in steps of 10 s

            requests    share  over time
 allowed           6  75.00 %  ▃█
 refused           2  25.00 %   █
 denied            0   0.00 %
 throttled         0   0.00 %
 unlimited         0   0.00 %
 error             0   0.00 %

 slowest step   p50   p95    p99
 checks        2 us  5 us  20 us
 store

 rule  allowed  refused    share  would refuse  refused over time
 r\u{fffd}          6        2  25.00 %             1  █

revision 8 with 5 rules in force since 2026-11-15T16:00:11Z
",
        );
        check(
            r#"{"range_seconds":60,"node":null,"revisions":[],"rules":[]}"#,
            "the last 1 min of the rules of this tenant, on this node\n",
        );
    }

    #[test]
    fn a_chart_has_at_most_forty_bars() {
        assert_eq!(chart(&[1; 41]).chars().count(), 21);
        assert_eq!(chart(&[1; 360]).chars().count(), 40);
        assert_eq!((chart(&[]), chart(&[0, 3])), (String::new(), " █".to_owned()));
        // The odd one is at the beginning.
        let mut steps = [0; 41];
        steps[40] = 1;
        assert!(chart(&steps).ends_with('█'));
    }
}
