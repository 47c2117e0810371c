//! What all lists of the admin API have in common: to list, show, write and remove entries.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::client_name::with_query;
use super::resource::Resource;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::gitops::ChangePlan;
use crate::output::{Paint, print};
use crate::remote::client::{Fetched, Remote};
use crate::remote::fields::RawFields;
use crate::remote::list::FullList;
use crate::terminal::printable_json;

/// The parameters of a query that were given.
pub(super) fn given<'a, const N: usize>(
    parameters: [(&'a str, Option<&String>); N],
) -> Vec<(&'a str, String)> {
    parameters.into_iter().filter_map(|(name, value)| Some((name, value?.clone()))).collect()
}

/// Prints up to `max` entries, one a line.
pub(super) fn list(
    resource: &Resource,
    parameters: &[(&str, String)],
    max: usize,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    let path = with_query(resource.path, parameters);
    let list = FullList::read_up_to(&Remote::new(server)?, &path, resource.list, max)?;
    print(&if server.json { list.text() } else { resource.render(&list.rows::<Value>()?) })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a list that the server sends as one page.
pub(super) fn list_whole(
    resource: &Resource,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    let list = FullList::read_whole(&Remote::new(server)?, resource.path, resource.list)?;
    print(&if server.json { list.text() } else { resource.render(&list.rows::<Value>()?) })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the entry that a query names, one field a line. `missing` says that there is none.
pub(super) fn show(
    resource: &Resource,
    query: &[(&'static str, String)],
    missing: &str,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    let mut parameters = query.to_vec();
    parameters.push(("detail", "true".to_owned()));
    let path = with_query(resource.path, &parameters);
    let list = FullList::read(&Remote::new(server)?, &path, resource.list)?;
    let Some((entry, fields)) = list.first::<RawFields>()? else {
        return Err(Failure::refused(missing));
    };
    print(&if server.json { printable_json(entry) } else { fields.render() })?;
    Ok(ExitCode::SUCCESS)
}

/// How an entry is written.
#[derive(Clone, Copy)]
pub(super) enum WriteMethod {
    Post,
    Put,
}

/// Writes an entry, and prints `done`; or what would change.
pub(super) fn write(
    method: WriteMethod,
    path: &str,
    body: &Value,
    is_dry_run: bool,
    done: &str,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    let remote = Remote::new(server)?;
    let send = |path: &str| match method {
        WriteMethod::Post => remote.post::<Value>(path, body),
        WriteMethod::Put => remote.put::<Value>(path, body.to_string(), None),
    };
    if is_dry_run {
        let plan = send(&with_query(path, &[("dry_run", "true".to_owned())]))?;
        return print_plan(plan, server);
    }
    let response = send(path)?;
    print(if server.json { &response.text } else { done })?;
    Ok(ExitCode::SUCCESS)
}

/// Removes an entry, and prints `done`; or what would change.
pub(super) fn remove(
    path: &str,
    mut parameters: Vec<(&'static str, String)>,
    is_dry_run: bool,
    done: &str,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    let remote = Remote::new(server)?;
    if is_dry_run {
        parameters.push(("dry_run", "true".to_owned()));
        let plan = remote.delete_for::<Value>(&with_query(path, &parameters))?;
        return match plan {
            Some(plan) => print_plan(plan, server),
            None => Err(Failure::usage("the server does not say what would change")),
        };
    }
    remote.delete(&with_query(path, &parameters), None)?;
    print(&if server.json { json!({ "removed": true }).to_string() } else { done.to_owned() })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what would change.
pub(super) fn print_plan(
    plan: Fetched<Value>,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    if server.json {
        print(&plan.text)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&ChangePlan::read(plan.value)?.render(Paint::of_output()))?;
    Ok(ExitCode::SUCCESS)
}
