//! `tollgate rules delete`: removes rules in the version that was shown.

use std::process::ExitCode;

use serde_json::json;
use serde_json::value::RawValue;

use super::arguments::DeleteRulesArguments;
use super::confirm::confirm;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::call_error::CallError;
use crate::remote::client::{Remote, segment};
use crate::terminal::{count, printable};

/// Fetches all rules, asks for confirmation, and removes them one by one.
pub(crate) fn delete(arguments: &DeleteRulesArguments) -> Result<ExitCode, Failure> {
    let json = arguments.server.json;
    if json && !arguments.yes {
        return Err(Failure::usage("--json asks no questions: say --yes with it"));
    }
    let remote = Remote::new(&arguments.server)?;
    let mut rules = Vec::new();
    for id in &arguments.rule_ids {
        let path = format!("/api/v1/rules/{}", segment(id));
        let rule = remote.get::<Box<RawValue>>(&path).map_err(CallError::or_unknown)?;
        let etag = rule.etag;
        rules.push((id, path, etag));
    }
    if !arguments.yes {
        let names: Vec<String> = arguments.rule_ids.iter().map(|id| printable(id)).collect();
        let rules = count(names.len() as u64, "rule");
        confirm(&format!("Delete {rules} ({})?", names.join(", ")))?;
    }
    for (id, path, etag) in rules {
        remote.delete(&path, etag.as_deref())?;
        if !json {
            print(&format!("deleted {}", printable(id)))?;
        }
    }
    if json {
        print(&json!({ "deleted": arguments.rule_ids }).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
