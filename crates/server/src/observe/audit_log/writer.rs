//! Writes the log of decisions: in batches, and at a bounded rate.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tollgate_catalog::{Catalog, LoggedDecision};

use super::AuditCounts;
use super::decision_event::DecisionEvent;
use super::retrying_writer::{RetryingWriter, Rows};
use crate::edge::listen::Shutdown;
use crate::settings::Audit;

/// How many rows a transaction writes at most. A change of rules waits for no more than one.
const MAX_BATCH: usize = 500;
/// How long a row may wait for further rows.
const GATHER_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct AuditWriter<'a> {
    keeper: RetryingWriter<'a>,
    rows_per_second: u64,
    max_bytes: u64,
}

impl<'a> AuditWriter<'a> {
    pub(super) fn new(
        catalog: &'a Catalog,
        counts: &'a AuditCounts,
        settings: Audit,
        ending: &'a Shutdown,
    ) -> Self {
        let keeper = RetryingWriter::new(catalog, counts, ending);
        let (rows_per_second, max_bytes) = (settings.rows_per_second, settings.max_bytes.bytes());
        Self { keeper, rows_per_second, max_bytes }
    }

    /// Writes notes until the channel is closed.
    pub(super) async fn write(self, mut notes: mpsc::Receiver<Box<DecisionEvent>>) {
        let mut batch = Vec::new();
        while self.gather(&mut notes, &mut batch).await {
            let least = Duration::from_secs(1) * u32::try_from(batch.len()).unwrap_or(u32::MAX)
                / u32::try_from(self.rows_per_second).unwrap_or(u32::MAX);
            let rows = Rows::Decisions(&batch, self.max_bytes);
            tokio::join!(self.keeper.keep(rows), self.rest(least));
            batch.clear();
        }
    }

    /// Gathers a batch; false if the channel is closed.
    async fn gather(
        &self,
        notes: &mut mpsc::Receiver<Box<DecisionEvent>>,
        batch: &mut Vec<LoggedDecision>,
    ) -> bool {
        let Some(first) = notes.recv().await else { return false };
        batch.push(first.to_record());
        let filling = async {
            while batch.len() < MAX_BATCH {
                let Some(note) = notes.recv().await else { return };
                batch.push(note.to_record());
            }
        };
        // After the timeout a batch is written even if it is not full.
        let _ = timeout(GATHER_TIMEOUT, filling).await;
        true
    }

    /// Waits, unless the server shuts down.
    async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.keeper.ending.requested() => {}
        }
    }
}
