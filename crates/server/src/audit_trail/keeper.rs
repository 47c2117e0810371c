//! Rows on their way into the catalog: tried again while it is away, and given up in the end.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::sleep;
use tollgate_catalog::{Catalog, CatalogError, DecisionRecord, ResetRecord};

use super::Counts;
use crate::listen::Shutdown;

/// How often rows are tried, and how long to wait in between.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);

/// Rows of one of the logs.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    Decisions(&'a [DecisionRecord]),
    Resets(&'a [ResetRecord]),
}

impl Rows<'_> {
    const fn name(self) -> &'static str {
        match self {
            Self::Decisions(_) => "decisions",
            Self::Resets(_) => "resets",
        }
    }

    const fn count(self) -> u64 {
        match self {
            Self::Decisions(records) => records.len() as u64,
            Self::Resets(records) => records.len() as u64,
        }
    }

    async fn write(self, catalog: &Catalog) -> Result<(), CatalogError> {
        match self {
            Self::Decisions(records) => catalog.log_decisions(records).await,
            Self::Resets(records) => catalog.log_resets(records).await,
        }
    }
}

pub(super) struct Keeper<'a> {
    catalog: &'a Catalog,
    counts: &'a Counts,
    pub(super) ending: &'a Shutdown,
    is_failing: AtomicBool,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(catalog: &'a Catalog, counts: &'a Counts, ending: &'a Shutdown) -> Self {
        Self { catalog, counts, ending, is_failing: AtomicBool::new(false) }
    }

    /// Keeps rows, or gives them up in the end. Meanwhile others wait, as far as there is room.
    pub(super) async fn keep(&self, rows: Rows<'_>) {
        let name = rows.name();
        for _ in 0..ATTEMPTS {
            match rows.write(self.catalog).await {
                Ok(()) => {
                    self.counts.written.fetch_add(rows.count(), Relaxed);
                    if self.is_failing.swap(false, Relaxed) {
                        tracing::info!("{name} are written to the log again");
                    }
                    return;
                }
                Err(error) => {
                    if !self.is_failing.swap(true, Relaxed) {
                        tracing::warn!("{name} cannot be written to the log: {error}");
                    }
                }
            }
            tokio::select! {
                () = sleep(PAUSE) => {}
                () = self.ending.requested() => break,
            }
        }
        self.counts.failed.fetch_add(rows.count(), Relaxed);
    }
}
