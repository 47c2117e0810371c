//! What can be typed after `tollgate`, and the help that says so.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tollgate::identity::Secret;
use tollgate::rules::parse_window;
use tollgate_api::KeyType;
use tollgate_core::MAX_LIMIT;

use crate::admin::{
    AuditArguments, BansCommand, ClientsCommand, DecisionsCommand, KeysCommand, ListsCommand,
    NodesArguments, OverridesCommand, StatsArguments, TiersCommand, UsersCommand,
};
use crate::backup::BackupArguments;
use crate::gitops::{
    ApplyArguments, DeleteRulesArguments, DiffArguments, ExportArguments, HistoryArguments,
    PreviewArguments, RollbackArguments, ShowArguments,
};
use crate::import::ImportArguments;
use crate::manual::{CompletionsArguments, ManArguments};
use crate::migrate::MigrateArguments;
use crate::recommend::RecommendArguments;
use crate::remote::{HealthArguments, RefundArguments, ResetArguments};
use crate::rules::LintArguments;
use crate::scenarios::TestArguments;
use crate::settings::{ConfigArguments, ServeArguments};
use crate::simulate::SimulateArguments;
use crate::store::StoreCommand;
use crate::tokens::TokensCommand;
use crate::top::TopViewArguments;

/// A distributed rate limiter.
#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    bin_name = "tollgate",
    version,
    max_term_width = 100,
    after_help = "\
First steps:
  tollgate serve                        run a server with rules; it prints a call to try
  tollgate check --user-id alice        ask it, in another terminal
  tollgate rules export > policy.yaml   see its rules (with the token that the server printed)"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server that decides which requests may pass.
    Serve(ServeArguments),
    /// Print the settings that `serve` would run with, and where each of them comes from.
    Config(ConfigArguments),
    /// Ask a server whether a request may pass, and charge it.
    Check(CheckArguments),
    /// Ask the server on this machine whether it is ready.
    Health(HealthArguments),
    /// Ask a server whether a request would pass, and why. Charges nothing.
    Explain(ExplainArguments),
    /// Refund the cost of a request; `decisions refund` refunds one decision.
    Refund(RefundArguments),
    /// Reset the counters of a request, and lift its bans.
    Reset(ResetArguments),
    /// Run rules on recorded traffic, before they go live.
    Simulate(SimulateArguments),
    /// Propose limits by recorded traffic, as a policy.
    Recommend(RecommendArguments),
    /// Run scenarios of requests against rules, and compare with what they expect.
    Test(TestArguments),
    /// Check, list, describe and change rules.
    #[command(subcommand)]
    Rules(RulesCommand),
    /// List, make and revoke the tokens of a server.
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// List, make and delete the API keys that identify clients.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List the clients that rules have banned, and lift bans.
    #[command(subcommand)]
    Bans(BansCommand),
    /// List, add and remove clients that are never limited or always refused.
    #[command(subcommand)]
    Lists(ListsCommand),
    /// List, add and remove the tiers that clients can be in.
    #[command(subcommand)]
    Tiers(TiersCommand),
    /// List clients in tiers, put them there and take them out.
    #[command(subcommand)]
    Clients(ClientsCommand),
    /// List, make and remove exceptions of clients from rules.
    #[command(subcommand)]
    Overrides(OverridesCommand),
    /// Show the limits of one user, and change its tier and its exceptions.
    #[command(subcommand)]
    Users(UsersCommand),
    /// List who changed what on a server, when and from where.
    Audit(AuditArguments),
    /// Show how requests ended on a server, and how often each rule refused.
    Stats(StatsArguments),
    /// List the nodes of a fleet: their versions, revisions, requests and stores.
    Nodes(NodesArguments),
    /// List, explain and refund decisions that were made, and rank those who were refused.
    #[command(subcommand)]
    Decisions(DecisionsCommand),
    /// Watch in a terminal who is refused, near a limit and busiest right now.
    Top(TopViewArguments),
    /// Migrate the schema of a catalog to the newest version.
    Migrate(MigrateArguments),
    /// Write a backup of a catalog, also while a server uses it.
    Backup(BackupArguments),
    /// Look into the store of counters.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Print completions of this command for a shell.
    Completions(CompletionsArguments),
    /// Print the manual page, or write those of all commands.
    Man(ManArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// List the rules of a server.
    List(ListRulesArguments),
    /// Show one rule of a server.
    Get(GetRuleArguments),
    /// Change the policy of a server to that of policy files.
    Apply(ApplyArguments),
    /// Show what `apply` would change, or what differs between two revisions.
    Diff(DiffArguments),
    /// Show what the rules in files would have done to the recent requests of a server.
    Preview(PreviewArguments),
    /// Print the policy of a server, as a file that `apply` takes.
    Export(ExportArguments),
    /// List who changed the rules of a server, when, and what.
    History(HistoryArguments),
    /// Write the policy of a server as it was at a revision.
    Show(ShowArguments),
    /// Bring the rules of a server back to a revision.
    Rollback(RollbackArguments),
    /// Remove rules of a server.
    Delete(DeleteRulesArguments),
    /// Report what is wrong or doubtful in policies and in files of envoyproxy/ratelimit.
    Lint(LintArguments),
    /// Make a policy of the files of another rate limiter.
    Import(ImportArguments),
    /// Print the JSON schema of the policy document.
    #[command(after_help = "The exit code is 0.")]
    Schema,
}

/// Where a server is, and how to talk to it.
#[derive(Args, Debug)]
pub(crate) struct ServerArguments {
    /// The server to call.
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: String,

