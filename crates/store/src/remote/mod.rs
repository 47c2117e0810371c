//! What stores across a network share: names of counters that reveal no identifiers, owned operations, queues and
//! circuit breakers.

pub(crate) mod breaker;
pub(crate) mod clock;
mod counter_key;
mod fleet_gate;
mod idempotency_record;
mod name;
mod queue;
mod refund_once;
mod settings;
mod store_number;

use std::slice;

use smallvec::SmallVec;
use tollgate_core::{Charge, Limit, Micros, Mode, Timestamp};

pub use counter_key::CounterKey;
pub use fleet_gate::{FleetGate, StoreMark};
pub(crate) use fleet_gate::{FleetMark, MARK_NAME};
pub(crate) use idempotency_record::IdempotencyRecord;
pub(crate) use name::CounterName;
#[cfg(feature = "redis")]
pub(crate) use queue::PendingResult;
pub(crate) use queue::{Job, Queue};
pub(crate) use refund_once::{OwnedExpiringRefund, OwnedRefundOnce, RefundAttempt};
pub use settings::{BreakerState, RemoteSettings, RemoteStatus};
pub(crate) use store_number::NUMBER_NAME;
pub use store_number::StoreNumber;

use crate::{IdempotencyKey, OpOutcome, RecordRef, Refund, StoreError, StoreErrorKind};

/// The longest message between nodes. PostgreSQL takes less than 8,000 bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 7_900;
/// How many messages to a node may wait; more are lost.
pub(crate) const INBOX_CAPACITY: usize = 256;

/// The result of an operation.
pub(crate) type OpResult = Result<OpOutcome, StoreError>;

/// Whether the operation may have been carried out, or may be if it is retried.
pub(crate) fn may_be_unknown(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Timeout)
}

/// An owned [`Charge`].
#[derive(Clone, Debug)]
pub(crate) struct OwnedCharge {
    pub(crate) name: CounterName,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
    pub(crate) mode: Mode,
}

impl OwnedCharge {
    pub(crate) fn new(charge: &Charge<'_>, name: CounterName) -> Self {
        let Charge { limit, cost, mode, .. } = charge;
        Self { name, limit: **limit, cost: *cost, mode: *mode }
    }
}

/// An owned [`Refund`].
#[derive(Clone, Debug)]
pub(crate) struct OwnedRefund {
    pub(crate) name: CounterName,
    pub(crate) limit: Limit,
    pub(crate) units: u64,
    pub(crate) charged_at: Option<Timestamp>,
    /// How far off that time may be: servers of a cluster have different clocks, and a request has one time.
    pub(crate) slack_ms: u64,
}

impl OwnedRefund {
    pub(crate) fn new(refund: &Refund<'_>, name: CounterName) -> Self {
        let Refund { limit, units, charged_at, .. } = *refund;
        Self { name, limit: *limit, units, charged_at, slack_ms: 0 }
    }
}

/// An owned [`IdempotencyKey`].
#[derive(Clone, Debug)]
pub(crate) struct OwnedIdempotencyKey {
    /// The name of its record.
    pub(crate) record_name: CounterName,
    pub(crate) body: [u8; 16],
    pub(crate) record: IdempotencyRecord,
    pub(crate) lifetime: Micros,
}

impl OwnedIdempotencyKey {
    /// Where counters of one subject have to share a slot, the record is `beside` one of them.
    pub(crate) fn new(key: &IdempotencyKey<'_>, beside: Option<&CounterName>) -> Self {
        let IdempotencyKey { call, body, note, lifetime } = *key;
        let record = IdempotencyRecord { note: note.to_owned(), ..IdempotencyRecord::default() };
        Self { record_name: CounterName::of_record(call, beside), body, record, lifetime }
    }
}

/// An owned [`RecordRef`], and what is done with the record.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRecordRef {
    pub(crate) record_name: CounterName,
    pub(crate) note: String,
    pub(crate) is_forgotten: bool,
}

impl OwnedRecordRef {
    /// Where counters of one subject have to share a slot, the record is `beside` one of them.
    pub(crate) fn new(
        record: &RecordRef<'_>,
        beside: Option<&CounterName>,
        is_forgotten: bool,
    ) -> Self {
        let RecordRef { call, note, .. } = record;
        let record_name = CounterName::of_record(*call, beside);
        Self { record_name, note: (*note).to_owned(), is_forgotten }
    }
}

