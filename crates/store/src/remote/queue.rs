//! Requests on their way to a server: those that arrive while it is busy are sent together. An idle server gets them
//! at once.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
#[cfg(feature = "postgres")]
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tollgate_core::Timestamp;

#[cfg(feature = "postgres")]
use super::clock::Moment;
use super::{OpResult, OwnedOp};
use crate::{StoreError, StoreErrorKind};

/// How many requests may wait for a server. More could not be carried out in time.
const QUEUE_CAPACITY: usize = 16_384;

/// How many counters a batch may name before no further request joins it: a call takes as long as it has
/// counters, and requests with few would time out behind those with many.
const MAX_COUNTERS: usize = 256;

/// An operation, and its caller, which waits for the result.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) op: OwnedOp,
    /// When it was requested, by the caller's clock.
    pub(crate) now: Timestamp,
    #[cfg(feature = "postgres")]
    queued_at: Moment,
    result: oneshot::Sender<OpResult>,
}

impl Job {
    pub(crate) fn finish(self, result: OpResult) {
        // A caller whose timeout has passed is gone.
        let _ = self.result.send(result);
    }

    /// Whether the caller stopped waiting. An operation that has not been sent by then never is.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.result.is_closed()
    }

    /// The time that is left of `timeout`, which began when the request was queued.
    #[cfg(feature = "postgres")]
    pub(crate) fn remaining(&self, timeout: Duration) -> Duration {
        timeout.saturating_sub(self.queued_at.elapsed())
    }
}

/// The result of an operation that is under way.
#[derive(Debug)]
pub(crate) struct PendingResult(oneshot::Receiver<OpResult>);

impl PendingResult {
    pub(crate) async fn result(&mut self) -> OpResult {
        // The batch may have been dropped with its server.
        (&mut self.0).await.unwrap_or_else(|_| Err(StoreErrorKind::Unavailable.into()))
    }
}

/// The queue to a server.
#[derive(Clone, Debug)]
pub(crate) struct Queue(mpsc::Sender<Vec<Job>>);

impl Queue {
    /// A queue to a server that takes up to `most` requests at a time (more only to keep those together that were
    /// sent together) with no more than [`MAX_COUNTERS`], and works on `at_once` such batches at a time. Ends with
    /// the last of its clones.
    pub(crate) fn new<F>(
        most: usize,
        at_once: usize,
        send: impl Fn(Vec<Job>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, jobs) = mpsc::channel(QUEUE_CAPACITY);
        tokio::spawn(async move {
            let mut batches =
                Batches { jobs, most, at_once, under_way: Vec::with_capacity(at_once) };
            while let Some(first) = batches.first().await {
                // Requests that have arrived by now, but were not read yet, join the batch. An idle server waits for none.
                yield_now().await;
                let batch = batches.fill(first);
                if !batch.is_empty() {
                    batches.under_way.push(Box::pin(send(batch)));
                }
            }
        });
        Self(sender)
    }

    /// Sends an operation. Fails if the queue is full.
    pub(crate) fn send(&self, op: OwnedOp, now: Timestamp) -> Result<PendingResult, StoreError> {
        let (job, pending) = job(op, now);
        self.push(vec![job])?;
        Ok(pending)
    }

    /// Sends several operations, which reach the server in one batch and in order.
    #[cfg(feature = "postgres")]
    pub(crate) fn send_together(
        &self,
        ops: Vec<OwnedOp>,
        now: Timestamp,
    ) -> Result<Vec<PendingResult>, StoreError> {
        let (jobs, pending) = ops.into_iter().map(|op| job(op, now)).unzip();
        self.push(jobs)?;
        Ok(pending)
    }

    fn push(&self, jobs: Vec<Job>) -> Result<(), StoreError> {
        self.0.try_send(jobs).map_err(|_| StoreErrorKind::Unavailable.into())
    }
}

/// What waits for a server, and what is under way to it. One task does all of it: a task for each batch would have to be
/// woken beside those of the connection, and on a busy processor each of them waits for its turn behind other requests.
struct Batches<F> {
    jobs: mpsc::Receiver<Vec<Job>>,
    most: usize,
    at_once: usize,
    under_way: Vec<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Batches<F> {
    /// Works on what is under way until there is room for another batch and something to send; `None` once the queue
    /// has ended and everything is sent.
    async fn first(&mut self) -> Option<Vec<Job>> {
        poll_fn(|context| {
            // Those that were sent first come first, and what was added is begun before the next is taken: batches are
            // sent in order. A batch that panics is dropped, and its callers see that it failed; the queue goes on.
            self.under_way.retain_mut(|sending| {
                let polled = AssertUnwindSafe(|| sending.as_mut().poll(context).is_pending());
                catch_unwind(polled).unwrap_or(false)
            });
            if self.under_way.len() == self.at_once {
                return Poll::Pending;
            }
            match self.jobs.poll_recv(context) {
                Poll::Ready(None) if !self.under_way.is_empty() => Poll::Pending,
                polled => polled,
            }
        })
        .await
    }

    /// Adds what waits, without requests whose callers have left.
    fn fill(&mut self, first: Vec<Job>) -> Vec<Job> {
        let (mut counters, mut batch) = (counters_of(&first), first);
        while batch.len() < self.most
            && counters < MAX_COUNTERS
            && let Ok(more) = self.jobs.try_recv()
        {
            counters += counters_of(&more);
            batch.extend(more);
        }
        batch.retain(|job| !job.is_cancelled());
        batch
    }
}

fn counters_of(jobs: &[Job]) -> usize {
    jobs.iter().map(|job| job.op.names().count()).sum()
}

fn job(op: OwnedOp, now: Timestamp) -> (Job, PendingResult) {
    let (result, pending) = oneshot::channel();
    let job = Job {
        op,
        now,
        #[cfg(feature = "postgres")]
        queued_at: Moment::now(),
        result,
    };
    (job, PendingResult(pending))
}
