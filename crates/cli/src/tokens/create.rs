//! `tollgate tokens create`: by a server, or straight into a catalog for users without a token.

use serde::{Deserialize, Serialize};
use tollgate::rules::{format_time, parse_time};
use tollgate::{Clock as _, SystemClock, Timestamp};
use tollgate_catalog::{Author, Edit, Entry, Expect, Intent, Role, Token};

use super::TOKENS;
use super::arguments::CreateTokenArguments;
use crate::catalog::{block_on, open, parse_url, refused};
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::Remote;
use crate::terminal::printable;

/// The request to make a token.
#[derive(Serialize)]
struct TokenRequest<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<&'a str>,
}

/// A new token.
#[derive(Deserialize, Serialize)]
struct TokenResponse {
    token_id: String,
    token: String,
}

pub(super) fn create(arguments: &CreateTokenArguments) -> Result<(), Failure> {
    let CreateTokenArguments { role, tenant, name, catalog, server, .. } = arguments;
    let now = SystemClock.now();
    let expires_at = end(arguments, now)?;
    match (role, tenant) {
        (Role::TenantAdmin, None) => {
            return Err(Failure::usage("a tenant-admin needs --tenant, the tenant it is for"));
        }
        (Role::TenantAdmin, Some(_)) | (_, None) => {}
        (role, Some(_)) => {
            let role = role.name();
            return Err(Failure::usage(format!(
                "only a tenant-admin has a --tenant, not the role {role}"
            )));
        }
    }
    let request = TokenRequest {
        role: role.name(),
        tenant: tenant.as_deref(),
        name: name.as_deref(),
        expires_at: expires_at.as_deref(),
    };
    let (text, made) = match catalog {
        Some(url) => write(url, *role, &request, now)?,
        None => {
            let response = Remote::new(server)?.post::<TokenResponse>(TOKENS, &request)?;
            (response.text, response.value)
        }
    };
    if server.json {
        return print(&text);
    }
    print(&made.token)?;
    let until = expires_at.map_or_else(String::new, |end| format!(" until {end}"));
    let id = printable(&made.token_id);
    eprintln!("token {id} for the role {}{until}", role.name());
    eprintln!("(keep it: it is shown this once, and only its digest is kept)");
    Ok(())
}

/// When the token expires.
fn end(arguments: &CreateTokenArguments, now: Timestamp) -> Result<Option<String>, Failure> {
    let end = arguments.expires_at.as_deref().and_then(parse_time);
    if end.is_some_and(|end| end <= now) {
        return Err(Failure::usage("--expires-at is in the past"));
    }
    let lasting = arguments.expires_in.map(|span| now.plus(span));
    Ok(end.or(lasting).map(format_time))
}

/// Writes a token into a catalog.
fn write(
    url: &str,
    role: Role,
    request: &TokenRequest<'_>,
    now: Timestamp,
) -> Result<(String, TokenResponse), Failure> {
    let (token, shown) = Token::create(role).map_err(|error| Failure::usage(error.to_string()))?;
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let token = Token {
        tenant: owned(request.tenant),
        name: owned(request.name),
        expires_at: owned(request.expires_at),
        ..token
    };
    let made = TokenResponse { token_id: token.token_id.clone(), token: shown };
    let edits =
        Intent::Edits(vec![Edit::Put { entry: Entry::Token(token), expect: Expect::Absent }]);
    let url = parse_url(url)?;
    block_on(async {
        let catalog = open(url).await?;
        let author = Author::program("command line");
        let written = catalog.write(&author, edits, now, false).await;
        catalog.close().await;
        written.map_err(|error| refused(&error))
    })?;
    Ok((serde_json::to_string(&made).unwrap_or_default(), made))
}
