//! The interface of every store: operations in, outcomes out. It carries data, never behaviour, so that a counter may
//! be a cache line away or a network away.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, ChargeResult, Key, Limit, Timestamp};

use crate::idempotency::{IdempotencyKey, RecordRef};

/// One operation on counters.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Charge the counters of one request.
    Settle(SettleRequest<'a>),
    /// Return units to counters.
    Refund(&'a [Refund<'a>]),
    /// Return what one request was charged, once.
    RefundOnce(RefundOnce<'a>),
    /// Forget counters.
    Reset(&'a [Key<'a>]),
    /// Look for the record of a request that passed with an idempotency key. A store that is not shared has none.
    FindRecord(RecordRef<'a>),
    /// Forget such a record: the next request with that key is the first.
    ForgetRecord(RecordRef<'a>),
}

/// The charges of one request: all are made, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct SettleRequest<'a> {
    /// The keys are distinct. A cost of zero reads a counter without charging it.
    pub charges: &'a [Charge<'a>],
    /// Charges the request once, however many copies of it there are and whichever process they reach. A store that
    /// is not shared ignores it: its caller can keep the record as well.
    ///
    /// After an error, a retry finds out whether the first copy was charged.
    pub idempotency: Option<&'a IdempotencyKey<'a>>,
    /// Reports whether each charge fits, and charges nothing.
    pub is_dry_run: bool,
}

impl<'a> From<&'a [Charge<'a>]> for SettleRequest<'a> {
    fn from(charges: &'a [Charge<'a>]) -> Self {
        Self { charges, ..Self::default() }
    }
}

/// Units to refund to one counter.
#[derive(Clone, Copy, Debug)]
pub struct Refund<'a> {
    /// The counter.
    pub key: Key<'a>,
    /// Its limit.
    pub limit: &'a Limit,
    /// How many units.
    pub units: u64,
    /// When they were charged: they go back to that window or entry, and are dropped if it has expired. `None`: to
    /// the newest.
    pub charged_at: Option<Timestamp>,
}

/// A refund that is made once, however often it is repeated and whichever process makes it. A store that is not shared
/// makes it each time: its caller can remember it as well.
///
/// After an error, a retry refunds what was not refunded yet.
#[derive(Clone, Copy, Debug)]
pub struct RefundOnce<'a> {
    /// What was charged. The keys are distinct.
    pub refunds: &'a [ExpiringRefund<'a>],
    /// Identifies the refund, in every process that shares the store.
    pub mark: [u8; 16],
}

/// A refund that is worth something only for a while.
#[derive(Clone, Copy, Debug)]
pub struct ExpiringRefund<'a> {
    /// What is refunded.
    pub refund: Refund<'a>,
    /// When the charge has no effect any more, by the clock of the store. Nothing is refunded from then on.
    pub ends_at: Timestamp,
}

/// How the charges of one request were settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// When the request was settled, by the clock of the store, if it has one.
    pub now: Timestamp,
    /// Whether every enforced charge fitted. If not, nothing was charged.
    pub passed: bool,
    /// One result for each charge, in order, unless only one was read.
    pub results: SmallVec<[ChargeResult; 4]>,
    /// The index of the only charge that was read, because its refusal decided the request. It has the only result.
    /// `None`: all were read.
    pub only: Option<usize>,
    /// Whether a counter that was read has held units. They can be released at any moment, and then what was refused
    /// may fit.
    pub has_held_units: bool,
}

impl Settlement {
    /// The results, each with the index of its charge.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &ChargeResult)> {
        let first = self.only.unwrap_or(0);
        self.results.iter().enumerate().map(move |(place, result)| (first + place, result))
    }
}

/// The outcome of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpOutcome {
    /// The request was settled: it has no idempotency key, is the first with it, or none before it
    /// passed.
    Settled(Settlement),
    /// The request is a copy of one that passed, and was not charged.
    Replayed {
        /// How the first was settled. The figures of a limit that did not exist then are those of now.
        settlement: Settlement,
        /// The note of the first.
        note: String,
    },
    /// Another request passed under the same idempotency key. Nothing was charged.
    KeyReused,
    /// Units were returned, or counters forgotten.
    Done,
    /// The refund was made now.
    Refunded {
        /// To how many counters. Those whose charge has ended are not among them.
        counters: usize,
    },
    /// The refund was made before. Nothing was changed.
    RefundedBefore,
    /// All charges have ended, so there is nothing to refund.
    RefundExpired,
    /// A record was looked for, or forgotten.
    Record {
        /// Whether it was there.
        is_there: bool,
    },
}

/// The outcome of each operation, in order.
pub type Outcomes = SmallVec<[Result<OpOutcome, StoreError>; 1]>;

