//! `tollgate keys`: the API keys that identify clients.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::identity::Secret;

use super::client_name::with_query;
use super::entries::{given, list, print_plan, remove};
use super::resource::API_KEYS;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::gitops::confirm;
use crate::output::print;
use crate::remote::client::{Remote, segment};
use crate::terminal::printable;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List the API keys of a server, without their secrets.
    List(ListKeysArguments),
    /// Make an API key, which is shown once, or register one that clients have already.
    Create(CreateKeyArguments),
    /// Delete an API key: it identifies no client any more.
    Delete(DeleteKeyArguments),
}

/// Arguments of `tollgate keys list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListKeysArguments {
    /// Only keys in this tier.
    #[arg(long, value_name = "TIER")]
    tier: Option<String>,

    /// Only keys of this tenant.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,

    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate keys create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate keys create --owner alice --tier pro --name import > import.key
  tollgate keys create --owner alice --key-file known.key

Standard output gets the new key and nothing else. A key that clients have already is read from a file, so that \
it is in no list of processes; it is not shown again.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct CreateKeyArguments {
    /// The user it belongs to.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,

    /// The tier of its requests.
    #[arg(long, value_name = "TIER")]
    tier: Option<String>,

    /// The tenant it belongs to.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,

    /// What it is for.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Register the key in this file, which clients have already; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate keys delete`.
#[derive(Args, Debug)]
#[command(after_help = "\
A deleted key cannot be restored. The exit code is 0, 1 if the server refuses or there is no such key, 2 if there \
is no answer.")]
pub(crate) struct DeleteKeyArguments {
    /// The key, by its id: the list shows it.
    #[arg(value_name = "KEY_ID")]
    key_id: String,

    /// Do not ask before it is deleted.
    #[arg(long)]
    yes: bool,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// A new key. One that was known before is not in the response.
#[derive(Deserialize)]
struct KeyResponse {
    key_id: String,
    key: Option<String>,
}

pub(crate) fn run(command: &KeysCommand) -> Result<ExitCode, Failure> {
    match command {
        KeysCommand::List(ListKeysArguments { tier, tenant, server }) => {
            let parameters = given([("tier", tier.as_ref()), ("tenant", tenant.as_ref())]);
            list(&API_KEYS, &parameters, usize::MAX, server)
        }
        KeysCommand::Create(arguments) => create(arguments),
        KeysCommand::Delete(arguments) => delete(arguments),
    }
}

fn create(arguments: &CreateKeyArguments) -> Result<ExitCode, Failure> {
    let CreateKeyArguments { owner, tier, tenant, name, key_file, dry_run, server } = arguments;
    let known = key_file.as_deref().map(read_key).transpose()?;
    let mut body = json!({});
    for (field, value) in [("owner", owner), ("tier", tier), ("tenant", tenant), ("name", name)] {
        if let Some(value) = value {
            body[field] = value.as_str().into();
        }
    }
    if let Some(known) = &known {
        body["key"] = known.expose().into();
    }
    let remote = Remote::new(server)?;
    if *dry_run {
        let path = with_query(API_KEYS.path, &[("dry_run", "true".to_owned())]);
        return print_plan(remote.post::<Value>(&path, &body)?, server);
    }
    let response = remote.post::<KeyResponse>(API_KEYS.path, &body)?;
    if server.json {
        print(&response.text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let KeyResponse { key_id, key } = response.value;
    let id = printable(&key_id);
    let Some(key) = key else {
        print(&format!("API key {id} was registered"))?;
        return Ok(ExitCode::SUCCESS);
    };
    print(&key)?;
    let of = owner.as_ref().map(|owner| format!(" of {}", printable(owner))).unwrap_or_default();
    eprintln!("API key {id}{of}");
    eprintln!("(keep it: it is shown this once, and only its digest is kept)");
    Ok(ExitCode::SUCCESS)
}

/// A key that clients have already. What is in the file is in no message.
fn read_key(file: &Path) -> Result<Secret, Failure> {
    let unusable =
        |why: &str| Failure::usage(format!("cannot use --key-file {}: {why}", file.display()));
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().read_to_string(&mut text).map(drop)
    } else {
        fs::read_to_string(file).map(|read| text = read)
    };
    read.map_err(|error| unusable(&error.to_string()))?;
    let key = text.trim();
    if key.is_empty() { Err(unusable("it is empty")) } else { Ok(key.to_owned().into()) }
}

fn delete(arguments: &DeleteKeyArguments) -> Result<ExitCode, Failure> {
    let DeleteKeyArguments { key_id, yes, dry_run, server } = arguments;
    let id = printable(key_id);
    if !yes && !dry_run {
        if server.json {
            let advice = "--json asks no questions: say --yes or --dry-run with it";
            return Err(Failure::usage(advice));
        }
        confirm(&format!("Delete the API key {id}?"))?;
    }
    let path = format!("{}/{}", API_KEYS.path, segment(key_id));
    remove(&path, Vec::new(), *dry_run, &format!("deleted {id}"), server)
}
