//! What can be typed after `tollgate simulate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use tollgate::store::StoreUrl;
use tollgate_server::settings::ByteSize;
use tollgate_simulate::traffic::FormatChoice;

/// Arguments of `tollgate simulate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate simulate --rule '{\"limit\":100,\"window\":\"1m\"}' access.log
  tollgate simulate --rules policy.yaml access.log.1.gz access.log
  tollgate simulate --rules policy.yaml --report out.html --fail-if 'refused > 1%' access.log
  zcat -f *.gz | tollgate simulate --rule '{\"limit\":10,\"window\":\"1s\"}' --compare -

A trace is one JSON object a line: {\"t_ms\":0,\"key\":\"k\",\"cost\":1}. Its key stands for whatever the \
rule counts by; further members may be user_id, api_key, ip, tenant, endpoint, method, host, \
tier, attributes.

--fail-if compares a figure with a number, or with a share of what there is: refused, throttled, \
clients_refused, unmatched; refused(RULE) and clients_refused(RULE) are those over the limit of a rule.

The exit code is 0 whatever would be refused, 1 if a condition of --fail-if holds, or 2 if rules, \
input, store, condition or report cannot be used, or the rule of a condition applied to no request.")]
#[command(group = ArgGroup::new("policy").args(["rules", "rule"]).required(true))]
pub(crate) struct SimulateArguments {
    /// A policy file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<String>,

    /// One rule: `{"limit":5,"window":"1s","algorithm":"gcra"}` is enough. Counts logs by client
    /// address and traces by key, unless it says otherwise.
    #[arg(long, value_name = "JSON")]
    pub(crate) rule: Option<String>,

    /// Count in a store that `serve` could count in, under the traffic's own clock: the URL of Redis
    /// or PostgreSQL. What is counted is left behind for an hour.
    // A text here: what cannot be parsed would be repeated, and it may hold a password.
    #[arg(long, value_name = "URL", default_value = StoreUrl::MEMORY, hide_default_value = true,
          conflicts_with = "compare")]
    pub(crate) store: String,

    /// Run the same limits through all six algorithms, side by side.
    #[arg(long)]
    pub(crate) compare: bool,

    /// Also write a report with charts and tables: one HTML file that needs nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    pub(crate) report: Option<PathBuf>,

    /// Exit with 1 if this holds: `refused > 1%`, `refused(login) >= 100`. May be repeated.
    #[arg(long, value_name = "CONDITION", conflicts_with = "compare")]
    pub(crate) fail_if: Vec<String>,

    /// One JSON line per request; with --compare, one per algorithm.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) reading: ReadingArguments,

    /// How many clients to list.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) top: usize,

    /// Access logs or traces, also gzipped; `-` is standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
}

/// How recorded traffic is read.
#[derive(Args, Debug)]
pub(crate) struct ReadingArguments {
    /// What the input looks like: auto, common, combined, nginx-json, trace.
    #[arg(long, default_value = "auto", value_name = "FORMAT")]
    pub(crate) format: FormatChoice,

    /// Take log lines in the order in which they stand, not by their time.
    #[arg(long)]
    pub(crate) no_sort: bool,

    /// The most memory that requests may take, like 512MiB or 4GiB.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_memory: ByteSize,
}

fn parse_size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|expected| format!("expected {expected}"))
}
