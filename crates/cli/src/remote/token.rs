//! Which token is shown to a server: the first that is found where one may be.

use std::path::Path;
use std::{env, fs};

use tollgate::identity::Secret;

use crate::arguments::ServerArguments;
use crate::failure::Failure;

/// What `serve` takes its own token from; where it is set for a server, commands beside it find it.
const OF_THE_SERVER: &str = "TOLLGATE_ADMIN_TOKEN";

/// What `serve` takes the token of callers from.
const OF_CALLERS: &str = "TOLLGATE_CHECK_TOKEN";

/// The token to show to the admin API, if there is one.
pub(super) fn of(arguments: &ServerArguments) -> Result<Option<Secret>, Failure> {
    first(arguments, &[OF_THE_SERVER])
}

/// The token to show to the check API, if there is one: that of callers rather than that of
/// administrators.
pub(super) fn of_caller(arguments: &ServerArguments) -> Result<Option<Secret>, Failure> {
    first(arguments, &[OF_CALLERS, OF_THE_SERVER])
}

fn first(arguments: &ServerArguments, variables: &[&str]) -> Result<Option<Secret>, Failure> {
    if let Some(file) = &arguments.token_file {
        return read(file).map(Some);
    }
    let is_there = |token: &Secret| !token.expose().is_empty();
    let given = arguments.token.clone().filter(is_there);
    let variables = variables.iter().filter_map(|name| env::var(name).ok().map(Secret::from));
    Ok(given.or_else(|| variables.into_iter().find(is_there)))
}

fn read(file: &Path) -> Result<Secret, Failure> {
    let unusable =
        |why: &str| Failure::usage(format!("cannot use --token-file {}: {why}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| unusable(&error.to_string()))?;
    let token = text.trim();
    if token.is_empty() { Err(unusable("it is empty")) } else { Ok(token.to_owned().into()) }
}
