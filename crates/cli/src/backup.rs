//! `tollgate backup`: a copy of a catalog in a file, while servers use it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tollgate_catalog::{Catalog, PolicyBounds};

use crate::catalog::{block_on, is_missing, refused};
use crate::failure::Failure;
use crate::output::print;
use crate::settings::load;

/// Arguments of `tollgate backup`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate backup tollgate-2026-11-15.db
  tollgate backup --catalog sqlite:/var/lib/tollgate/tollgate.db /backup/tollgate.db

Servers that use the catalog go on meanwhile. The backup is one file that can take the place of the catalog \
of a stopped server. It holds rules, clients, lists, digests of keys and tokens, and the audit log; only its owner can \
read it. A catalog in PostgreSQL is backed up with pg_dump. \
The exit code is 0 if the backup is whole, 1 if the catalog cannot be used, 2 if it cannot be read or the file cannot be \
written.")]
pub(crate) struct BackupArguments {
    /// The file to write. It must not exist yet.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Read settings from this file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The catalog, sqlite:FILE [default: sqlite:tollgate.db].
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,

    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// What was written.
#[derive(Serialize)]
struct BackupWritten {
    file: String,
    catalog: String,
    schema: u64,
    revision: u64,
    bytes: u64,
}

/// Writes a backup.
pub(crate) fn run(arguments: &BackupArguments) -> Result<ExitCode, Failure> {
    let flags: Vec<_> = arguments.catalog.iter().map(|url| ("catalog", url.clone())).collect();
    let settings = load(arguments.config.clone(), &flags)?.settings;
    if let Some(rules) = &settings.rules {
        let rules = rules.display();
        return Err(Failure::usage(format!(
            "the rules are in {rules}; there is no catalog to back up, keep a copy of that file"
        )));
    }
    if !settings.uses_catalog() {
        return Err(Failure::usage(
            "these settings have files of envoyproxy/ratelimit (envoy_config) and no catalog to \
             back up; name one with --catalog",
        ));
    }
    let url = settings.catalog;
    if is_missing(&url) {
        return Err(Failure::usage(format!("there is no catalog {url}")));
    }
    if url.is_shared() {
        return Err(Failure::usage(format!(
            "the catalog {url} is in PostgreSQL: back it up with pg_dump"
        )));
    }
    let (shown, file) = (url.to_string(), &arguments.file);
    let backup = block_on(async {
        // Also one that this version has yet to migrate.
        let catalog = Catalog::new(url, PolicyBounds::default());
        let backup = catalog.back_up(file).await;
        catalog.close().await;
        backup.map_err(|error| refused(&error))
    })?;
    let written = BackupWritten {
        file: file.display().to_string(),
        catalog: shown,
        schema: backup.schema,
        revision: backup.version.revision.number,
        bytes: backup.bytes,
    };
    if arguments.json {
        print(&serde_json::to_string(&written).unwrap_or_default())?;
    } else {
        let BackupWritten { file, catalog, schema, revision, bytes } = written;
        print(&format!(
            "{file}: the catalog {catalog} at revision {revision}, schema {schema}, {bytes} bytes"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
