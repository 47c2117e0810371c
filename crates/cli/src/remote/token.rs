//! Which token is shown to a server: the first that is found where one may be.

use std::path::Path;
use std::{env, fs};

use tollgate::identity::Secret;

use crate::arguments::ServerArguments;
use crate::failure::Failure;

/// What `serve` takes its own token from; where it is set for a server, commands beside it find it.
const OF_THE_SERVER: &str = "TOLLGATE_ADMIN_TOKEN";

/// The token to show, if there is one.
pub(super) fn of(arguments: &ServerArguments) -> Result<Option<Secret>, Failure> {
    if let Some(file) = &arguments.token_file {
        return read(file).map(Some);
    }
    let in_environment = || env::var(OF_THE_SERVER).ok().map(Secret::from);
    let is_there = |token: &Secret| !token.expose().is_empty();
    let given = arguments.token.clone().filter(is_there);
    Ok(given.or_else(|| in_environment().filter(is_there)))
}

fn read(file: &Path) -> Result<Secret, Failure> {
    let unusable =
        |why: &str| Failure::usage(format!("cannot use --token-file {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| unusable(&error.to_string()))?;
    let token = text.trim();
    if token.is_empty() { Err(unusable("it is empty")) } else { Ok(token.to_owned().into()) }
}
