//! What can be typed after `tollgate tokens`.

use clap::{Args, Subcommand};
use tollgate::Micros;
use tollgate::rules::parse_window;
use tollgate_catalog::Role;

use crate::admin::parse_end;
use crate::arguments::ServerArguments;

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// List the tokens of a server, without their secrets.
    List(ListTokensArguments),
    /// Make a token, which is shown once.
    Create(CreateTokenArguments),
    /// Revoke a token: the next call with it is refused.
    Revoke(RevokeTokenArguments),
}

/// Arguments of `tollgate tokens list`.
#[derive(Args, Debug)]
#[command(after_help = "The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListTokensArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate tokens create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate tokens create --role viewer --name dashboard --expires-in 30d
  tollgate tokens create --role tenant-admin --tenant acme > acme.token
  tollgate tokens create --role admin --catalog sqlite:tollgate.db

Standard output gets the token and nothing else. With --catalog no server is called, so that a new \
token can be made after all are lost. The exit code is 0, 1 if the server or the catalog refuses, 2 if \
there is no answer.")]
pub(crate) struct CreateTokenArguments {
    /// What its holder may do: admin, operator, viewer, caller, tenant-admin.
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    pub(crate) role: Role,

    /// The tenant of a tenant-admin.
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,

    /// What it is for.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// When it ends: 2030-12-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_end, conflicts_with = "expires_in")]
    pub(crate) expires_at: Option<String>,

    /// How long it lasts: 12h, 30d.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) expires_in: Option<Micros>,

    /// Write it into this catalog, without a server: sqlite:FILE or the URL of a PostgreSQL.
    // A text here: what cannot be parsed would be repeated, and it may hold a password.
    #[arg(long, value_name = "URL")]
    pub(crate) catalog: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate tokens revoke`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or there is no such token, 2 if there is no answer.")]
pub(crate) struct RevokeTokenArguments {
    /// The token, by its id: the list shows it, and a token has it in its middle.
    #[arg(value_name = "TOKEN_ID")]
    pub(crate) token_id: String,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

fn parse_role(text: &str) -> Result<Role, String> {
    let roles = || Role::ALL.map(Role::name).join(", ");
    Role::from_name(text).ok_or_else(|| format!("there are the roles {}", roles()))
}

fn parse_span(text: &str) -> Result<Micros, String> {
    parse_window(text).map_err(|_| "write it like 12h or 30d, 366d at most".to_owned())
}
