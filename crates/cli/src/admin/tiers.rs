//! `tollgate tiers`: the tiers that clients can be in.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::client_name::with_query;
use super::entries::{list_whole, print_plan};
use super::resource::TIERS;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::gitops::{ChangePlan, confirm};
use crate::output::{Paint, print};
use crate::remote::call_error::CallError;
use crate::remote::client::{Fetched, Remote};
use crate::terminal::printable;

/// The whole policy, which has a revision; tiers alone have none.
const POLICY: &str = "/api/v1/policy";

/// How often a change is retried when others change the policy meanwhile.
const MAX_ATTEMPTS: usize = 5;

#[derive(Debug, Subcommand)]
pub(crate) enum TiersCommand {
    /// List the tiers.
    List(ListTiersArguments),
    /// Make these the only tiers.
    Set(SetTiersArguments),
    /// Add a tier to the others, or make it the default.
    Add(AddTierArguments),
    /// Remove a tier. Those that clients, API keys or rules use stay.
    Remove(RemoveTierArguments),
}

/// Arguments of `tollgate tiers list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListTiersArguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate tiers set`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate tiers set free pro enterprise --default free

Tiers that are not named are removed, after a confirmation. The exit code is 0, 1 if the server refuses, 2 if \
there is no answer.")]
pub(crate) struct SetTiersArguments {
    /// The tiers.
    #[arg(value_name = "TIER", required = true)]
    tiers: Vec<String>,

    /// The one of them for clients in no other.
    #[arg(long, value_name = "TIER")]
    default: Option<String>,

    /// Do not ask before tiers are removed.
    #[arg(long)]
    yes: bool,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate tiers add`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate tiers add pro
  tollgate tiers add free --default

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct AddTierArguments {
    /// The tier.
    #[arg(value_name = "TIER")]
    tier: String,

    /// Clients in no other tier are in this one.
    #[arg(long)]
    default: bool,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// Arguments of `tollgate tiers remove`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or there is no such tier, 2 if there is no answer.")]
pub(crate) struct RemoveTierArguments {
    /// The tier.
    #[arg(value_name = "TIER")]
    tier: String,

    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArguments,
}

/// A tier of the policy.
#[derive(Deserialize, Serialize)]
struct TierEntry {
    tier: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    default: bool,
}

#[derive(Deserialize)]
struct TierList {
    tiers: Vec<TierEntry>,
}

pub(crate) fn run(command: &TiersCommand) -> Result<ExitCode, Failure> {
    match command {
        TiersCommand::List(ListTiersArguments { server }) => list_whole(&TIERS, server),
        TiersCommand::Set(arguments) => set(arguments),
        TiersCommand::Add(AddTierArguments { tier, default, dry_run, server }) => {
            let is_default = if *default { ", the default" } else { "" };
            let done = format!("{} is a tier{is_default}", printable(tier));
            change(server, *dry_run, &done, |tiers| {
                if *default {
                    tiers.iter_mut().for_each(|it| it.default = false);
                }
                match tiers.iter_mut().find(|it| it.tier == *tier) {
                    Some(known) => known.default |= default,
                    None => tiers.push(TierEntry { tier: tier.clone(), default: *default }),
                }
                Ok(())
            })
        }
        TiersCommand::Remove(RemoveTierArguments { tier, dry_run, server }) => {
            let done = format!("{} is no tier any more", printable(tier));
            change(server, *dry_run, &done, |tiers| {
                let before = tiers.len();
                tiers.retain(|it| it.tier != *tier);
                let is_known = tiers.len() < before;
                let unknown =
                    || Failure::refused(format!("there is no tier `{}`", printable(tier)));
                is_known.then_some(()).ok_or_else(unknown)
            })
        }
    }
}

/// Replaces all tiers, after a question if some would go.
fn set(arguments: &SetTiersArguments) -> Result<ExitCode, Failure> {
    let SetTiersArguments { tiers, default, yes, dry_run, server } = arguments;
    if let Some(default) = default.as_ref().filter(|default| !tiers.contains(default)) {
        let default = printable(default);
        return Err(Failure::usage(format!(
            "--default {default} is not among the tiers: name it, too"
        )));
    }
    let entry = |tier: &String| TierEntry {
        tier: tier.clone(),
        default: default.as_ref().is_some_and(|default| default == tier),
    };
    let body = json!({ "tiers": tiers.iter().map(entry).collect::<Vec<_>>() }).to_string();
    let remote = Remote::new(server)?;
    let send = |path: &str| remote.put::<Value>(path, body.clone(), None);
    if *dry_run || !yes {
        let plan = send(&with_query(TIERS.path, &[("dry_run", "true".to_owned())]))?;
        if *dry_run {
            return print_plan(plan, server);
        }
        confirm_removals(plan, server)?;
    }
    let response = send(TIERS.path)?;
    let names: Vec<String> = tiers.iter().map(|tier| printable(tier)).collect();
    let default = default.as_ref().map(|tier| format!("; {} is the default", printable(tier)));
    let done = format!("the tiers are {}{}", names.join(", "), default.unwrap_or_default());
    print(if server.json { &response.text } else { &done })?;
    Ok(ExitCode::SUCCESS)
}

/// Asks, if a plan removes tiers.
fn confirm_removals(plan: Fetched<Value>, server: &ServerArguments) -> Result<(), Failure> {
    let plan = ChangePlan::read(plan.value)?;
    if !plan.is_removing() {
        return Ok(());
    }
    if server.json {
        let advice =
            "--json asks no questions, and tiers would be removed: say --yes or --dry-run with it";
        return Err(Failure::usage(advice));
    }
    print(&plan.render(Paint::of_output()))?;
    confirm("Apply?")
}

/// Changes the list of tiers: reads it at a revision of the policy, and writes it if that is still the revision.
fn change(
    server: &ServerArguments,
    is_dry_run: bool,
    done: &str,
    edit: impl Fn(&mut Vec<TierEntry>) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let remote = Remote::new(server)?;
    let dry_run = ("dry_run", "true".to_owned());
    for _ in 0..MAX_ATTEMPTS {
        // A document without any list changes nothing, and the response has the revision.
        let revision = with_query(POLICY, std::slice::from_ref(&dry_run));
        let etag = remote.put::<Value>(&revision, "{}".to_owned(), None)?.etag;
        // With details the list is read from the catalog; else from what is in force, which may be a moment older.
        let path = with_query(TIERS.path, &[("detail", "true".to_owned())]);
        let mut tiers = remote.get::<TierList>(&path)?.value.tiers;
        edit(&mut tiers)?;
        let mut parameters = vec![("prune", "tiers".to_owned())];
        parameters.extend(is_dry_run.then(|| dry_run.clone()));
        let body = json!({ "tiers": tiers }).to_string();
        match remote.put::<Value>(&with_query(POLICY, &parameters), body, etag.as_deref()) {
            Ok(plan) if is_dry_run => return print_plan(plan, server),
            Ok(response) => {
                print(if server.json { &response.text } else { done })?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(CallError::Refused(refusal))
                if refusal.status == StatusCode::PRECONDITION_FAILED => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::refused(
        "the policy is being changed all the time; nothing was changed. Run it again.",
    ))
}
