//! `tollgate clients`: which clients were put into tiers.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::client_name::{self, ClientPart};
use super::entries::{WriteMethod, given, list, remove, show, write};
use super::resource::CLIENTS;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::terminal::printable;

#[derive(Debug, Subcommand)]
pub(crate) enum ClientsCommand {
    /// List the clients that were put into tiers.
    List(ListClientsArguments),
    /// Show the entry of a client.
    Show(ClientArguments),
    /// Put a client into a tier.
    Add(AddClientArguments),
    /// Take a client out of its tier.
    Remove(RemoveClientArguments),
}

/// Arguments of `tollgate clients list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListClientsArguments {
    /// Only clients in this tier.
    #[arg(long, value_name = "TIER")]
    pub(super) tier: Option<String>,

    /// Only clients that are named by this type of identifier.
    #[arg(long, value_name = "TYPE")]
    pub(super) identifier_type: Option<String>,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate clients show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate clients show tenant=acme

The exit code is 0, 1 if the server refuses or the client was put into no tier, 2 if there is no answer.")]
pub(crate) struct ClientArguments {
    /// The client: `user_id=alice`, `tenant=acme`; several for one that is named by several at once.
    #[arg(value_name = "TYPE=VALUE", required = true, value_parser = ClientPart::parse)]
    pub(super) client: Vec<ClientPart>,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate clients add`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate clients add tenant=acme --tier pro

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct AddClientArguments {
    #[command(flatten)]
    pub(super) client: ClientArguments,

    /// The tier.
    #[arg(long, value_name = "TIER")]
    pub(super) tier: String,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `tollgate clients remove`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or the client was put into no tier, 2 if there is no answer.")]
pub(crate) struct RemoveClientArguments {
    #[command(flatten)]
    pub(super) client: ClientArguments,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

pub(crate) fn run(command: &ClientsCommand) -> Result<ExitCode, Failure> {
    match command {
        ClientsCommand::List(ListClientsArguments { tier, identifier_type, server }) => {
            let parameters =
                given([("tier", tier.as_ref()), ("identifier_type", identifier_type.as_ref())]);
            list(&CLIENTS, &parameters, usize::MAX, server)
        }
        ClientsCommand::Show(ClientArguments { client, server }) => {
            let missing = format!("{} was put into no tier", client_name::shown(client));
            show(&CLIENTS, &client_name::query(client), &missing, server)
        }
        ClientsCommand::Add(AddClientArguments { client, tier, dry_run }) => {
            let ClientArguments { client, server } = client;
            let mut body = client_name::fields(client);
            body["tier"] = tier.as_str().into();
            let done = format!("{} is in the tier {}", client_name::shown(client), printable(tier));
            write(WriteMethod::Put, CLIENTS.path, &body, *dry_run, &done, server)
        }
        ClientsCommand::Remove(RemoveClientArguments { client, dry_run }) => {
            let ClientArguments { client, server } = client;
            let done = format!("{} is out of its tier", client_name::shown(client));
            remove(CLIENTS.path, client_name::query(client), *dry_run, &done, server)
        }
    }
}
