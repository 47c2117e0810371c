//! `tollgate nodes`: which nodes a fleet has, and how they are.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::resource::NODES;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::Remote;
use crate::remote::list::FullList;
use crate::terminal::printable;

/// Arguments of `tollgate nodes`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct NodesArguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Prints the nodes, one a line.
pub(crate) fn nodes(arguments: &NodesArguments) -> Result<ExitCode, Failure> {
    let server = &arguments.server;
    let list = FullList::read_whole(&Remote::new(server)?, NODES.path, NODES.list)?;
    if server.json {
        print(&list.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let since = list.field::<String>("others_unreachable_since")?;
    let alone = since.map(|since| {
        format!(
            "other nodes cannot be reached since {}: this is what was known of them\n",
            printable(&since)
        )
    });
    let shown = NODES.render_filled(&list.rows::<Value>()?);
    print(&format!("{}{shown}", alone.unwrap_or_default()))?;
    Ok(ExitCode::SUCCESS)
}
