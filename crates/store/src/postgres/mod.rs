//! Counters in PostgreSQL, for those who have no Redis.
//!
//! Requests that arrive while the database is busy share a transaction. It locks the rows of all their
//! counters, `tollgate_core` judges one request after the other, and what has changed is written. The
//! clock is the database's. Needs PostgreSQL 14 or later.

mod address;
mod batch;
mod connections;
mod counters;
mod failure;
mod node;
mod record;
mod schema;
mod sweep;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_core::{Charge, Key, Timestamp};

use self::connections::Connections;
use self::node::Node;
use self::sweep::Sweeper;
use crate::remote::breaker::Breaker;
use crate::remote::clock::Moment;
use crate::remote::{
    Answer, CounterName, OwnedCharge, OwnedOnce, OwnedRefund, Queue, Request, may_be_unknown,
    only_settled,
};
use crate::{
    Once, Refund, RemoteSettings, RemoteStatus, Settled, Settlement, Store, StoreError,
    StoreErrorKind,
};

/// How many requests share a transaction.
const MOST_IN_BATCH: usize = 64;
/// How many transactions there are at a time. More of them would wait for each other's rows.
const BATCHES_AT_ONCE: usize = 4;

const STATE: &str = "SELECT state FROM tollgate_counters WHERE name = $1";

/// Counters in PostgreSQL.
pub struct PostgresStore {
    node: Arc<Node>,
    queue: Queue,
    _sweeper: Sweeper,
}

impl PostgresStore {
    /// Says what is wrong with a URL, without its password.
    ///
    /// # Errors
    /// That.
    pub fn check_url(url: &str) -> Result<(), String> {
        address::parse(url).map(drop)
    }

    /// A store in the database at a URL such as `postgres://user:password@host:5432/database`. The
    /// database need not be there yet: it is asked when there is something to ask.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL, or that there is no Tokio runtime to work on.
    pub fn connect(url: &str, settings: RemoteSettings) -> Result<Self, String> {
        let (options, server) = address::parse(url)?;
        if Handle::try_current().is_err() {
            return Err("a store in PostgreSQL needs a Tokio runtime".to_owned());
        }
        let node = Arc::new(Node {
            connections: Connections::new(options, settings.deadline),
            breaker: Breaker::new(server, &settings),
            settings,
        });
        let asked = Arc::clone(&node);
        let queue =
            Queue::new(MOST_IN_BATCH, BATCHES_AT_ONCE, move |jobs| Arc::clone(&asked).settle(jobs));
        let _sweeper = Sweeper::start(Arc::clone(&node));
        Ok(Self { node, queue, _sweeper })
    }

    /// How the database is doing.
    #[must_use]
    pub fn status(&self) -> Vec<RemoteStatus> {
        vec![self.node.breaker.status()]
    }

    /// The state of a counter, for tests.
    #[doc(hidden)]
    pub async fn state_text(&self, key: &Key<'_>) -> Option<String> {
        let name = CounterName::of(key);
        let mut connection = self.node.connections.take().await.ok()?;
        let state = sqlx::query_scalar(STATE).bind(name.as_str());
        let state: Option<String> = state.fetch_optional(&mut connection).await.ok()?;
        self.node.connections.give_back(connection);
        state.filter(|state| !state.is_empty())
    }

    fn ask(&self, request: Request, now: Timestamp) -> impl Future<Output = Answer> + Send {
        self.ask_within(self.node.settings.deadline, request, now)
    }

    async fn ask_within(&self, patience: Duration, request: Request, now: Timestamp) -> Answer {
        let admitted = self.node.breaker.admit()?;
        let asking = async { self.queue.send(request, now)?.answer().await };
        let answer = timeout(patience, asking).await;
        let answer = answer.unwrap_or_else(|_| Err(StoreErrorKind::Timeout.into()));
        admitted.tell(&answer);
        answer
    }

    /// Asks several things that belong into one transaction, so that they are done in order.
    async fn ask_together(&self, requests: Vec<Request>, now: Timestamp) -> Vec<Answer> {
        let wanted = requests.len();
        let mut answers = Vec::with_capacity(wanted);
        match self.node.breaker.admit() {
            Ok(admitted) => {
                let asking = async {
                    for pending in &mut self.queue.send_together(requests, now)? {
                        answers.push(pending.answer().await);
                    }
                    Ok(Settled::First(Settlement::default()))
                };
                let asked = timeout(self.node.settings.deadline, asking).await;
                let told = asked.unwrap_or_else(|_| Err(StoreErrorKind::Timeout.into()));
                admitted.tell(answers.last().filter(|_| told.is_ok()).unwrap_or(&told));
                if let Err(error) = told {
                    answers.resize_with(wanted, || Err(error.kind().into()));
                }
            }
            Err(error) => answers.resize_with(wanted, || Err(error.kind().into())),
        }
        answers
    }
}

/// Without secrets.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    async fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Result<Settlement, StoreError> {
        only_settled(self.ask(to_settle(charges), now).await)
    }

    /// Asks once more if the answer got lost: what is charged once can be asked twice.
    async fn settle_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        once: &Once<'_>,
    ) -> Result<Settled, StoreError> {
        let charges = charges.iter().map(OwnedCharge::new).collect();
        let request = Request::SettleOnce(charges, Box::new(OwnedOnce::new(once, None)));
        let began = Moment::now();
        let answer = self.ask(request.clone(), now).await;
        let left = self.node.settings.deadline.checked_sub(began.elapsed());
        match (answer, left) {
            (Err(error), Some(left)) if may_be_unknown(&error) => {
                self.ask_within(left, request, now).await
            }
            (answer, _) => answer,
        }
    }

    fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Settlement, StoreError>>> + Send {
        let batches: Vec<Vec<Request>> = requests
            .chunks(MOST_IN_BATCH)
            .map(|requests| requests.iter().map(|charges| to_settle(charges)).collect())
            .collect();
        async move {
            let mut settled = Vec::new();
            for batch in batches {
                let answers = self.ask_together(batch, now).await;
                settled.extend(answers.into_iter().map(only_settled));
            }
            settled
        }
    }

    async fn refund(&self, refunds: &[Refund<'_>], now: Timestamp) -> Result<(), StoreError> {
        let refunds = refunds.iter().map(OwnedRefund::new).collect();
        self.ask(Request::Refund(refunds), now).await.map(drop)
    }

    async fn reset(&self, keys: &[Key<'_>]) -> Result<(), StoreError> {
        let names: SmallVec<_> = keys.iter().map(CounterName::of).collect();
        self.ask(Request::Reset(names), Timestamp::EPOCH).await.map(drop)
    }
}

fn to_settle(charges: &[Charge<'_>]) -> Request {
    Request::Settle(charges.iter().map(OwnedCharge::new).collect())
}