    /// The token that the server requires. Without one, that of `TOLLGATE_ADMIN_TOKEN` is sent; `check`
    /// sends that of `TOLLGATE_CHECK_TOKEN`, if there is one.
    #[arg(long, value_name = "TOKEN", env = "TOLLGATE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<Secret>,

    /// A file with the token.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Trust servers with a certificate of these authorities, in PEM format, instead of those that
    /// the system trusts.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// How long to wait for a response: 500ms, 10s.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time)]
    pub(crate) timeout: Duration,

    /// Print the response of the server as it came.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is known about a request.
#[derive(Args, Debug)]
pub(crate) struct RequestArguments {
    /// The authenticated user.
    #[arg(long, value_name = "USER")]
    pub(crate) user_id: Option<String>,

    /// The API key.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<Secret>,

    /// The address of the client.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Option<String>,

    /// The tenant the request belongs to.
    #[arg(long)]
    pub(crate) tenant: Option<String>,

    /// The path of the request.
    #[arg(long, value_name = "PATH")]
    pub(crate) endpoint: Option<String>,

    /// The HTTP method.
    #[arg(long)]
    pub(crate) method: Option<String>,

    /// The host of the request.
    #[arg(long)]
    pub(crate) host: Option<String>,

    /// The tier of the client, unless the server knows better.
    #[arg(long)]
    pub(crate) tier: Option<String>,

    /// Anything else that rules look at; may be repeated. Headers and claims are header:NAME and
    /// claim:NAME.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = parse_attribute)]
    pub(crate) attributes: Vec<(String, String)>,

    /// What the request costs before rules multiply it [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_cost)]
    pub(crate) cost: Option<u64>,
}

/// What is checked: a request with all its rules, or one rule and key.
#[derive(Args, Debug)]
pub(crate) struct TargetArguments {
    #[command(flatten)]
    pub(crate) request: RequestArguments,

    /// Judge by this rule alone, whatever its conditions.
    #[arg(long, value_name = "RULE_ID")]
    pub(crate) rule: Option<String>,

    /// With --rule: what `KEY_VALUE` is: user, apikey, ip, tenant, endpoint, custom.
    #[arg(long, value_name = "TYPE", default_value = "user", requires = "key_value",
          value_parser = parse_key_type)]
    pub(crate) key_type: KeyType,

    /// With --rule: the value that the rule counts by.
    #[arg(value_name = "KEY_VALUE", requires = "rule")]
    pub(crate) key_value: Option<String>,
}

/// Arguments of `tollgate check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate check --user-id alice --method POST --endpoint /orders
  tollgate check --rule per_user alice
  tollgate check --rule per_address --key-type ip 192.0.2.7 --cost 5

This is by rules. Limits of Envoy's files are checked by POST /json; `tollgate rules list --envoy` \
lists them.

The exit code is 0 if the request is allowed, 1 if it is refused, 2 if there is no answer.")]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) target: TargetArguments,

    /// Peek at what is left without charging. Only a denied client is refused.
    #[arg(long, conflicts_with = "cost")]
    pub(crate) peek: bool,

    /// Charge only once, however often it is sent with the same key.
    #[arg(long, value_name = "KEY", conflicts_with = "peek")]
    pub(crate) idempotency_key: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate explain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate explain --user-id alice --method POST --endpoint /orders
  tollgate explain --decision d1f00dbee-a2a --token ADMIN_TOKEN

Limits of Envoy's files are not explained: `tollgate rules list --envoy` lists them, and POST /json \
checks by them.

A decision is explained to those who may see the rules. The exit code is 0 whatever the explanation \
says, 2 if there is no answer; `check` has one for refusals.")]
pub(crate) struct ExplainArguments {
    #[command(flatten)]
    pub(crate) request: RequestArguments,

    /// Explain a decision that was made, by the id in its response, instead of a request.
    #[arg(long, value_name = "ID", value_parser = parse_decision_id,
          conflicts_with = "RequestArguments")]
    pub(crate) decision: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate rules list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, or 2 if there is no answer.")]
pub(crate) struct ListRulesArguments {
    /// List the limits of files of envoyproxy/ratelimit (`serve --envoy-config`) instead, and how their last
    /// load ended.
    #[arg(long)]
    pub(crate) envoy: bool,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate rules get`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, or 2 if there is no such rule or no answer.")]
pub(crate) struct GetRuleArguments {
    /// The rule.
    #[arg(value_name = "RULE_ID")]
    pub(crate) rule_id: String,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// A time with its unit, or a number of seconds.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let time = if is_number { parse_window(&format!("{text}s")) } else { parse_window(text) };
    time.map(Duration::from).map_err(|_| "write it like 500ms, 5s or 1m".to_owned())
}

fn parse_cost(text: &str) -> Result<u64, String> {
    let cost = text.parse().ok().filter(|cost| *cost <= MAX_LIMIT);
    cost.ok_or_else(|| format!("write a whole number from 0 to {MAX_LIMIT}"))
}

fn parse_key_type(text: &str) -> Result<KeyType, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

fn parse_attribute(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like NAME=VALUE".to_owned()),
    }
}

/// The id of a decision, which tables may cut.
pub(crate) fn parse_decision_id(text: &str) -> Result<String, String> {
    match text.strip_suffix('…') {
        Some(_) => {
            Err("this id is cut: --wide and --json of `tollgate decisions list` print whole ids"
                .to_owned())
        }
        None if text.is_empty() => Err("write the id in the response to the check".to_owned()),
        None => Ok(text.to_owned()),
    }
}
