//! `tollgate tokens`: who may call a server, and with which role.

mod arguments;
mod create;

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;

pub(crate) use arguments::TokensCommand;
use arguments::{ListTokensArguments, RevokeTokenArguments};

use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::{Remote, segment};
use crate::remote::list::FullList;
use crate::table::{Column, table};
use crate::terminal::{count, printable};

const TOKENS: &str = "/api/v1/tokens";

/// A token in a line.
#[derive(Deserialize)]
struct TokenRow {
    token_id: String,
    role: String,
    tenant: Option<String>,
    name: Option<String>,
    expires_at: Option<String>,
    last_used: Option<String>,
}

pub(crate) fn run(command: &TokensCommand) -> Result<ExitCode, Failure> {
    match command {
        TokensCommand::List(arguments) => list(arguments)?,
        TokensCommand::Create(arguments) => create::create(arguments)?,
        TokensCommand::Revoke(arguments) => revoke(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(arguments: &ListTokensArguments) -> Result<(), Failure> {
    let list = FullList::read(&Remote::new(&arguments.server)?, TOKENS, "tokens")?;
    print(&if arguments.server.json { list.text() } else { render(list.rows()?) })
}

fn revoke(arguments: &RevokeTokenArguments) -> Result<(), Failure> {
    let RevokeTokenArguments { token_id, server } = arguments;
    Remote::new(server)?.delete(&format!("{TOKENS}/{}", segment(token_id)), None)?;
    if server.json {
        print(&json!({ "revoked": token_id }).to_string())
    } else {
        print(&format!("revoked {}", printable(token_id)))
    }
}

fn render(tokens: Vec<TokenRow>) -> String {
    let columns = [
        Column::Text("token"),
        Column::Text("role"),
        Column::Text("tenant"),
        Column::Text("name"),
        Column::Text("ends"),
        Column::Text("last used"),
    ];
    let summary = format!("{}\n", count(tokens.len() as u64, "token"));
    let row = |token: TokenRow| {
        let TokenRow { token_id, role, tenant, name, expires_at, last_used } = token;
        let ends = expires_at.unwrap_or_else(|| "never".to_owned());
        let last_used = last_used.unwrap_or_else(|| "never".to_owned());
        [token_id, role, tenant.unwrap_or_default(), name.unwrap_or_default(), ends, last_used]
    };
    let rows: Vec<_> = tokens.into_iter().map(row).collect();
    if rows.is_empty() { summary } else { format!("{}\n{summary}", table(columns, &rows)) }
}
