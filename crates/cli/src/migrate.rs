//! `tollgate migrate`: migrates the schema of a catalog without a server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use tollgate::{Clock as _, SystemClock};
use tollgate_catalog::{Catalog, CatalogUrl, NEWEST_SCHEMA, PolicyBounds};

use crate::catalog::{block_on, is_missing, outdated, refused};
use crate::failure::Failure;
use crate::output::print;
use crate::settings::load;

/// The exit code of a check that found an older schema.
const OUTDATED: u8 = 1;

/// Arguments of `tollgate migrate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate migrate --catalog postgres://tollgate@db.example/rules
  tollgate migrate --config tollgate.yaml --check

The catalog is the one that `serve` would use: --catalog, TOLLGATE_CATALOG, or the settings file. \
The exit code is 0 if it is up to date, 1 if --check finds that it is not, 2 if it is unreachable.")]
pub(crate) struct MigrateArguments {
    /// Read settings from this file, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The catalog: sqlite:FILE or the URL of a PostgreSQL [default: sqlite:tollgate.db].
    #[arg(long, value_name = "URL")]
    catalog: Option<String>,

    /// Change nothing, report whether a migration is needed.
    #[arg(long)]
    check: bool,

    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// The schema before and after.
#[derive(Serialize)]
struct Migration {
    catalog: String,
    /// The version of the schema that it had; 0 if there was none.
    was: u64,
    /// The version that it has.
    is: u64,
    newest: u64,
}

/// Migrates a catalog, or reports whether it is up to date.
pub(crate) fn run(arguments: &MigrateArguments) -> Result<ExitCode, Failure> {
    let flags: Vec<_> = arguments.catalog.iter().map(|url| ("catalog", url.clone())).collect();
    let settings = load(arguments.config.clone(), &flags)?.settings;
    if let Some(rules) = &settings.rules {
        let rules = rules.display();
        return Err(Failure::usage(format!(
            "the rules are in {rules}; there is no catalog to migrate"
        )));
    }
    if !settings.uses_catalog() {
        return Err(Failure::usage(
            "these settings have files of envoyproxy/ratelimit (envoy_config) and no catalog to \
             migrate; name one with --catalog",
        ));
    }
    let migration = block_on(migrate(settings.catalog, arguments.check))?;
    if arguments.json {
        print(&serde_json::to_string(&migration).unwrap_or_default())?;
    } else {
        print(&migration.sentence())?;
    }
    let is_outdated = migration.is != migration.newest;
    Ok(if is_outdated { ExitCode::from(OUTDATED) } else { ExitCode::SUCCESS })
}

async fn migrate(url: CatalogUrl, only_check: bool) -> Result<Migration, Failure> {
    let shown = url.to_string();
    let migration = |was, is| Migration { catalog: shown, was, is, newest: NEWEST_SCHEMA };
    if only_check && is_missing(&url) {
        return Ok(migration(0, 0));
    }
    let catalog = Catalog::new(url, PolicyBounds::default());
    let versions = bring_up_to_date(&catalog, only_check).await;
    catalog.close().await;
    versions.map(|(was, is)| migration(was, is))
}

/// The versions of the schema before and after.
async fn bring_up_to_date(catalog: &Catalog, only_check: bool) -> Result<(u64, u64), Failure> {
    let was = catalog.schema_version().await.map_err(|error| refused(&error))?;
    if was > NEWEST_SCHEMA {
        return Err(Failure::refused(outdated(catalog.url(), was)));
    }
    if only_check {
        return Ok((was, was));
    }
    let was = catalog.migrate(SystemClock.now()).await.map_err(|error| refused(&error))?;
    Ok((was, NEWEST_SCHEMA))
}

impl Migration {
    fn sentence(&self) -> String {
        let Self { catalog, was, is, newest } = self;
        match (was, is) {
            (0, 0) => format!(
                "there is no schema in the catalog {catalog} yet: `tollgate migrate` makes it"
            ),
            (0, is) => format!("the catalog {catalog} is new, at schema {is}"),
            (was, is) if was != is => {
                format!("the catalog {catalog} was at schema {was} and is at {is} now")
            }
            (_, is) if is == newest => {
                format!("the catalog {catalog} is up to date, at schema {is}")
            }
            (_, is) => format!(
                "the catalog {catalog} is at schema {is}, and this program needs {newest}: run `tollgate \
                 migrate`"
            ),
        }
    }
}
