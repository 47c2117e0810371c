//! Checks of several tasks in one call: as many as arrive while another call is under way.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Client;
use super::check::Check;
use super::decision::Decision;
use super::error::{ConnectionFailure, Error};

/// What servers accept by default.
const MAX_BATCH: usize = 1_000;
const MAX_QUEUED_BATCHES: usize = 16;
/// How many calls are under way at a time: more do not help a server that is slow.
const MAX_CALLS: usize = 16;

/// A client that sends the checks of several tasks in one call. Made by [`Client::batched`]; clones
/// share their calls.
#[derive(Clone, Debug)]
pub struct Batched {
    client: Client,
    queue: Sender<Waiting>,
}

/// A check whose task waits for the response.
struct Waiting {
    check: Check,
    response: oneshot::Sender<Result<Decision, Error>>,
}

impl Batched {
    pub(super) fn start(client: Client, most: usize, linger: Duration) -> Self {
        let most = most.clamp(1, MAX_BATCH);
        let (queue, waiting) = mpsc::channel(most * MAX_QUEUED_BATCHES);
        tokio::spawn(run(client.clone(), waiting, most, linger));
        Self { client, queue }
    }

    /// Checks a request and charges it, as [`Client::check`] does. The time in the queue is part of the timeout.
    pub async fn check(&self, check: Check) -> Decision {
        self.client.decision(self.try_check(check).await)
    }

    /// Checks a request and charges it, as [`Client::try_check`] does.
    ///
    /// # Errors
    /// As of [`Client::try_check`], and if the queue is full. An invalid check fails alone.
    pub async fn try_check(&self, check: Check) -> Result<Decision, Error> {
        check.validate()?;
        let (response, received) = oneshot::channel();
        let lost = || Error::Unreachable {
            server: self.client.server.to_string(),
            failure: ConnectionFailure::Disconnected,
            reason: "the runtime that sends batches has ended".to_owned(),
        };
        self.queue.try_send(Waiting { check, response }).map_err(|error| match error {
            TrySendError::Full(_) => Error::QueueFull,
            TrySendError::Closed(_) => lost(),
        })?;
        match timeout(self.client.timeout, received).await {
            Ok(received) => received.map_err(|_| lost())?,
            Err(_) => Err(self.client.timed_out()),
        }
    }
}

/// Sends batches until all clients are dropped.
async fn run(client: Client, mut queue: Receiver<Waiting>, most: usize, linger: Duration) {
    let calls = Arc::new(Semaphore::new(MAX_CALLS));
    let mut under_way = JoinSet::new();
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, most).await > 0 {
        while under_way.try_join_next().is_some() {}
        gather(&mut queue, &mut batch, &mut under_way, most, linger).await;
        while under_way.len() >= MAX_CALLS {
            under_way.join_next().await;
        }
        under_way.spawn(send(client.clone(), Arc::clone(&calls), std::mem::take(&mut batch)));
    }
}

/// Lets a batch grow while others are under way anyway.
async fn gather(
    queue: &mut Receiver<Waiting>,
    batch: &mut Vec<Waiting>,
    under_way: &mut JoinSet<()>,
    most: usize,
    linger: Duration,
) {
    let lingered = sleep(linger);
    tokio::pin!(lingered);
    while batch.len() < most && !under_way.is_empty() {
        let room = most - batch.len();
        tokio::select! {
            biased;
            added = queue.recv_many(batch, room) => {
                if added == 0 {
                    return;
                }
            }
            _ = under_way.join_next() => {}
            () = &mut lingered => return,
        }
    }
}

/// Sends a batch. If the server refuses it because of one check, none was charged, and each half is sent again: an
/// invalid check fails alone.
fn send(
    client: Client,
    calls: Arc<Semaphore>,
    mut batch: Vec<Waiting>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let turn = calls.acquire().await;
        // A task that has given up is not charged.
        batch.retain(|waiting| !waiting.response.is_closed());
        let (checks, responses): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.check, waiting.response)).unzip();
        let results = match &*checks {
            [alone] => vec![client.try_check(alone).await],
            several => match client.try_check_batch(several).await {
                Ok(results) => results,
                Err(error) if error.is_about_the_check() => {
                    drop(turn);
                    let waiting = checks.into_iter().zip(responses);
                    let waiting = waiting.map(|(check, response)| Waiting { check, response });
                    let mut first: Vec<_> = waiting.collect();
                    let second = first.split_off(first.len() / 2);
                    let first = send(client.clone(), Arc::clone(&calls), first);
                    tokio::join!(first, send(client, Arc::clone(&calls), second));
                    return;
                }
                Err(error) => vec![Err(error); checks.len()],
            },
        };
        for (response, result) in responses.into_iter().zip(results) {
            // An error means that the task has given up.
            let _ = response.send(result);
        }
    })
}
