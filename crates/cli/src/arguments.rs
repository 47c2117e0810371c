//! What can be typed after `tollgate`, and the help that says so.

use clap::{Args, Parser, Subcommand};

use crate::traffic::FormatChoice;

/// A distributed rate limiter.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run rules on recorded traffic, before they go live.
    Simulate(SimulateArguments),
    /// Check and describe rules.
    #[command(subcommand)]
    Rules(RulesCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Report everything that is wrong or doubtful in policy files.
    Lint(LintArguments),
    /// Print the JSON schema of the policy document.
    Schema,
}

/// Arguments of `tollgate simulate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate simulate --rule '{\"limit\":100,\"window\":\"1m\"}' access.log
  tollgate simulate --rules policy.yaml access.log.1.gz access.log
  zcat -f *.gz | tollgate simulate --rule '{\"limit\":10,\"window\":\"1s\"}' --compare -

A trace is one JSON object a line: {\"t_ms\":0,\"key\":\"k\",\"cost\":1}. Its key stands for whatever the
rule counts by; further members may be user_id, api_key, ip, tenant, endpoint, method, host,
tier, attributes.")]
pub(crate) struct SimulateArguments {
    /// A policy file, YAML or JSON.
    #[arg(long, value_name = "FILE", required_unless_present = "rule", conflicts_with = "rule")]
    pub(crate) rules: Option<String>,

    /// One rule: `{"limit":5,"window":"1s","algorithm":"gcra"}` is enough. Counts logs by client
    /// address and traces by key, unless it says otherwise.
    #[arg(long, value_name = "JSON")]
    pub(crate) rule: Option<String>,

    /// Run the same limits through all six algorithms, side by side.
    #[arg(long)]
    pub(crate) compare: bool,

    /// One JSON line per request; with --compare, one per algorithm.
    #[arg(long)]
    pub(crate) json: bool,

    /// What the input looks like: auto, common, combined, nginx-json, trace.
    #[arg(long, default_value = "auto", value_name = "FORMAT")]
    pub(crate) format: FormatChoice,

    /// Take log lines in the order in which they stand, not by their time.
    #[arg(long)]
    pub(crate) no_sort: bool,

    /// How many clients to list.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) top: usize,

    /// Access logs or traces, also gzipped; `-` is standard input.
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<String>,
}

/// Arguments of `tollgate rules lint`.
#[derive(Args, Debug)]
pub(crate) struct LintArguments {
    /// How many nodes the rules are for.
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,

    /// Proxies in front are trusted to name the client.
    #[arg(long)]
    pub(crate) trusted_proxies: bool,

    /// Counters will be shared in Redis.
    #[arg(long)]
    pub(crate) redis: bool,

    /// One JSON line per problem.
    #[arg(long)]
    pub(crate) json: bool,

    /// Policy files, YAML or JSON; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
}
