//! Writes rows to the catalog: retried while it is unavailable, and dropped after too many attempts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::sleep;
use tollgate_catalog::{Catalog, CatalogError, Logged, LoggedDecision, ResetRecord};

use super::AuditCounts;
use crate::edge::listen::Shutdown;

/// How often a write is tried, and the delay between attempts.
const MAX_ATTEMPTS: u32 = 10;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Rows of one of the logs.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// Decisions, and how many bytes their log may take.
    Decisions(&'a [LoggedDecision], u64),
    Resets(&'a [ResetRecord]),
}

impl Rows<'_> {
    const fn name(self) -> &'static str {
        match self {
            Self::Decisions(..) => "decisions",
            Self::Resets(_) => "resets",
        }
    }

    const fn count(self) -> u64 {
        match self {
            Self::Decisions(records, _) => records.len() as u64,
            Self::Resets(records) => records.len() as u64,
        }
    }

    async fn write(self, catalog: &Catalog) -> Result<Logged, CatalogError> {
        match self {
            Self::Decisions(records, max_bytes) => catalog.log_decisions(records, max_bytes).await,
            Self::Resets(records) => catalog.log_resets(records).await.map(|()| Logged::Written),
        }
    }
}

pub(super) struct RetryingWriter<'a> {
    catalog: &'a Catalog,
    counts: &'a AuditCounts,
    pub(super) ending: &'a Shutdown,
    is_failing: AtomicBool,
    /// Whether the log is not written because the disk is nearly full.
    has_no_space: AtomicBool,
}

impl<'a> RetryingWriter<'a> {
    pub(super) fn new(catalog: &'a Catalog, counts: &'a AuditCounts, ending: &'a Shutdown) -> Self {
        Self {
            catalog,
            counts,
            ending,
            is_failing: AtomicBool::new(false),
            has_no_space: AtomicBool::new(false),
        }
    }

    /// Writes rows, or drops them after too many attempts. Meanwhile others wait in the queue.
    pub(super) async fn keep(&self, rows: Rows<'_>) {
        let name = rows.name();
        for _ in 0..MAX_ATTEMPTS {
            match rows.write(self.catalog).await {
                Ok(Logged::Written) => {
                    self.counts.written.fetch_add(rows.count(), Relaxed);
                    let had_no_space = self.has_no_space.swap(false, Relaxed);
                    if self.is_failing.swap(false, Relaxed) || had_no_space {
                        tracing::info!("{name} are written to the log again");
                    }
                    return;
                }
                Ok(Logged::NoSpace) => {
                    if !self.has_no_space.swap(true, Relaxed) {
                        tracing::warn!(
                            "the disk is nearly full: {name} are not logged until it has room"
                        );
                    }
                    break;
                }
                Err(error) => {
                    if !self.is_failing.swap(true, Relaxed) {
                        tracing::warn!("{name} cannot be written to the log: {error}");
                    }
                }
            }
            tokio::select! {
                () = sleep(RETRY_DELAY) => {}
                () = self.ending.requested() => break,
            }
        }
        self.counts.failed.fetch_add(rows.count(), Relaxed);
    }
}
