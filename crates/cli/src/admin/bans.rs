//! `tollgate bans`: which clients rules have banned, and how bans are lifted.

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::client_name::{named_by, with_query};
use super::entries::{given, list};
use super::resource::BANS;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::gitops::confirm;
use crate::output::print;
use crate::remote::client::Remote;
use crate::terminal::{count, printable};

#[derive(Debug, Subcommand)]
pub(crate) enum BansCommand {
    /// List the clients that rules have banned.
    List(ListBansArguments),
    /// Lift the ban of a client, or all bans by some rules.
    Lift(LiftBansArguments),
}

/// Arguments of `tollgate bans list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListBansArguments {
    /// Only bans by this rule.
    #[arg(long, value_name = "RULE_ID")]
    pub(super) rule: Option<String>,

    /// Only bans by rules of this tenant.
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate bans lift`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").args(["rule", "identifier_type", "tenant"]).multiple(true).required(true))]
#[command(after_help = "\
Examples:
  tollgate bans lift --rule login 203.0.113.9
  tollgate bans lift --rule login --yes
  tollgate bans lift --tenant acme --yes

Bans are lifted on all nodes of a catalog, and the refusals that led to them are forgotten. Nodes with \
`--rules FILE` keep separate bans: call each of them.

The exit code is 0, 1 if the server refuses or there is no such ban, 2 if there is no answer.")]
pub(crate) struct LiftBansArguments {
    /// The rule of the ban; without a client, all bans by it.
    #[arg(long, value_name = "RULE_ID")]
    pub(super) rule: Option<String>,

    /// All bans by rules that count by this: `user_id`, `ip`.
    #[arg(long, value_name = "TYPE", conflicts_with = "values")]
    pub(super) identifier_type: Option<String>,

    /// All bans by rules of this tenant.
    #[arg(long, value_name = "TENANT", conflicts_with = "values")]
    pub(super) tenant: Option<String>,

    /// The client: a value for each identifier of the rule, in their order.
    #[arg(value_name = "VALUE", requires = "rule")]
    pub(super) values: Vec<String>,

    /// Do not ask before all bans are lifted.
    #[arg(long)]
    pub(super) yes: bool,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// How many bans were lifted, where all by some rules are.
#[derive(Deserialize)]
struct Lifted {
    lifted: u64,
}

pub(crate) fn run(command: &BansCommand) -> Result<ExitCode, Failure> {
    match command {
        BansCommand::List(ListBansArguments { rule, tenant, server }) => {
            let parameters = given([("rule_id", rule.as_ref()), ("tenant", tenant.as_ref())]);
            list(&BANS, &parameters, usize::MAX, server)
        }
        BansCommand::Lift(arguments) => lift(arguments),
    }
}

fn lift(arguments: &LiftBansArguments) -> Result<ExitCode, Failure> {
    let LiftBansArguments { rule, identifier_type, tenant, values, yes, server } = arguments;
    let mut parameters = given([
        ("rule_id", rule.as_ref()),
        ("identifier_type", identifier_type.as_ref()),
        ("tenant", tenant.as_ref()),
    ]);
    parameters.extend(values.iter().map(|value| ("identifier", value.clone())));
    if values.is_empty() && !yes {
        if server.json {
            return Err(Failure::usage("--json asks no questions: say --yes with it"));
        }
        let which: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name} {}", printable(value))).collect();
        confirm(&format!("Lift all bans by rules with {}?", which.join(", ")))?;
    }
    let path = with_query(BANS.path, &parameters);
    let response = Remote::new(server)?.delete_for::<Lifted>(&path);
    let response = response.map_err(|error| with_advice(error.into(), values))?;
    let lifted = response.map_or(1, |response| response.value.lifted);
    print(&if server.json {
        json!({ "lifted": lifted }).to_string()
    } else {
        format!("{} lifted", count(lifted, "ban"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The failure, with what is wrong if a value has its type before it, as clients have elsewhere.
fn with_advice(failure: Failure, values: &[String]) -> Failure {
    let typed = values.iter().find_map(|value| Some((value, named_by(value).0?)));
    match (failure, typed) {
        (Failure::Refused(message), Some((value, kind))) => {
            let alone = value.trim_start_matches(kind).trim_start_matches('=');
            Failure::Refused(format!("{message}; give the value alone: {alone}"))
        }
        (failure, _) => failure,
    }
}
