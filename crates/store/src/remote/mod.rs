//! What stores across a network have in common: names of counters that tell nobody who is counted,
//! requests that can travel, and what is done when the other side does not answer.

pub(crate) mod breaker;
pub(crate) mod clock;
mod name;
mod queue;
mod settings;

use smallvec::SmallVec;
use tollgate_core::{Charge, Limit, Mode, Timestamp};

pub(crate) use name::CounterName;
pub(crate) use queue::{Job, Pending, Queue};
pub use settings::{BreakerState, RemoteSettings, RemoteStatus};

use crate::{Refund, Settlement, StoreError};

/// What became of a request.
pub(crate) type Answer = Result<Settlement, StoreError>;

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

/// A request that can travel.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Settle(SmallVec<[OwnedCharge; 4]>),
    Refund(SmallVec<[OwnedRefund; 4]>),
    Reset(SmallVec<[CounterName; 4]>),
}

impl Request {
    /// The counters that it is about.
    pub(crate) fn names(&self) -> impl Iterator<Item = &CounterName> {
        let (charges, refunds, resets): (&[OwnedCharge], &[OwnedRefund], &[CounterName]) =
            match self {
                Self::Settle(charges) => (charges, &[], &[]),
                Self::Refund(refunds) => (&[], refunds, &[]),
                Self::Reset(names) => (&[], &[], names),
            };
        let charged = charges.iter().map(|charge| &charge.name);
        charged.chain(refunds.iter().map(|refund| &refund.name)).chain(resets)
    }
}
