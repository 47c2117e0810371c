//! The number of a store, made once and kept beside the counters: what was charged in one store is not refunded in
//! another, although the nodes of both may have the same secret.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::{StoreError, StoreErrorKind};

/// The name of the number in a store, which no counter has.
pub(crate) const NUMBER_NAME: &str = "store";
const DIGITS: usize = 16;

/// Tells stores apart. A store keeps it across restarts and failovers, and has another one after it lost its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreNumber(NonZeroU64);

impl StoreNumber {
    /// A number that no other store has.
    pub(crate) fn random() -> Result<Self, StoreError> {
        let mut bytes = [0; 8];
        let refused = |_| StoreError::new(StoreErrorKind::Refused, "no random numbers");
        aws_lc_rs::rand::fill(&mut bytes).map_err(refused)?;
        Ok(Self(NonZeroU64::new(u64::from_be_bytes(bytes)).unwrap_or(NonZeroU64::MIN)))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// The number as stores have it.
impl fmt::Display for StoreNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for StoreNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let is_number = text.len() == DIGITS && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.and_then(NonZeroU64::new).map(Self).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::State;

    use super::*;

    #[test]
    fn a_number_can_be_read_and_is_no_state() {
        for number in [NonZeroU64::MIN, NonZeroU64::MAX].map(StoreNumber) {
            let text = number.to_string();
            assert!(text.parse::<State>().is_err(), "{text}");
            assert_eq!(text.parse(), Ok(number));
        }
        for text in ["", "1", "0000000000000000", "+00000000000001f", "00000000000000001"] {
            assert_eq!(text.parse::<StoreNumber>(), Err(()), "{text}");
        }
        assert_ne!(StoreNumber::random().ok(), StoreNumber::random().ok());
    }
}
