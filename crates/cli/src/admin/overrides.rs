//! `tollgate overrides`: exceptions from rules, of clients with any identifiers.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::client_name::{self, ClientPart};
use super::entries::{WriteMethod, given, list, remove, show, write};
use super::exception::{self, ExceptionArguments};
use super::resource::OVERRIDES;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::terminal::printable;

#[derive(Debug, Subcommand)]
pub(crate) enum OverridesCommand {
    /// List exceptions from rules.
    List(ListOverridesArguments),
    /// Show the exception of a client from a rule.
    Show(OverrideArguments),
    /// Make an exception from a rule for a client, or change it.
    Set(SetOverrideArguments),
    /// Remove an exception from a rule.
    Remove(RemoveOverrideArguments),
}

/// Arguments of `tollgate overrides list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate overrides list --rule search
  tollgate overrides list tenant=acme

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListOverridesArguments {
    /// Only those of this client: `user_id=alice`, `tenant=acme`.
    #[arg(value_name = "TYPE=VALUE", value_parser = ClientPart::parse)]
    client: Vec<ClientPart>,

    /// Only exceptions from this rule.
    #[arg(long, value_name = "RULE_ID")]
    rule: Option<String>,

    /// Only those of clients that are named by this type of identifier.
    #[arg(long, value_name = "TYPE", conflicts_with = "client")]
    identifier_type: Option<String>,

    /// Only exceptions from rules of this tenant.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,

    #[command(flatten)]
    server: ServerArguments,
}

/// A client, and the server that knows it.
#[derive(Args, Debug)]
pub(super) struct ExceptedClient {
    /// The client: `user_id=alice`, `tenant=acme`; several for one that is named by several at once.
    #[arg(value_name = "TYPE=VALUE", required = true, value_parser = ClientPart::parse)]
    client: Vec<ClientPart>,

    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate overrides show`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or there is no such exception, 2 if there is no answer.")]
pub(crate) struct OverrideArguments {
    #[command(flatten)]
    client: ExceptedClient,

    /// The rule it is an exception from.
    #[arg(long, value_name = "RULE_ID")]
    rule: String,
}

/// Arguments of `tollgate overrides set`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate overrides set tenant=acme --rule search --multiplier 2 --expires-in 7d
  tollgate overrides set ip=192.0.2.7 --rule per_address --limit 5000 --window 1h

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct SetOverrideArguments {
    #[command(flatten)]
    client: ExceptedClient,

    #[command(flatten)]
    exception: ExceptionArguments,
}

/// Arguments of `tollgate overrides remove`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or there is no such exception, 2 if there is no answer.")]
pub(crate) struct RemoveOverrideArguments {
    #[command(flatten)]
    exception: OverrideArguments,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(command: &OverridesCommand) -> Result<ExitCode, Failure> {
    match command {
        OverridesCommand::List(arguments) => {
            let ListOverridesArguments { client, rule, identifier_type, tenant, server } =
                arguments;
            let mut parameters = client_name::query(client);
            parameters.extend(given([
                ("rule_id", rule.as_ref()),
                ("identifier_type", identifier_type.as_ref()),
                ("tenant", tenant.as_ref()),
            ]));
            list(&OVERRIDES, &parameters, usize::MAX, server)
        }
        OverridesCommand::Show(OverrideArguments { client, rule }) => {
            let ExceptedClient { client, server } = client;
            let who = client_name::shown(client);
            let missing = format!("{who} has no exception from {}", printable(rule));
            show(&OVERRIDES, &of_client(client, rule), &missing, server)
        }
        OverridesCommand::Set(SetOverrideArguments { client, exception }) => {
            let ExceptedClient { client, server } = client;
            let who = client_name::shown(client);
            let (body, done) = exception.document(client_name::fields(client), &who);
            write(WriteMethod::Put, OVERRIDES.path, &body, exception.dry_run, &done, server)
        }
        OverridesCommand::Remove(RemoveOverrideArguments { exception, dry_run }) => {
            let OverrideArguments { client, rule } = exception;
            let ExceptedClient { client, server } = client;
            let done = exception::removed(&client_name::shown(client), rule);
            remove(OVERRIDES.path, of_client(client, rule), *dry_run, &done, server)
        }
    }
}

/// The parameters of a query that name the exception of a client from a rule.
fn of_client(client: &[ClientPart], rule: &str) -> Vec<(&'static str, String)> {
    let mut parameters = client_name::query(client);
    parameters.push(("rule_id", rule.to_owned()));
    parameters
}
