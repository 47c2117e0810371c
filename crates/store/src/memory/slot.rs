//! One counter in 24 bytes: its name, the time of the last admission, the amount.

use tollgate_core::{PackedState, Timestamp};

use super::limit_table::LimitId;

/// A place in a page. All zero means empty.
///
/// Three words of 64 bits. The first, the name, has the lower 48 bits of the fingerprint (the page is chosen by its
/// upper bits) and below them the index of the limit the counter is counted in, or [`OVERFLOWED`]. The second is the
/// time of the last admission. The third is a debt, a count, two counts, or the place of the state outside the page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    name: u64,
    at: u64,
    value: u64,
}

/// A slot as plain integers, since the allocator returns those zeroed at no cost.
pub(crate) type Words = [u64; 3];

/// The state is too large for a slot and is outside the page.
const OVERFLOWED: u16 = u16::MAX;
const NAME_BITS: u64 = !0 << 16;

/// The part of a fingerprint that a slot keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name(u64);

impl Name {
    #[inline]
    pub(crate) const fn of(fingerprint: u64) -> Self {
        Self(fingerprint << 16)
    }

    /// Where in a page of `len` slots the search for this name begins. `page_bits` bits of the fingerprint are equal
    /// for the whole page, so they are left out.
    #[inline]
    pub(crate) fn home(self, len: usize, page_bits: u32) -> usize {
        let spread = self.0 << page_bits.saturating_sub(16);
        let scaled = u128::from(spread) * len as u128;
        usize::try_from(scaled >> 64).unwrap_or(0)
    }
}

/// The content of a slot.
pub(crate) enum Content {
    Inline(LimitId),
    Overflowed(usize),
}

impl From<Words> for Slot {
    #[inline]
    fn from([name, at, value]: Words) -> Self {
        Self { name, at, value }
    }
}

impl From<Slot> for Words {
    #[inline]
    fn from(Slot { name, at, value }: Slot) -> Self {
        [name, at, value]
    }
}

impl Slot {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.name & !NAME_BITS == 0
    }

    pub(crate) const fn name(&self) -> Name {
        Name(self.name & NAME_BITS)
    }

    /// An empty slot has no name, so this is never true of one.
    #[inline]
    pub(crate) const fn is_named(&self, name: Name) -> bool {
        self.name & NAME_BITS == name.0 && !self.is_empty()
    }

    /// The content of the slot; `None` if it is empty.
    #[inline]
    pub(crate) fn content(&self) -> Option<Content> {
        let limit_id = u16::try_from(self.name & !NAME_BITS).unwrap_or(0);
        if limit_id == OVERFLOWED {
            return Some(Content::Overflowed(usize::try_from(self.value).unwrap_or(usize::MAX)));
        }
        LimitId::new(limit_id).map(Content::Inline)
    }

    /// A slot for a state that is at `place` outside the page.
    pub(crate) fn overflowed(name: Name, place: usize) -> Self {
        Self { name: name.0 | u64::from(OVERFLOWED), at: 0, value: place as u64 }
    }

    /// A slot for a counter counted in the limit with index `limit_id`.
    pub(crate) fn inline(name: Name, limit_id: LimitId, counter: PackedState) -> Self {
        let PackedState { at, value } = counter;
        Self { name: name.0 | u64::from(limit_id.get()), at: at.as_micros(), value }
    }

    /// The counter of an inline slot.
    #[inline]
    pub(crate) const fn counter(&self) -> PackedState {
        PackedState { at: Timestamp::from_micros(self.at), value: self.value }
    }

    /// An inline slot with another counter.
    #[inline]
    pub(crate) const fn with_counter(self, counter: PackedState) -> Self {
        Self { name: self.name, at: counter.at.as_micros(), value: counter.value }
    }
}
