//! `tollgate lists`: clients that are never limited, and clients that are always refused.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use super::client_name::{self, ClientPart, with_query};
use super::entries::{WriteMethod, given, remove, show, write};
use super::resource::{BLACKLIST, LIST, Resource, WHITELIST};
use super::times::EndArguments;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::Remote;
use crate::remote::list::FullList;

#[derive(Debug, Subcommand)]
pub(crate) enum ListsCommand {
    /// List the clients that are never limited, and those that are always refused.
    List(ListListsArguments),
    /// Show the entry of a client.
    Show(ListedArguments),
    /// Put a client on a list, or change its entry.
    Add(AddListedArguments),
    /// Take a client off a list.
    Remove(RemoveListedArguments),
}

/// One of the two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ListChoice {
    /// Clients that are never limited; also called allow.
    #[value(aliases = ["allow", "allow-list"])]
    Whitelist,
    /// Clients that are always refused; also called deny.
    #[value(aliases = ["deny", "deny-list"])]
    Blacklist,
}

/// Arguments of `tollgate lists list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListListsArguments {
    /// Only this list.
    #[arg(value_name = "LIST")]
    pub(super) list: Option<ListChoice>,

    /// Only entries with this type of identifier.
    #[arg(long, value_name = "TYPE")]
    pub(super) identifier_type: Option<String>,

    /// Only entries of this tenant.
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate lists show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate lists show blacklist user_id=mallory

The exit code is 0, 1 if the server refuses or the client is not on the list, 2 if there is no answer.")]
pub(crate) struct ListedArguments {
    /// The list.
    #[arg(value_name = "LIST")]
    pub(super) list: ListChoice,

    /// The client: `user_id=alice`, `ip=10.0.0.0/8`; several for one that is named by several at once.
    #[arg(value_name = "TYPE=VALUE", required = true, value_parser = ClientPart::parse)]
    pub(super) client: Vec<ClientPart>,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate lists add`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate lists add blacklist user_id=mallory --reason scraping --expires-in 7d
  tollgate lists add whitelist ip=10.0.0.0/8 --reason 'our own machines'
  tollgate lists add blacklist tenant=acme user_id=bob

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct AddListedArguments {
    #[command(flatten)]
    pub(super) listed: ListedArguments,

    /// Why.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,

    #[command(flatten)]
    pub(super) end: EndArguments,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Arguments of `tollgate lists remove`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or the client is not on the list, 2 if there is no answer.")]
pub(crate) struct RemoveListedArguments {
    #[command(flatten)]
    pub(super) listed: ListedArguments,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
}

impl ListChoice {
    const fn resource(self) -> &'static Resource {
        match self {
            Self::Whitelist => &WHITELIST,
            Self::Blacklist => &BLACKLIST,
        }
    }
}

pub(crate) fn run(command: &ListsCommand) -> Result<ExitCode, Failure> {
    match command {
        ListsCommand::List(arguments) => list(arguments),
        ListsCommand::Show(ListedArguments { list, client, server }) => {
            let resource = list.resource();
            let who = client_name::shown(client);
            let missing = format!("{who} is not on the {}", resource.list);
            show(resource, &client_name::query(client), &missing, server)
        }
        ListsCommand::Add(AddListedArguments { listed, reason, end, dry_run }) => {
            let ListedArguments { list, client, server } = listed;
            let (resource, who, end) = (list.resource(), client_name::shown(client), end.end());
            let mut body = client_name::fields(client);
            for (name, value) in [("reason", reason.as_ref()), ("expires_at", end.as_ref())] {
                if let Some(value) = value {
                    body[name] = value.as_str().into();
                }
            }
            let until = end.map_or_else(String::new, |end| format!(" until {end}"));
            let done = format!("{who} is on the {}{until}", resource.list);
            write(WriteMethod::Post, resource.path, &body, *dry_run, &done, server)
        }
        ListsCommand::Remove(RemoveListedArguments { listed, dry_run }) => {
            let ListedArguments { list, client, server } = listed;
            let resource = list.resource();
            let done = format!("{} is off the {}", client_name::shown(client), resource.list);
            remove(resource.path, client_name::query(client), *dry_run, &done, server)
        }
    }
}

/// Prints one list, or both.
fn list(arguments: &ListListsArguments) -> Result<ExitCode, Failure> {
    let ListListsArguments { list, identifier_type, tenant, server } = arguments;
    let parameters =
        given([("identifier_type", identifier_type.as_ref()), ("tenant", tenant.as_ref())]);
    let remote = Remote::new(server)?;
    let (mut texts, mut entries) = (Vec::new(), Vec::new());
    for choice in
        ListChoice::value_variants().iter().filter(|it| list.is_none_or(|only| only == **it))
    {
        let resource = choice.resource();
        let found =
            FullList::read(&remote, &with_query(resource.path, &parameters), resource.list)?;
        texts.push(found.fields_text());
        for mut entry in found.rows::<Value>()? {
            entry[LIST] = resource.list.into();
            entries.push(entry);
        }
    }
    let text = format!("{{{}}}", texts.join(","));
    if entries.is_empty() && !server.json {
        let of_what = list.map_or("a list", |list| match list {
            ListChoice::Whitelist => "the whitelist",
            ListChoice::Blacklist => "the blacklist",
        });
        let filter = if parameters.is_empty() { "" } else { " that fits" };
        print(&format!("no client{filter} is on {of_what}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&if server.json { text } else { WHITELIST.render(&entries) })?;
    Ok(ExitCode::SUCCESS)
}
