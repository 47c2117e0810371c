//! Runs batches on the database behind a circuit breaker.

use std::sync::Arc;

use super::batch::{self, Batch, BatchEnd};
use super::connections::PostgresConnections;
use super::counters::TimeSource;
use super::failure::BatchFailure;
use crate::RemoteSettings;
use crate::remote::Job;
use crate::remote::breaker::Breaker;
use crate::remote::clock::Moment;

pub(super) struct Database {
    pub(super) connections: PostgresConnections,
    pub(super) breaker: Breaker,
    pub(super) settings: RemoteSettings,
}

impl Database {
    /// Settles a batch, and completes its jobs.
    pub(super) async fn settle(self: Arc<Self>, mut jobs: Vec<Job>) {
        let mut may_retry = true;
        let settled = loop {
            match self.try_to_settle(&mut jobs).await {
                // Each retry has fewer callers, so this ends.
                Ok(BatchEnd::RolledBack) => {}
                Ok(BatchEnd::Done(batch)) => break Ok(batch.outcomes),
                Err(failure) if may_retry && failure.may_retry() => may_retry = false,
                Err(failure) => break Err(failure),
            }
        };
        match settled {
            Ok(outcomes) => {
                if !outcomes.is_empty() {
                    self.breaker.call_ended(None);
                }
                for (job, outcome) in jobs.into_iter().zip(outcomes) {
                    job.finish(Ok(outcome));
                }
            }
            Err(failure) => {
                self.breaker.call_ended(Some(&failure.error()));
                for job in jobs {
                    job.finish(Err(failure.error()));
                }
            }
        }
    }

    async fn try_to_settle(&self, jobs: &mut Vec<Job>) -> Result<BatchEnd, BatchFailure> {
        let mut connection = self.connections.take().await?;
        let timeout = self.settings.deadline;
        // Connecting may have taken longer than a caller waits.
        batch::drop_late(jobs, timeout);
        if jobs.is_empty() {
            self.connections.give_back(connection);
            return Ok(BatchEnd::Done(Batch::default()));
        }
        let is_callers = self.settings.uses_callers_clock;
        let clock = if is_callers { TimeSource::Caller } else { TimeSource::Database };
        let began = Moment::now();
        self.breaker.count_call();
        let settling = batch::settle(&mut connection, jobs, clock, timeout);
        let settled = tokio::time::timeout(timeout, settling).await;
        self.breaker.record_latency(began.elapsed());
        match settled.unwrap_or_else(|_| Err(BatchFailure::late())) {
            Ok(outcome) => {
                self.connections.give_back(connection);
                if let BatchEnd::Done(batch) = &outcome {
                    self.breaker.note_clock(batch.now);
                }
                Ok(outcome)
            }
            Err(failure) => {
                self.connections.learn(&failure);
                Err(failure)
            }
        }
    }
}
