//! Checks of several tasks in one call: as many as come while another call is under way.

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
use super::error::Error;
use super::verdict::Verdict;

/// The most checks that servers take at once unless told otherwise.
const LARGEST_BATCH: usize = 1_000;
/// How many batches may wait to be sent.
const BATCHES_WAITING: usize = 16;
/// How many calls may be under way, and how many batches may be dealt with. A server that answers so
/// slowly is not helped by more.
const MOST_UNDER_WAY: usize = 16;

/// A client that asks about checks of several tasks in one call. Made by [`Client::batched`]; clones
/// share their calls.
#[derive(Clone, Debug)]
pub struct Batched {
    client: Client,
    queue: Sender<Waiting>,
}

/// A check whose task waits for the answer.
struct Waiting {
    check: Check,
    answer: oneshot::Sender<Result<Verdict, Error>>,
}

impl Batched {
    pub(super) fn start(client: Client, most: usize, linger: Duration) -> Self {
        let most = most.clamp(1, LARGEST_BATCH);
        let (queue, waiting) = mpsc::channel(most * BATCHES_WAITING);
        tokio::spawn(run(client.clone(), waiting, most, linger));
        Self { client, queue }
    }

    /// Judges a request and charges it, as [`Client::check`] does. The time that it waits for others
    /// is part of the timeout.
    pub async fn check(&self, check: Check) -> Verdict {
        self.client.verdict(self.try_check(check).await)
    }

    /// Judges a request and charges it, as [`Client::try_check`] does.
    ///
    /// # Errors
    /// As of [`Client::try_check`], and if too many checks wait already. A check that made no sense to
    /// the server fails alone.
    pub async fn try_check(&self, check: Check) -> Result<Verdict, Error> {
        check.validate()?;
        let (answer, answered) = oneshot::channel();
        let lost = || Error::Unreachable {
            server: self.client.server.to_string(),
            reason: "the runtime that sends batches has ended".to_owned(),
        };
        self.queue.try_send(Waiting { check, answer }).map_err(|error| match error {
            TrySendError::Full(_) => Error::QueueFull,
            TrySendError::Closed(_) => lost(),
        })?;
        match timeout(self.client.timeout, answered).await {
            Ok(answered) => answered.map_err(|_| lost())?,
            Err(_) => Err(self.client.timed_out()),
        }
    }
}

/// Sends batches until nobody can ask any more.
async fn run(client: Client, mut queue: Receiver<Waiting>, most: usize, linger: Duration) {
    let calls = Arc::new(Semaphore::new(MOST_UNDER_WAY));
    let mut under_way = JoinSet::new();
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, most).await > 0 {
        while under_way.try_join_next().is_some() {}
        gather(&mut queue, &mut batch, &mut under_way, most, linger).await;
        while under_way.len() >= MOST_UNDER_WAY {
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

/// Sends a batch. If the server does not judge it because of one check, none was charged; those who asked
/// properly are not to suffer from one who did not, so each half is sent again.
fn send(
    client: Client,
    calls: Arc<Semaphore>,
    mut batch: Vec<Waiting>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let turn = calls.acquire().await;
        // Whoever has given up is not charged any more.
        batch.retain(|waiting| !waiting.answer.is_closed());
        let (checks, answers): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.check, waiting.answer)).unzip();
        let results = match &*checks {
            [alone] => vec![client.try_check(alone).await],
            several => match client.try_check_batch(several).await {
                Ok(results) => results,
                Err(error) if error.is_about_the_check() => {
                    drop(turn);
                    let waiting = checks.into_iter().zip(answers);
                    let waiting = waiting.map(|(check, answer)| Waiting { check, answer });
                    let mut first: Vec<_> = waiting.collect();
                    let second = first.split_off(first.len() / 2);
                    let first = send(client.clone(), Arc::clone(&calls), first);
                    tokio::join!(first, send(client, Arc::clone(&calls), second));
                    return;
                }
                Err(error) => vec![Err(error); checks.len()],
            },
        };
        for (answer, result) in answers.into_iter().zip(results) {
            // An error means that nobody waits any more.
            let _ = answer.send(result);
        }
    })
}
