//! A catalog that a command works on by itself, without a server.

use std::future::Future;

use tollgate_catalog::{Catalog, CatalogError, CatalogUrl, NEWEST_SCHEMA, PolicyBounds};

use crate::failure::Failure;

/// Reads where a catalog is, without repeating what may hold a password.
pub(crate) fn parse_url(text: &str) -> Result<CatalogUrl, Failure> {
    text.parse().map_err(|problem| Failure::usage(format!("--catalog: {problem}")))
}

/// The catalog at a place, if it is one that this program can change.
pub(crate) async fn open(url: CatalogUrl) -> Result<Catalog, Failure> {
    if is_missing(&url) {
        return Err(Failure::usage(format!("there is no catalog {url}")));
    }
    let catalog = Catalog::new(url, PolicyBounds::default());
    let version = catalog.schema_version().await;
    match version {
        Ok(NEWEST_SCHEMA) => return Ok(catalog),
        _ => catalog.close().await,
    }
    Err(version.map_or_else(
        |error| refused(&error),
        |version| Failure::refused(outdated(catalog.url(), version)),
    ))
}

/// Whether the file of a catalog does not exist yet. Opening it would create it.
pub(crate) fn is_missing(url: &CatalogUrl) -> bool {
    url.file().is_some_and(|file| !file.exists())
}

/// Why a catalog with that version of the schema cannot be used.
pub(crate) fn outdated(url: &CatalogUrl, version: u64) -> String {
    if version > NEWEST_SCHEMA {
        format!(
            "the catalog {url} has schema {version}, and this program knows {NEWEST_SCHEMA}: use a \
             newer one"
        )
    } else {
        format!(
            "the catalog {url} has schema {version}, and this program needs {NEWEST_SCHEMA}: run \
             `tollgate migrate` first"
        )
    }
}

/// Why a catalog refused.
pub(crate) fn refused(error: &CatalogError) -> Failure {
    match error {
        CatalogError::Away(_) => Failure::usage(error.to_string()),
        _ => Failure::refused(error.to_string()),
    }
}

/// Runs calls to a catalog to their end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::usage(format!("cannot start: {error}")))?.block_on(work)
}