pub(crate) type OwnedCharges = SmallVec<[OwnedCharge; 4]>;

/// An owned [`Op`](crate::Op).
#[derive(Clone, Debug)]
pub(crate) enum OwnedOp {
    Settle {
        charges: OwnedCharges,
        idempotency: Option<Box<OwnedIdempotencyKey>>,
        is_dry_run: bool,
    },
    Refund(SmallVec<[OwnedRefund; 4]>),
    RefundOnce(Box<OwnedRefundOnce>),
    Reset(SmallVec<[CounterName; 4]>),
    Record(Box<OwnedRecordRef>),
}

impl OwnedOp {
    /// Charges of a request without an idempotency key.
    pub(crate) const fn charge(charges: OwnedCharges) -> Self {
        Self::Settle { charges, idempotency: None, is_dry_run: false }
    }

    /// Whether it charges something if it passes. Only then it is known to write.
    pub(crate) fn is_charge(&self) -> bool {
        match self {
            Self::Settle { charges, is_dry_run: false, .. } => {
                charges.iter().any(|charge| charge.cost > 0)
            }
            _ => false,
        }
    }

    /// Whether it can be repeated if its result was lost, since it is carried out once.
    #[cfg(feature = "postgres")]
    pub(crate) const fn is_idempotent(&self) -> bool {
        matches!(
            self,
            Self::Settle { idempotency: Some(_), .. } | Self::RefundOnce(_) | Self::Record(_)
        )
    }

    /// The names of its counters, and then of the record of its idempotency key or of its mark.
    pub(crate) fn names(&self) -> impl Iterator<Item = &CounterName> {
        let OpParts { charges, refunds, expiring, others } = self.parts();
        let charged = charges.iter().map(|charge| &charge.name);
        let refunded = refunds.iter().chain(expiring.iter().map(|one| &one.refund));
        charged.chain(refunded.map(|refund| &refund.name)).chain(others)
    }

    /// The names of its counters.
    #[cfg(feature = "redis")]
    pub(crate) fn counters(&self) -> impl Iterator<Item = &CounterName> {
        let others = match self {
            Self::Reset(names) => names.as_slice(),
            Self::Settle { .. } | Self::Refund(_) | Self::RefundOnce(_) | Self::Record(_) => &[],
        };
        let OpParts { charges, refunds, expiring, .. } = self.parts();
        let charged = charges.iter().map(|charge| &charge.name);
        let refunded = refunds.iter().chain(expiring.iter().map(|one| &one.refund));
        charged.chain(refunded.map(|refund| &refund.name)).chain(others)
    }

    /// The limits of its counters.
    #[cfg(feature = "postgres")]
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limit> {
        let OpParts { charges, refunds, expiring, .. } = self.parts();
        let refunded = refunds.iter().chain(expiring.iter().map(|one| &one.refund));
        charges.iter().map(|charge| &charge.limit).chain(refunded.map(|refund| &refund.limit))
    }

    fn parts(&self) -> OpParts<'_> {
        match self {
            Self::Settle { charges, idempotency, .. } => {
                let record = idempotency.as_ref().map(|key| slice::from_ref(&key.record_name));
                OpParts { charges, others: record.unwrap_or_default(), ..OpParts::default() }
            }
            Self::Refund(refunds) => OpParts { refunds, ..OpParts::default() },
            Self::RefundOnce(once) => {
                let others = slice::from_ref(&once.mark_name);
                OpParts { expiring: &once.refunds, others, ..OpParts::default() }
            }
            Self::Reset(others) => OpParts { others, ..OpParts::default() },
            Self::Record(record) => {
                OpParts { others: slice::from_ref(&record.record_name), ..OpParts::default() }
            }
        }
    }
}

/// What an operation is about. Most of it is empty.
#[derive(Clone, Copy, Default)]
struct OpParts<'a> {
    charges: &'a [OwnedCharge],
    refunds: &'a [OwnedRefund],
    expiring: &'a [OwnedExpiringRefund],
    others: &'a [CounterName],
}
