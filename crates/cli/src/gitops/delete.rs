//! `tollgate rules delete`: rules that are to go, as whoever asked has seen them.

use std::process::ExitCode;

use serde_json::json;
use serde_json::value::RawValue;

use super::arguments::DeleteRulesArguments;
use super::confirm::confirm;
use crate::failure::Failure;
use crate::remote::address::segment;
use crate::remote::client::Client;
use crate::remote::layout::{print, printable};
use crate::terminal::count;

/// Looks whether all rules are there, asks, and removes them one by one.
pub(crate) fn delete(arguments: &DeleteRulesArguments) -> Result<ExitCode, Failure> {
    let json = arguments.server.json;
    if json && !arguments.yes {
        return Err(Failure::usage("--json asks no questions: say --yes with it"));
    }
    let client = Client::new(&arguments.server)?;
    let mut rules = Vec::new();
    for id in &arguments.rule_ids {
        let path = format!("/api/v1/rules/{}", segment(id));
        let tag = client.get::<Box<RawValue>>(&path)?.tag;
        rules.push((id, path, tag));
    }
    if !arguments.yes {
        let names: Vec<String> = arguments.rule_ids.iter().map(|id| printable(id)).collect();
        let rules = count(names.len() as u64, "rule");
        confirm(&format!("Delete {rules} ({})?", names.join(", ")))?;
    }
    for (id, path, tag) in rules {
        client.delete(&path, tag.map(|tag| ("if-match", tag)))?;
        if !json {
            print(&format!("deleted {}", printable(id)))?;
        }
    }
    if json {
        print(&json!({ "deleted": arguments.rule_ids }).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
