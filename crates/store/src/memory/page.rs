//! A page: a small open-addressing table.
//!
//! There are so many pages that each stays small (some thousand slots when memory is full), which bounds the time to
//! grow one. Pages grow by an eighth, so between 77 and 88 % of the slots are in use.
//!
//! A page that is past its first few counters reserves all the memory it may ever need at once and then grows in
//! place. Memory it has not grown into was never touched, so it costs addresses only; and growing leaves no holes in
//! the allocator that are too small for the next size.

use tollgate_core::{Charge, ChargeResult, Limit, PackedState, State, Timestamp};

use super::limit_table::LimitTable;
use super::overflow::Overflow;
use super::slot::{Content, Name, Slot, Words};

#[derive(Debug, Default)]
pub(crate) struct Page {
    slots: Box<[Words]>,
    /// How many of the slots are in use by the table.
    len: u32,
    used: u32,
    /// The slot that sweeping and evicting read next.
    pub(super) cursor: u32,
}

/// What all pages of a store have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) limits: LimitTable,
    /// How many bits of a fingerprint choose the page.
    pub(crate) page_bits: u32,
    /// How many slots a page has at most.
    pub(crate) full_len: usize,
}

/// A table of up to this many slots gets exactly the memory it needs.
const SMALL: usize = 64;

