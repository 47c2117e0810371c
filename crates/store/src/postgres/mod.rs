//! Counters in PostgreSQL, for installations without Redis.
//!
//! Requests that arrive while the database is busy share a transaction. It locks the rows of all their counters,
//! `tollgate_core` settles one request after the other, and the changes are written. The clock is the database's.
//! Needs PostgreSQL 14 or later.

mod address;
mod batch;
mod connections;
mod counters;
mod database;
mod failure;
mod fleet_mark;
#[cfg(feature = "redis")]
mod mailbox;
mod probe;
mod record;
mod schema;
mod sweep;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_core::{Key, Timestamp};

#[cfg(feature = "redis")]
pub(crate) use self::mailbox::PostgresMailbox;

use self::connections::PostgresConnections;
use self::database::Database;
use self::sweep::Sweeper;
use crate::remote::breaker::{Breaker, Proof};
use crate::remote::clock::Moment;
use crate::remote::{
    CounterName, OpResult, OwnedCharge, OwnedExpiringRefund, OwnedIdempotencyKey, OwnedOp,
    OwnedRecordRef, OwnedRefund, OwnedRefundOnce, Queue, RefundAttempt, may_be_unknown,
};
use crate::{
    Op, OpOutcome, Outcomes, RefundOnce, RemoteSettings, RemoteStatus, SettleRequest, Settlement,
    Store, StoreError, StoreErrorKind,
};

/// How many requests share a transaction.
const MAX_BATCH: usize = 64;
/// How many transactions run at a time. More of them would wait for each other's rows.
const MAX_CONCURRENT_BATCHES: usize = 4;

/// How counters are named: without groups it was 0, and refunds of decisions of that time must not reach counters of today.
const NAMING: u64 = 1;

const STATE: &str = "SELECT state FROM tollgate_counters WHERE name = $1";

/// Counters in PostgreSQL.
pub struct PostgresStore {
    database: Arc<Database>,
    queue: Queue,
    _sweeper: Sweeper,
}

impl PostgresStore {
    /// Checks a URL.
    ///
    /// # Errors
    /// What is wrong with it, without its password.
    pub fn check_url(url: &str) -> Result<(), String> {
        address::parse(url).map(drop)
    }

    /// A store in the database at a URL such as `postgres://user:password@host:5432/database`. It connects in the
    /// background, so the database may still be starting.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL, or that there is no Tokio runtime.
    pub fn connect(url: &str, settings: RemoteSettings) -> Result<Self, String> {
        let (options, server) = address::parse(url)?;
        if Handle::try_current().is_err() {
            return Err("a store in PostgreSQL needs a Tokio runtime".to_owned());
        }
        let database = Arc::new(Database {
            connections: PostgresConnections::new(options, settings.deadline),
            breaker: Breaker::new(server, &settings),
            settings,
        });
        let asked = Arc::clone(&database);
        let queue = Queue::new(MAX_BATCH, MAX_CONCURRENT_BATCHES, move |jobs| {
            Arc::clone(&asked).settle(jobs)
        });
        let _sweeper = Sweeper::start(Arc::clone(&database));
        Ok(Self { database, queue, _sweeper })
    }

    /// The status of the database.
    #[must_use]
    pub fn status(&self) -> Vec<RemoteStatus> {
        vec![self.database.breaker.status()]
    }

    /// The state of a counter, for tests.
    #[doc(hidden)]
    pub async fn state_text(&self, key: &Key<'_>) -> Option<String> {
        let name = CounterName::of(key);
        let mut connection = self.database.connections.take().await.ok()?;
        let state = sqlx::query_scalar(STATE).bind(name.as_str());
        let state: Option<String> = state.fetch_optional(&mut connection).await.ok()?;
        self.database.connections.give_back(connection);
        state.filter(|state| !state.is_empty())
    }

    /// Carries out one operation.
    async fn run(&self, op: OwnedOp, now: Timestamp) -> OpResult {
        if !op.is_idempotent() {
            return self.run_within(self.database.settings.deadline, op, now).await;
        }
        // Retried once if the result was lost: it is carried out once.
        let began = Moment::now();
        let result = self.run_within(self.database.settings.deadline, op.clone(), now).await;
        let left = self.database.settings.deadline.checked_sub(began.elapsed());
        match (result, left) {
            (Err(error), Some(left)) if may_be_unknown(&error) => {
                self.run_within(left, op, now).await
            }
            (result, _) => result,
        }
    }

