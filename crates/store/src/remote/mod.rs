//! What stores across a network have in common: names of counters that tell nobody who is counted,
//! requests that can travel, and what is done when the other side does not answer.

pub(crate) mod breaker;
pub(crate) mod clock;
mod memo;
mod name;
mod queue;
mod settings;

use std::slice;

use smallvec::SmallVec;
use tollgate_core::{Charge, Limit, Micros, Mode, Timestamp};

pub(crate) use memo::Memo;
pub(crate) use name::CounterName;
#[cfg(feature = "redis")]
pub(crate) use queue::Pending;
pub(crate) use queue::{Job, Queue};
pub use settings::{BreakerState, RemoteSettings, RemoteStatus};

use crate::{Once, Refund, Settled, Settlement, StoreError, StoreErrorKind};

/// What became of a request.
pub(crate) type Answer = Result<Settled, StoreError>;

/// What became of a request that nobody remembers, so that it cannot be a copy.
pub(crate) fn only_settled(answer: Answer) -> Result<Settlement, StoreError> {
    match answer? {
        Settled::First(settlement) => Ok(settlement),
        Settled::Again { .. } | Settled::Conflict => Err(StoreErrorKind::Corrupt.into()),
    }
}

/// Whether it may have been done all the same, or may be if it is tried again.
pub(crate) fn may_be_unknown(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

/// A [`Charge`] that can travel.
#[derive(Clone, Debug)]
pub(crate) struct OwnedCharge {
    pub(crate) name: CounterName,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
}

impl OwnedCharge {
    pub(crate) fn new(charge: &Charge<'_>) -> Self {
        let Charge { key, limit, cost, mode } = charge;
        Self { name: CounterName::of(key), limit: **limit, cost: *cost, mode: *mode }
    }
}

/// A [`Refund`] that can travel.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRefund {
    pub(crate) name: CounterName,
    pub(crate) limit: Limit,
    pub(crate) units: u64,
    pub(crate) charged_at: Option<Timestamp>,
}

impl OwnedRefund {
    pub(crate) fn new(refund: &Refund<'_>) -> Self {
        let Refund { key, limit, units, charged_at } = *refund;
        Self { name: CounterName::of(&key), limit: *limit, units, charged_at }
    }
}

/// A [`Once`] that can travel.
#[derive(Clone, Debug)]
pub(crate) struct OwnedOnce {
    /// What its record is called.
    pub(crate) record: CounterName,
    pub(crate) body: [u8; 16],
    pub(crate) memo: Memo,
    pub(crate) lifetime: Micros,
}

impl OwnedOnce {
    /// Where counters of one subject have to lie together, the record does so `beside` one of them.
    pub(crate) fn new(once: &Once<'_>, beside: Option<&CounterName>) -> Self {
        let Once { call, body, note, lifetime } = *once;
        let memo = Memo { note: note.to_owned(), ..Memo::default() };
        Self { record: CounterName::of_record(call, beside), body, memo, lifetime }
    }
}

/// A request that can travel.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Settle(SmallVec<[OwnedCharge; 4]>),
    SettleOnce(SmallVec<[OwnedCharge; 4]>, Box<OwnedOnce>),
    Refund(SmallVec<[OwnedRefund; 4]>),
    Reset(SmallVec<[CounterName; 4]>),
}

impl Request {
    /// The counters that it is about, and the record that may be there of it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &CounterName> {
        let (charges, refunds, others): (&[OwnedCharge], &[OwnedRefund], &[CounterName]) =
            match self {
                Self::Settle(charges) => (charges, &[], &[]),
                Self::SettleOnce(charges, once) => (charges, &[], slice::from_ref(&once.record)),
                Self::Refund(refunds) => (&[], refunds, &[]),
                Self::Reset(names) => (&[], &[], names),
            };
        let charged = charges.iter().map(|charge| &charge.name);
        charged.chain(refunds.iter().map(|refund| &refund.name)).chain(others)
    }

    /// The limits that it is charged to or gives back to.
    #[cfg(feature = "postgres")]
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limit> {
        let (charges, refunds): (&[OwnedCharge], &[OwnedRefund]) = match self {
            Self::Settle(charges) | Self::SettleOnce(charges, _) => (charges, &[]),
            Self::Refund(refunds) => (&[], refunds),
            Self::Reset(_) => (&[], &[]),
        };
        charges.iter().map(|charge| &charge.limit).chain(refunds.iter().map(|one| &one.limit))
    }
}