impl Page {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used as usize
    }

    /// How many slots the table has.
    #[inline]
    pub(super) fn slot_count(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn slot(&self, index: usize) -> Slot {
        self.slots[index].into()
    }

    #[inline]
    fn set_slot(&mut self, index: usize, slot: Slot) {
        self.slots[index] = slot.into();
    }

    /// Memory that has been touched.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slot_count() * size_of::<Slot>()
    }

    /// The address and number of slots, for prefetching.
    pub(crate) fn location(&self) -> (usize, usize) {
        (self.slots.as_ptr().addr(), self.slot_count())
    }

    #[inline]
    pub(crate) fn find(&self, name: Name, common: &Common) -> Option<usize> {
        let len = self.slot_count();
        if len == 0 {
            return None;
        }
        let mut index = name.home(len, common.page_bits);
        // One slot in eight is empty, so the search ends.
        loop {
            let slot = self.slot(index);
            if slot.is_named(name) {
                return Some(index);
            }
            if slot.is_empty() {
                return None;
            }
            index = self.after(index);
        }
    }

    /// The counter at `index` after a charge, if it can be settled in its slot: most can. Nothing is written yet.
    #[inline]
    pub(crate) fn settled(
        &self,
        index: usize,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
        common: &Common,
    ) -> Option<PackedState> {
        let counter = self.counter_of(index, charge, common)?;
        counter.admit(charge, now, result).or_else(|| counter.settle(charge, now, result))
    }

    /// Settles a charge on the counter at `index` in its slot; returns whether it could.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        index: usize,
        charge: &Charge<'_>,
        now: Timestamp,
        result: &mut ChargeResult,
        common: &Common,
    ) -> bool {
        let Some(counter) = self.counter_of(index, charge, common) else { return false };
        // Written in this branch: returned through memory, the two words would cost a store-to-load stall.
        if let Some(after) = counter.admit(charge, now, result) {
            self.set(index, after);
            return true;
        }
        let after = counter.settle(charge, now, result);
        after.map(|after| self.set(index, after)).is_some()
    }

    /// The counter at `index`, if it is in its slot and counted in the limit of the charge.
    #[inline]
    fn counter_of(
        &self,
        index: usize,
        charge: &Charge<'_>,
        common: &Common,
    ) -> Option<PackedState> {
        let slot = self.slot(index);
        match slot.content()? {
            Content::Inline(limit_id) if common.limits.means(limit_id, charge.limit) => {
                Some(slot.counter())
            }
            _ => None,
        }
    }

    /// Writes the result of [`Page::settled`].
    #[inline]
    pub(crate) fn set(&mut self, index: usize, counter: PackedState) {
        self.set_slot(index, self.slot(index).with_counter(counter));
    }

    /// The limit that the counter at `index` is counted in.
    pub(crate) fn limit(
        &self,
        index: usize,
        overflow: &Overflow,
        common: &Common,
    ) -> Option<Limit> {
        self.examine(index, overflow, common, |limit, _| *limit)
    }

    /// The state at `index`; the caller passes it to [`Page::put_back`] or [`Page::write`] afterwards.
    pub(crate) fn take(
        &self,
        index: usize,
        overflow: &mut Overflow,
        common: &Common,
    ) -> Option<State> {
        let slot = self.slot(index);
        match slot.content()? {
            Content::Inline(limit_id) => slot.counter().unpack(&common.limits.get(limit_id)?),
            Content::Overflowed(place) => overflow.take(place),
        }
    }

    /// Returns an unchanged state that [`Page::take`] took.
    pub(crate) fn put_back(&self, index: usize, state: State, overflow: &mut Overflow) {
        if let Some(Content::Overflowed(place)) = self.slot(index).content() {
            overflow.put_back(place, state);
        }
    }

    /// Writes the state of the counter at `index`, which is counted in `limit` from now on.
    pub(crate) fn write(
        &mut self,
        index: usize,
        limit: &Limit,
        state: State,
        overflow: &mut Overflow,
        common: &Common,
    ) {
        let slot = self.slot(index);
        let content = slot.content();
        let before = match content {
            Some(Content::Inline(limit_id)) => Some(limit_id),
            _ => None,
        };
        let kept = before.filter(|limit_id| common.limits.means(*limit_id, limit));
        let inline = match kept {
            Some(limit_id) => PackedState::pack(&state, limit)
                .map(|packed| Slot::inline(slot.name(), limit_id, packed)),
            None => inline(slot.name(), limit, &state, common),
        };
        if let Some(limit_id) = before.filter(|_| kept.is_none() || inline.is_none()) {
            common.limits.release(limit_id);
        }
        let written = match (inline, content) {
            (Some(inline), Some(Content::Overflowed(place))) => {
                overflow.release(place);
                inline
            }
            (Some(inline), _) => inline,
            (None, Some(Content::Overflowed(place))) => {
                overflow.replace(place, limit, state);
                slot
            }
            (None, _) => Slot::overflowed(slot.name(), overflow.add(limit, state)),
        };
        self.set_slot(index, written);
    }

    /// Whether one more counter fits as the page is.
    pub(crate) fn has_room(&self) -> bool {
        (self.len() + 1) * 8 <= self.slot_count() * 7
    }

    /// Adds a counter that [`Page::find`] did not find. The page must have room.
    pub(crate) fn insert(
        &mut self,
        name: Name,
        limit: &Limit,
        state: State,
        overflow: &mut Overflow,
        common: &Common,
    ) {
        let index = self.vacancy(name, common);
        self.used += 1;
        let slot = inline(name, limit, &state, common)
            .unwrap_or_else(|| Slot::overflowed(name, overflow.add(limit, state)));
        self.set_slot(index, slot);
    }

    fn vacancy(&self, name: Name, common: &Common) -> usize {
        let mut index = name.home(self.slot_count(), common.page_bits);
        while !self.slot(index).is_empty() {
            index = self.after(index);
        }
        index
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slot_count() { 0 } else { index + 1 }
    }

    /// How many slots the page would have after growing; `None` if it has all it may have.
    pub(crate) fn grown_len(&self, common: &Common) -> Option<usize> {
        let len = self.slot_count();
        let grown = if len < 16 { (len * 2).max(4) } else { len + len / 8 };
        Some(grown.min(common.full_len)).filter(|grown| *grown > len)
    }

    /// Rearranges all counters as a table of `len` slots, which must be enough.
    pub(crate) fn resize(&mut self, len: usize, common: &Common) {
        if self.slot_count() <= len && len <= self.slots.len() {
            return self.grow_in_place(len, common);
        }
        let room = if len <= SMALL { len } else { common.full_len.max(len) };
        let old = std::mem::replace(&mut self.slots, vec![Words::default(); room].into());
        let old = &old[..std::mem::replace(&mut self.len, len as u32) as usize];
        for slot in old.iter().map(|words| Slot::from(*words)).filter(|slot| !slot.is_empty()) {
            let index = self.vacancy(slot.name(), common);
            self.set_slot(index, slot);
        }
    }

    /// Each counter takes the first slot from its new home on that is not final yet, and displaces the counter there,
    /// which is placed next.
    fn grow_in_place(&mut self, len: usize, common: &Common) {
        let old_len = std::mem::replace(&mut self.len, len as u32) as usize;
        let mut settled = vec![false; len];
        for index in 0..old_len {
            if settled[index] {
                continue;
            }
            let mut homeless = self.slot(index);
            self.slots[index] = Words::default();
            while !homeless.is_empty() {
                let mut place = homeless.name().home(len, common.page_bits);
                while settled[place] {
                    place = self.after(place);
                }
                settled[place] = true;
                let found = self.slot(place);
                self.set_slot(place, homeless);
                homeless = found;
            }
        }
    }

    /// Removes the counter at `index` and closes the gap, so that no search ends early.
    pub(crate) fn remove(&mut self, index: usize, overflow: &mut Overflow, common: &Common) {
        match self.slot(index).content() {
            Some(Content::Inline(limit_id)) => common.limits.release(limit_id),
            Some(Content::Overflowed(place)) => overflow.release(place),
            None => {}
        }
        self.used -= 1;
        let len = self.slot_count();
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut gap = index;
        let mut next = index;
        loop {
            next = self.after(next);
            let slot = self.slot(next);
            if slot.is_empty() {
                break;
            }
            let home = slot.name().home(len, common.page_bits);
            if distance(home, next) >= distance(gap, next) {
                self.set_slot(gap, slot);
                gap = next;
            }
        }
        self.set_slot(gap, Slot::default());
    }

    /// Reads the counter at `index`, if there is one.
    pub(super) fn examine<T>(
        &self,
        index: usize,
        overflow: &Overflow,
        common: &Common,
        look: impl FnOnce(&Limit, &State) -> T,
    ) -> Option<T> {
        let slot = self.slot(index);
        match slot.content()? {
            Content::Inline(limit_id) => {
                let limit = common.limits.get(limit_id)?;
                Some(look(&limit, &slot.counter().unpack(&limit)?))
            }
            Content::Overflowed(place) => {
                overflow.get(place).map(|(limit, state)| look(limit, state))
            }
        }
    }
}

/// The slot for a state that was in none with this limit, if it is small enough and its limit gets an index.
fn inline(name: Name, limit: &Limit, state: &State, common: &Common) -> Option<Slot> {
    let packed = PackedState::pack(state, limit)?;
    Some(Slot::inline(name, common.limits.acquire(limit)?, packed))
}
