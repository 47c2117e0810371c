//! A refund that is made once: a mark in the store says that it was.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;
use tollgate_core::Timestamp;

use super::{CounterName, OwnedRefund};
use crate::{ExpiringRefund, StoreError, StoreErrorKind};

/// The first word of a mark, so that it is no state of a counter.
const MARK_PREFIX: &str = "refunded";

/// An owned [`ExpiringRefund`].
#[derive(Clone, Debug)]
pub(crate) struct OwnedExpiringRefund {
    pub(crate) refund: OwnedRefund,
    pub(crate) ends_at: Timestamp,
}

impl OwnedExpiringRefund {
    pub(crate) fn new(one: &ExpiringRefund<'_>, name: CounterName) -> Self {
        Self { refund: OwnedRefund::new(&one.refund, name), ends_at: one.ends_at }
    }
}

/// An owned [`RefundOnce`](crate::RefundOnce), or the part of it in one slot.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRefundOnce {
    pub(crate) refunds: SmallVec<[OwnedExpiringRefund; 4]>,
    /// The name of its mark.
    pub(crate) mark_name: CounterName,
    /// The content of the mark: a retry whose first result was lost recognizes its mark.
    pub(crate) attempt: RefundAttempt,
}

impl OwnedRefundOnce {
    /// Where counters of one subject have to share a slot, the mark is beside the first of them.
    pub(crate) fn new(
        refunds: SmallVec<[OwnedExpiringRefund; 4]>,
        mark: [u8; 16],
        is_beside: bool,
        attempt: RefundAttempt,
    ) -> Self {
        let beside = refunds.first().map(|one| &one.refund.name).filter(|_| is_beside);
        let mark_name = CounterName::of_mark(mark, beside);
        Self { refunds, mark_name, attempt }
    }
}

/// Tells attempts to make a refund apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefundAttempt(u64);

impl RefundAttempt {
    /// One that no other attempt has.
    pub(crate) fn random() -> Result<Self, StoreError> {
        let mut bytes = [0; 8];
        let refused = |_| StoreError::new(StoreErrorKind::Refused, "no random numbers");
        aws_lc_rs::rand::fill(&mut bytes).map_err(refused)?;
        Ok(Self(u64::from_be_bytes(bytes)))
    }
}

/// The content of a mark.
impl fmt::Display for RefundAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK_PREFIX} {:016x}", self.0)
    }
}

impl FromStr for RefundAttempt {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix(MARK_PREFIX).and_then(|text| text.strip_prefix(' '));
        // Without this, a sign would be accepted.
        let is_number = |it: &&str| it.len() == 16 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let digits = digits.filter(is_number).ok_or(())?;
        u64::from_str_radix(digits, 16).map(Self).map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::State;

    use super::*;

    #[test]
    fn a_mark_can_be_read_and_is_no_state() {
        for attempt in [RefundAttempt(0), RefundAttempt(u64::MAX)] {
            let text = attempt.to_string();
            assert!(text.parse::<State>().is_err(), "{text}");
            assert_eq!(text.parse(), Ok(attempt));
        }
        for text in ["", "refunded", "refunded ", "refunded 1", "refunded +00000000000001f", "once"]
        {
            assert_eq!(text.parse::<RefundAttempt>(), Err(()), "{text}");
        }
    }
}
