//! The seam between judging and counting. It carries data, never behaviour, so that a counter may
//! be a cache line away or a network away.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::{Charge, Key, Limit, Line, Timestamp};

use crate::once::{Once, Settled};

/// What became of the charges of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// The moment the store judged at: its own clock, where it has one.
    pub now: Timestamp,
    /// Whether every enforced charge fitted. If not, nothing was taken.
    pub passed: bool,
    /// One line for each charge, in order, unless only one was looked at.
    pub lines: SmallVec<[Line; 4]>,
    /// The number of the only charge that was looked at, because its refusal settled the matter. It
    /// has the only line. `None`: all were looked at.
    pub only: Option<usize>,
}

impl Settlement {
    /// The lines, each with the number of its charge.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        let first = self.only.unwrap_or(0);
        self.lines.iter().enumerate().map(move |(place, line)| (first + place, line))
    }
}

/// Units to give back to one counter.
#[derive(Clone, Copy, Debug)]
pub struct Refund<'a> {
    /// The counter.
    pub key: Key<'a>,
    /// Its limit.
    pub limit: &'a Limit,
    /// How many units.
    pub units: u64,
    /// When they were charged: they go back to that window or entry, or nowhere. `None`: to the
    /// newest.
    pub charged_at: Option<Timestamp>,
}

/// Counters, somewhere.
pub trait Store: Send + Sync {
    /// Whether other processes count here too. Counters of one process are as close as can be
    /// already, and cannot be away.
    fn is_shared(&self) -> bool;

    /// Charges all counters or none. The keys are distinct; a cost of zero looks without charging. A
    /// request that is only to be tried has a charge of a rule without a name, which never fits.
    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send;

    /// [`Store::settle`] of a request that is charged once, however many copies of it there are and
    /// whichever process they reach. A store that no other process shares settles it as any other:
    /// whoever asks can remember it as well.
    ///
    /// After an error, the copy that is sent next finds out what became of the first.
    fn settle_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        _once: &Once<'_>,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        async move { self.settle(charges, now).await.map(Settled::First) }
    }

    /// Whether the store never waits, so that it can be asked with [`Store::settle_at_once`].
    fn is_immediate(&self) -> bool {
        false
    }

    /// [`Store::settle`] without waiting: writes a line for each charge into `lines`, which is
    /// empty. `false`: the store is not immediate, and nothing was charged.
    fn settle_at_once(
        &self,
        _charges: &[Charge<'_>],
        _now: Timestamp,
        _lines: &mut SmallVec<[Line; 4]>,
    ) -> bool {
        false
    }

    /// Says that the counter whose key has that fingerprint is about to be charged, so that it can
    /// be on its way already.
    fn prefetch(&self, _fingerprint: u64) {}

    /// Settles several requests, each on its own, in order. A store that can overlap their costs
    /// does.
    fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Settlement, StoreError>>> + Send {
        async move {
            let mut settled = Vec::with_capacity(requests.len());
            for charges in requests {
                settled.push(self.settle(charges, now).await);
            }
            settled
        }
    }

    /// Gives units back to each counter.
    fn refund(
        &self,
        refunds: &[Refund<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets the counters.
    fn reset(&self, keys: &[Key<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store that several share.
impl<S: Store> Store for Arc<S> {
    fn is_shared(&self) -> bool {
        (**self).is_shared()
    }

    fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<Settlement, StoreError>> + Send {
        (**self).settle(charges, now)
    }

    fn settle_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        once: &Once<'_>,
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        (**self).settle_once(charges, now, once)
    }

    fn is_immediate(&self) -> bool {
        (**self).is_immediate()
    }

    #[inline]
    fn settle_at_once(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        lines: &mut SmallVec<[Line; 4]>,
    ) -> bool {
        (**self).settle_at_once(charges, now, lines)
    }

    #[inline]
    fn prefetch(&self, fingerprint: u64) {
        (**self).prefetch(fingerprint);
    }

    fn settle_batch(
        &self,
        requests: &[&[Charge<'_>]],
        now: Timestamp,
    ) -> impl Future<Output = Vec<Result<Settlement, StoreError>>> + Send {
        (**self).settle_batch(requests, now)
    }

    fn refund(
        &self,
        refunds: &[Refund<'_>],
        now: Timestamp,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).refund(refunds, now)
    }

    fn reset(&self, keys: &[Key<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        (**self).reset(keys)
    }
}

/// Why a store could not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// It cannot be reached.
    Unavailable,
    /// It did not answer in time; whether it charged is unknown.
    Timeout,
    /// It answered something that is no answer.
    Corrupt,
    /// It refused: out of memory, read only, not permitted.
    Refused,
}

impl StoreErrorKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unavailable, Self::Timeout, Self::Corrupt, Self::Refused];

    /// The label in metrics of a server: one that cannot be reached is a matter of connections.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unavailable => "connection",
            Self::Timeout => "timeout",
            Self::Corrupt => "corrupt",
            Self::Refused => "refused",
        }
    }
}

/// A store that could not answer. Nothing of a request's judgement may depend on the text.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error of that kind, caused by `source`.
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

/// One word, for answers and metrics.
impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Corrupt => "corrupt",
            Self::Refused => "refused",
        })
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            StoreErrorKind::Unavailable => "the store cannot be reached",
            StoreErrorKind::Timeout => "the store did not answer in time",
            StoreErrorKind::Corrupt => "the store answered something unreadable",
            StoreErrorKind::Refused => "the store refused the request",
        })
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
