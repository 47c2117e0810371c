//! Runs long work on separate threads, so that checks never wait for it: parsing and compiling
//! documents, transactions of the catalog, explanations, pages.
//!
//! Each queue runs few jobs at a time and bounds how many wait, in total and for each caller. A job
//! goes on if its caller disconnects, and keeps its place until it ends.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::edge::http::problem::Problem;

/// The start of the names of callers that are tenants.
pub(crate) const OF_TENANT: &str = "tenant ";

/// A queue of long work.
#[derive(Clone, Debug)]
pub(crate) struct Offload(Arc<JobQueue>);

#[derive(Debug)]
struct JobQueue {
    bounds: OffloadBounds,
    running: Arc<Semaphore>,
    /// How many jobs each caller has, waiting or running.
    jobs: Mutex<HashMap<Box<str>, usize>>,
}

/// The bounds of a queue.
#[derive(Clone, Copy, Debug)]
struct OffloadBounds {
    /// How many jobs run at a time.
    running: usize,
    /// How many jobs there are, waiting or running. Tenants have half of them at most, so that operators find a place.
    jobs: usize,
    /// How many jobs one caller has.
    jobs_per_caller: usize,
}

/// A place in a queue. Clones share the place; it is free when all of them are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Ticket(Arc<JobPermit>);

#[derive(Debug)]
struct JobPermit {
    queue: Arc<JobQueue>,
    caller: Box<str>,
}

impl Offload {
    fn new(bounds: OffloadBounds) -> Self {
        let running = Arc::new(Semaphore::new(bounds.running));
        Self(Arc::new(JobQueue { bounds, running, jobs: Mutex::default() }))
    }

    /// Takes a place for a caller.
    pub(crate) fn enter(&self, caller: &str) -> Result<Ticket, Problem> {
        let OffloadBounds { jobs: max_jobs, jobs_per_caller, .. } = self.0.bounds;
        let mut jobs = self.0.jobs.lock();
        let own = jobs.get(caller).copied().unwrap_or(0);
        if own >= jobs_per_caller {
            let detail = format!(
                "this caller has {own} calls of this kind in progress, of at most \
                 {jobs_per_caller}; wait until one of them ends"
            );
            return Err(busy(StatusCode::TOO_MANY_REQUESTS, "too_many_calls", detail));
        }
        if jobs.values().sum::<usize>() >= max_jobs {
            let detail = format!(
                "{max_jobs} calls of this kind are in progress, which is the most; try again later"
            );
            return Err(busy(StatusCode::SERVICE_UNAVAILABLE, "busy", detail));
        }
        let is_tenant = |name: &str| name.starts_with(OF_TENANT);
        let of_tenants = jobs.iter().filter(|(name, _)| is_tenant(name)).map(|(_, own)| own);
        if is_tenant(caller) && of_tenants.sum::<usize>() >= max_jobs / 2 {
            let detail = "tenants have as many calls of this kind in progress as they may together; \
                          try again later";
            return Err(busy(StatusCode::SERVICE_UNAVAILABLE, "busy", detail.to_owned()));
        }
        *jobs.entry(caller.into()).or_default() += 1;
        Ok(Ticket(Arc::new(JobPermit { queue: Arc::clone(&self.0), caller: caller.into() })))
    }

    /// Runs a job when it is its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: &str,
        job: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.enter(caller)?.run(job).await
    }
}

impl Ticket {
    /// Runs a job when it is its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let running = Arc::clone(&self.0.queue.running);
        let permit = running.acquire_owned().await;
        let permit = permit.map_err(|_| Problem::internal("the server is stopping"))?;
        let (ticket, job) = (self.clone(), Box::pin(job));
        let done = spawn_blocking(move || {
            let done = Handle::current().block_on(job);
            // The place is free before the next job begins.
            drop((ticket, permit));
            done
        });
        done.await.map_err(|_| Problem::internal("the call failed: see the log"))
    }
}

impl Drop for JobPermit {
    fn drop(&mut self) {
        let mut jobs = self.queue.jobs.lock();
        if let Some(own) = jobs.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                jobs.remove(&self.caller);
            }
        }
    }
}