/// Where counters are kept.
pub trait Store: Send + Sync + 'static {
    /// Whether other processes share the counters.
    fn is_shared(&self) -> bool;

    /// Identifies how counters are named. Under another one, all counters are new.
    fn naming(&self) -> u64 {
        0
    }

    /// The key of the record that has a counter, for people who look into the store; `None` if it has no such keys.
    fn record_key(&self, _key: &Key<'_>) -> Option<String> {
        None
    }

    /// Settles a request without waiting, into `settlement`, which has no results yet. `false`: the store cannot
    /// decide at once, and nothing was charged; [`Store::submit`] the request.
    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool;

    /// Announces that the counter with this fingerprint is about to be charged, so that it can be fetched from memory
    /// meanwhile.
    fn prefetch(&self, _fingerprint: u64) {}

    /// Carries out operations, each independently, in order. They overlap where they can.
    fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> impl Future<Output = Outcomes> + Send;

    /// Submits one operation.
    fn submit_one(
        &self,
        op: Op<'_>,
        now: Timestamp,
    ) -> impl Future<Output = Result<OpOutcome, StoreError>> + Send {
        async move {
            let outcome = self.submit(&[op], now).await.pop();
            outcome.unwrap_or_else(|| Err(StoreErrorKind::Corrupt.into()))
        }
    }

    /// Submits the charges of one request.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send {
        async move {
            let outcome = self.submit_one(Op::Settle(charges.into()), now).await;
            outcome.and_then(OpOutcome::settled)
        }
    }

    /// Submits the charges of several requests.
    fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Settlement, StoreError>>> + Send {
        async move {
            let ops: Vec<Op<'_>> =
                requests.iter().map(|charges| Op::Settle((*charges).into())).collect();
            let outcomes = self.submit(&ops, now).await.into_iter();
            outcomes.map(|outcome| outcome.and_then(OpOutcome::settled)).collect()
        }
    }

    /// Submits refunds.
    fn refund(
        &self,
        refunds: &[Refund<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move { self.submit_one(Op::Refund(refunds), now).await.map(drop) }
    }

    /// Submits a reset. It does not depend on the time.
    fn reset(&self, keys: &[Key<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        async move { self.submit_one(Op::Reset(keys), Timestamp::EPOCH).await.map(drop) }
    }
}

impl OpOutcome {
    /// The settlement of a request without an idempotency key.
    ///
    /// # Errors
    /// The outcome is that of another operation.
    pub fn settled(self) -> Result<Settlement, StoreError> {
        match self {
            Self::Settled(settlement) => Ok(settlement),
            Self::Replayed { .. }
            | Self::KeyReused
            | Self::Done
            | Self::Refunded { .. }
            | Self::RefundedBefore
            | Self::RefundExpired
            | Self::Record { .. } => Err(StoreErrorKind::Corrupt.into()),
        }
    }
}

/// A shared store.
impl<S: Store> Store for Arc<S> {
    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    fn naming(&self) -> u64 {
        (**self).naming()
    }

    fn record_key(&self, key: &Key<'_>) -> Option<String> {
        (**self).record_key(key)
    }

    #[inline]
    fn try_settle(
        &self,
        request: &SettleRequest<'_>,
        now: Timestamp,
        settlement: &mut Settlement,
    ) -> bool {
        (**self).try_settle(request, now, settlement)
    }

    #[inline]
    fn prefetch(&self, fingerprint: u64) {
        (**self).prefetch(fingerprint);
    }

    fn submit(&self, ops: &[Op<'_>], now: Timestamp) -> impl Future<Output = Outcomes> + Send {
        (**self).submit(ops, now)
    }
}

/// Why a store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// It cannot be reached.
    Unavailable,
    /// It did not respond in time; whether it charged is unknown.
    Timeout,
    /// Its response is invalid.
    Corrupt,
    /// It refused: out of memory, read only, not permitted.
    Refused,
    /// It belongs to another fleet, which has another secret: it is not called.
    OtherFleet,
}

impl StoreErrorKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Unavailable, Self::Timeout, Self::Corrupt, Self::Refused, Self::OtherFleet];

    /// A single word, for responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Corrupt => "corrupt",
            Self::Refused => "refused",
            Self::OtherFleet => "other_fleet",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The label in metrics of a server: an unreachable one counts as a connection error.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unavailable => "connection",
            _ => self.name(),
        }
    }
}

/// A store that failed. No decision may depend on the text.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error of this kind, caused by `source`.
    #[must_use]
    pub fn new(
        kind: StoreErrorKind,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// What went wrong.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl From<StoreErrorKind> for StoreError {
    fn from(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Unavailable => "the store cannot be reached",
            StoreErrorKind::Timeout => "the store did not respond in time",
            StoreErrorKind::Corrupt => "the store sent an invalid response",
            StoreErrorKind::Refused => "the store refused the request",
            StoreErrorKind::OtherFleet => "the store belongs to another fleet",
        })
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
