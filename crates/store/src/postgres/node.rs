//! This node's side of the database: takes batches to it, and knows how it is doing.

use std::sync::Arc;

use tokio::time::timeout;

use super::batch;
use super::connections::Connections;
use super::counters::Clock;
use super::failure::Failure;
use crate::remote::Job;
use crate::remote::breaker::Breaker;
use crate::remote::clock::Moment;
use crate::{RemoteSettings, Settled};

pub(super) struct Node {
    pub(super) connections: Connections,
    pub(super) breaker: Breaker,
    pub(super) settings: RemoteSettings,
}

impl Node {
    /// Settles a batch, and answers those who wait for it.
    pub(super) async fn settle(self: Arc<Self>, mut jobs: Vec<Job>) {
        let mut settled = self.try_to_settle(&mut jobs).await;
        if settled.as_ref().is_err_and(Failure::may_retry) {
            settled = self.try_to_settle(&mut jobs).await;
        }
        match settled {
            Ok(answers) => {
                for (job, answer) in jobs.into_iter().zip(answers) {
                    job.answer(Ok(answer));
                }
            }
            Err(failure) => {
                for job in jobs {
                    job.answer(Err(failure.error()));
                }
            }
        }
    }

    async fn try_to_settle(&self, jobs: &mut Vec<Job>) -> Result<Vec<Settled>, Failure> {
        let mut connection = self.connections.take().await?;
        // Connecting may have taken longer than anybody waits.
        jobs.retain(|job| !job.is_forsaken());
        if jobs.is_empty() {
            self.connections.give_back(connection);
            return Ok(Vec::new());
        }
        let is_callers = self.settings.uses_callers_clock;
        let clock = if is_callers { Clock::Caller } else { Clock::Database };
        let began = Moment::now();
        let settling = timeout(self.settings.deadline, batch::settle(&mut connection, jobs, clock));
        let settled = settling.await;
        self.breaker.count_call(began.elapsed());
        match settled.unwrap_or_else(|_| Err(Failure::late())) {
            Ok(batch) => {
                self.connections.give_back(connection);
                self.breaker.note_clock(batch.now);
                Ok(batch.answers)
            }
            Err(failure) => {
                self.connections.learn(&failure);
                Err(failure)
            }
        }
    }
}