fn busy(status: StatusCode, code: &'static str, detail: String) -> Problem {
    Problem::new(status, code, detail)
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// How many threads long work may occupy: half of the processors, so that checks have the others.
fn half_of_processors() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, 4)
}

/// The queues for long work.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Whole policy documents, from before their bodies are read.
    pub(crate) documents: Offload,
    /// Parsing of single entries.
    pub(crate) parsing: Offload,
    /// Transactions of the catalog, which executes them one after the other.
    pub(crate) writes: Offload,
    pub(crate) explanations: Offload,
    /// Pages of the dashboard: what they read, and how they are rendered.
    pub(crate) pages: Offload,
    /// Queries for decisions of other nodes. They wait for those nodes, and occupy no thread.
    pub(crate) journal_queries: Offload,
    /// Replays of recent requests.
    pub(crate) previews: Offload,
    /// Pages that wait for a replay, so that other pages do not.
    pub(crate) preview_pages: Offload,
    /// Replays of uploaded logs, from before the log is read.
    pub(crate) simulations: Offload,
    /// Queries for the figures of all nodes. They wait for those nodes, and occupy no thread.
    pub(crate) figure_queries: Offload,
}

impl Default for Queues {
    fn default() -> Self {
        let running = half_of_processors();
        let queue = |running, jobs, jobs_per_caller| {
            Offload::new(OffloadBounds { running, jobs, jobs_per_caller })
        };
        Self {
            documents: queue(running, 8, 4),
            parsing: queue(running, 128, 32),
            writes: queue(4, 128, 32),
            explanations: queue(1, 64, 16),
            pages: queue(running, 64, 16),
            journal_queries: queue(1, 64, 8),
            previews: queue(1, 8, 2),
            preview_pages: queue(1, 8, 2),
            simulations: queue(1, 2, 1),
            figure_queries: queue(1, 64, 16),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Offload {
        Offload::new(OffloadBounds { running: 1, jobs: 3, jobs_per_caller: 2 })
    }

    #[test]
    fn jobs_are_bounded_per_caller_and_in_total() {
        let queue = queue();
        let status = |entered: Result<Ticket, Problem>| entered.map_err(|it| it.status().as_u16());
        let first = queue.enter("acme").expect("a place");
        let second = queue.enter("acme").expect("a place");
        assert_eq!(status(queue.enter("acme")).err(), Some(429));
        let third = queue.enter("globex").expect("a place");
        assert_eq!(status(queue.enter("initech")).err(), Some(503));
        drop(first.clone());
        assert_eq!(status(queue.enter("initech")).err(), Some(503), "a clone is the same place");
        drop((first, second, third));
        assert!(queue.enter("initech").is_ok());
        assert!(queue.0.jobs.lock().is_empty(), "callers are forgotten");
    }

    #[test]
    fn tenants_leave_places_to_operators() {
        let queue = Offload::new(OffloadBounds { running: 1, jobs: 8, jobs_per_caller: 4 });
        let tenants = ["tenant acme", "tenant globex"];
        let held: Vec<_> =
            tenants.iter().cycle().map_while(|tenant| queue.enter(tenant).ok()).collect();
        assert_eq!(held.len(), 4);
        let operators = [(); 4].map(|()| queue.enter("operator").expect("a place"));
        assert!(queue.enter("another").is_err(), "{operators:?}");
    }

    #[tokio::test]
    async fn a_job_whose_caller_disconnected_keeps_its_place_until_it_ends() {
        let queue = queue();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let job = async move {
            let _ = started.send(());
            let _ = ended.await;
        };
        let running = tokio::spawn({
            let queue = queue.clone();
            async move { queue.run("acme", job).await }
        });
        has_started.await.expect("it runs");
        running.abort();
        assert!(running.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(queue.0.running.available_permits(), 0);
        assert_eq!(queue.0.jobs.lock().len(), 1);
        end.send(()).expect("it still runs");
        queue.run("globex", async {}).await.expect("the next one");
        assert!(queue.0.jobs.lock().is_empty());
    }
}