    async fn run_within(&self, time: Duration, op: OwnedOp, now: Timestamp) -> OpResult {
        let admitted = self.database.breaker.admit()?;
        let is_charge = op.is_charge();
        let running = async { self.queue.send(op, now)?.result().await };
        let result = timeout(time, running).await;
        let result = result.unwrap_or_else(|_| Err(StoreErrorKind::Timeout.into()));
        admitted.record(&result, Proof::of(is_charge, &result));
        result
    }

    /// Carries out several operations in one transaction, so that they keep their order.
    async fn run_together(&self, ops: Vec<OwnedOp>, now: Timestamp, results: &mut Outcomes) {
        let end = results.len() + ops.len();
        match self.database.breaker.admit() {
            Ok(admitted) => {
                let is_charge = ops.last().is_some_and(OwnedOp::is_charge);
                let running = async {
                    for pending in &mut self.queue.send_together(ops, now)? {
                        results.push(pending.result().await);
                    }
                    Ok(OpOutcome::Done)
                };
                let ran = timeout(self.database.settings.deadline, running).await;
                let ran = ran.unwrap_or_else(|_| Err(StoreErrorKind::Timeout.into()));
                let last = results.last().filter(|_| ran.is_ok()).unwrap_or(&ran);
                admitted.record(last, Proof::of(is_charge, last));
                if let Err(error) = ran {
                    results.resize_with(end, || Err(error.kind().into()));
                }
            }
            Err(error) => results.resize_with(end, || Err(error.kind().into())),
        }
    }
}

/// Omits secrets.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn naming(&self) -> u64 {
        NAMING
    }

    fn try_settle(&self, _: &SettleRequest<'_>, _: Timestamp, _: &mut Settlement) -> bool {
        false
    }

    async fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> Outcomes {
        if let [op] = ops {
            return smallvec![match owned(op) {
                Ok(op) => self.run(op, now).await,
                Err(error) => Err(error),
            }];
        }
        let mut results = Outcomes::with_capacity(ops.len());
        for batch in ops.chunks(MAX_BATCH) {
            match batch.iter().map(owned).collect() {
                Ok(batch) => self.run_together(batch, now, &mut results).await,
                Err(error) => {
                    let error: StoreError = error;
                    results.extend(batch.iter().map(|_| Err(error.kind().into())));
                }
            }
        }
        results
    }
}

/// Copies an operation, to send it to another task.
fn owned(op: &Op<'_>) -> Result<OwnedOp, StoreError> {
    Ok(match op {
        Op::Settle(SettleRequest { charges, idempotency, is_dry_run }) => OwnedOp::Settle {
            charges: charges
                .iter()
                .map(|charge| OwnedCharge::new(charge, CounterName::of(&charge.key)))
                .collect(),
            idempotency: idempotency.map(|key| Box::new(OwnedIdempotencyKey::new(key, None))),
            is_dry_run: *is_dry_run,
        },
        Op::Refund(refunds) => {
            let owned =
                |refund: &crate::Refund<'_>| OwnedRefund::new(refund, CounterName::of(&refund.key));
            OwnedOp::Refund(refunds.iter().map(owned).collect())
        }
        Op::RefundOnce(RefundOnce { refunds, mark }) => {
            let refunds = refunds
                .iter()
                .map(|one| OwnedExpiringRefund::new(one, CounterName::of(&one.refund.key)));
            let refunds = refunds.collect();
            let attempt = RefundAttempt::random()?;
            OwnedOp::RefundOnce(Box::new(OwnedRefundOnce::new(refunds, *mark, false, attempt)))
        }
        Op::Reset(keys) => OwnedOp::Reset(keys.iter().map(CounterName::of).collect()),
        Op::FindRecord(record) => {
            OwnedOp::Record(Box::new(OwnedRecordRef::new(record, None, false)))
        }
        Op::ForgetRecord(record) => {
            OwnedOp::Record(Box::new(OwnedRecordRef::new(record, None, true)))
        }
    })
}
