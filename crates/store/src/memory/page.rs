//! A page: a small open-addressing table.
//!
//! There are so many pages that each stays small (some thousand slots when memory is full), which
//! bounds what growing one can take. Sweeping out what has expired and choosing whom to forget look
//! at a stretch of slots at a time. Pages grow by an eighth, so between 77 and 88 % of the slots are
//! in use.
//!
//! A page that is past its first few counters asks once for all the memory it may ever need and then
//! grows in place. What it has not grown into was never touched, so it costs addresses, not memory;
//! and the allocator is never left with holes that are too small for the next size.

use tollgate_core::{Charge, Compact, Limit, Line, Micros, State, Timestamp};

use super::shapes::{ShapeId, Shapes};
use super::slot::{Content, Name, Slot, Words};
use super::spill::Spill;

/// States are kept a little beyond the moment they are worth nothing, in case the clock steps back.
const SLACK: Micros = Micros::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Page {
    slots: Box<[Words]>,
    /// How many of the slots belong to the table as it is.
    len: u32,
    used: u32,
    /// The slot to be looked at next by sweeping and evicting.
    cursor: u32,
}

/// Who may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victims {
    /// There must be room in the page, whoever has to go.
    Anyone,
    /// Memory must come back, which only states beside the page give.
    Spilled,
    /// The same, but nobody with nothing left: forgetting one would be a present.
    SpilledWithSomethingLeft,
}

/// What all pages of a store have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) shapes: Shapes,
    /// How many bits of a fingerprint choose the page.
    pub(crate) page_bits: u32,
    /// How many slots a page has at most.
    pub(crate) full_len: usize,
}

/// A table of up to this many slots gets memory of its own size.
const SMALL: usize = 64;

impl Page {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used as usize
    }

    /// How many slots the table has.
    #[inline]
    fn slot_count(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn slot(&self, index: usize) -> Slot {
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

    /// What the counter at `index` becomes by a charge, if it can be settled as it stands in its
    /// slot: most can. Nothing is written yet.
    #[inline]
    pub(crate) fn settled(
        &self,
        index: usize,
        charge: &Charge<'_>,
        now: Timestamp,
        line: &mut Line,
        common: &Common,
    ) -> Option<Compact> {
        let counter = self.counter_of(index, charge, common)?;
        counter.admit(charge, now, line).or_else(|| counter.settle(charge, now, line))
    }

    /// Settles a charge on the counter at `index` as it stands in its slot; says whether it could be.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        index: usize,
        charge: &Charge<'_>,
        now: Timestamp,
        line: &mut Line,
        common: &Common,
    ) -> bool {
        let Some(counter) = self.counter_of(index, charge, common) else { return false };
        // Written at once, in its own branch: on their way through memory the two words would be
        // waited for.
        if let Some(after) = counter.admit(charge, now, line) {
            self.set(index, after);
            return true;
        }
        let after = counter.settle(charge, now, line);
        after.map(|after| self.set(index, after)).is_some()
    }

    /// The counter at `index`, if it is in its slot and counted in the limit of the charge.
    #[inline]
    fn counter_of(&self, index: usize, charge: &Charge<'_>, common: &Common) -> Option<Compact> {
        let slot = self.slot(index);
        match slot.content()? {
            Content::Inline(shape) if common.shapes.means(shape, charge.limit) => {
                Some(slot.counter())
            }
            _ => None,
        }
    }

    /// Writes what [`Page::settled`] said.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, counter: Compact) {
        self.set_slot(index, self.slot(index).with_counter(counter));
    }

    /// The limit that the counter at `index` is counted in.
    pub(crate) fn limit(&self, index: usize, spill: &Spill, common: &Common) -> Option<Limit> {
        self.examine(index, spill, common, |limit, _| *limit)
    }

    /// The state at `index`, to be given to [`Page::put_back`] or [`Page::write`] afterwards.
    pub(crate) fn take(&self, index: usize, spill: &mut Spill, common: &Common) -> Option<State> {
        let slot = self.slot(index);
        match slot.content()? {
            Content::Inline(shape) => slot.counter().unpack(common.shapes.get(shape)?),
            Content::Spilled(place) => spill.take(place),
        }
    }

    /// Returns a state that [`Page::take`] gave and nobody changed.
    pub(crate) fn put_back(&self, index: usize, state: State, spill: &mut Spill) {
        if let Some(Content::Spilled(place)) = self.slot(index).content() {
            spill.put_back(place, state);
        }
    }

    /// Writes the state of the counter at `index`, which is counted in `limit` from now on.
    pub(crate) fn write(
        &mut self,
        index: usize,
        limit: &Limit,
        state: State,
        spill: &mut Spill,
        common: &Common,
    ) {
        let slot = self.slot(index);
        let content = slot.content();
        let shape = match content {
            Some(Content::Inline(shape)) if common.shapes.means(shape, limit) => Some(shape),
            _ => common.shapes.id_of(limit),
        };
        let written = match (inline(slot.name(), shape, limit, &state), content) {
            (Some(inline), Some(Content::Spilled(place))) => {
                spill.release(place);
                inline
            }
            (Some(inline), _) => inline,
            (None, Some(Content::Spilled(place))) => {
                spill.replace(place, limit, state);
                slot
            }
            (None, _) => Slot::spilled(slot.name(), spill.add(limit, state)),
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
        spill: &mut Spill,
        common: &Common,
    ) {
        let index = self.vacancy(name, common);
        self.used += 1;
        let slot = inline(name, common.shapes.id_of(limit), limit, &state)
            .unwrap_or_else(|| Slot::spilled(name, spill.add(limit, state)));
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

    /// Each counter takes the first place from its new home on that is not settled yet, and whoever
    /// stood there goes on to look for a place of his own.
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

    /// Forgets the counter at `index` and closes the gap, so that no search ends early.
    pub(crate) fn remove(&mut self, index: usize, spill: &mut Spill, common: &Common) {
        if let Some(Content::Spilled(place)) = self.slot(index).content() {
            spill.release(place);
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

    /// Looks at the next `count` slots and forgets the counters that are worth nothing any more.
    /// Gives memory back when few are left. Says whether the end of the page has been reached.
    pub(crate) fn sweep(
        &mut self,
        count: usize,
        now: Timestamp,
        spill: &mut Spill,
        common: &Common,
    ) -> bool {
        let now = now.minus(SLACK);
        let len = self.slot_count();
        let mut seen = false;
        // Each slot once, and once more for each counter that is removed.
        for _ in 0..count.min(len * 2) {
            let index = self.next_index();
            // What closes the gap of a removed counter is looked at next.
            if self.is_idle(index, now, spill, common) {
                self.remove(index, spill, common);
                self.cursor = index as u32;
            } else {
                self.cursor = index as u32 + 1;
                seen |= index + 1 == len;
            }
        }
        if self.used == 0 {
            *self = Self::default();
        } else if len > 16 && self.len() * 4 < len {
            self.resize(self.len() * 4 / 3 + 4, common);
        }
        seen
    }

    /// Of the next `count` slots, forgets an eighth of the counters, at least one: first those that
    /// are soonest full again, and exhausted ones last. Whoever invents keys is forgotten first.
    pub(crate) fn evict(
        &mut self,
        count: usize,
        victims: Victims,
        now: Timestamp,
        spill: &mut Spill,
        common: &Common,
    ) -> usize {
        let len = self.slot_count();
        let start = self.next_index();
        let mut standings: Vec<((bool, Micros), Name)> = Vec::with_capacity(count.min(len));
        for step in 0..len {
            let index = (start + step) % len;
            let is_spilled = matches!(self.slot(index).content(), Some(Content::Spilled(_)));
            let standing = if victims == Victims::Anyone || is_spilled {
                self.examine(index, spill, common, |limit, state| limit.standing(state, now))
            } else {
                None
            };
            let standing = standing.filter(|(is_exhausted, _)| {
                !is_exhausted || victims != Victims::SpilledWithSomethingLeft
            });
            standings.extend(standing.map(|standing| (standing, self.slot(index).name())));
            self.cursor = index as u32 + 1;
            // On past a stretch of empty slots if someone has to go.
            if step + 1 >= count && (victims != Victims::Anyone || !standings.is_empty()) {
                break;
            }
        }
        let forgotten = standings.len().div_ceil(8);
        if forgotten < standings.len() {
            standings.select_nth_unstable_by_key(forgotten, |(standing, _)| *standing);
        }
        for (_, name) in &standings[..forgotten] {
            if let Some(index) = self.find(*name, common) {
                self.remove(index, spill, common);
            }
        }
        forgotten
    }

    fn next_index(&self) -> usize {
        let cursor = self.cursor as usize;
        if cursor < self.slot_count() { cursor } else { 0 }
    }

    /// Whether there is a counter at `index` that is worth nothing any more.
    fn is_idle(&self, index: usize, now: Timestamp, spill: &Spill, common: &Common) -> bool {
        let slot = self.slot(index);
        match slot.content() {
            None => false,
            Some(Content::Inline(shape)) => {
                common.shapes.get(shape).is_some_and(|limit| slot.counter().is_idle(limit, now))
            }
            Some(Content::Spilled(place)) => {
                spill.get(place).is_some_and(|(limit, state)| limit.is_idle(state, now))
            }
        }
    }

    /// Looks at the counter at `index`, if there is one.
    fn examine<T>(
        &self,
        index: usize,
        spill: &Spill,
        common: &Common,
        look: impl FnOnce(&Limit, &State) -> T,
    ) -> Option<T> {
        let slot = self.slot(index);
        match slot.content()? {
            Content::Inline(shape) => {
                let limit = common.shapes.get(shape)?;
                Some(look(limit, &slot.counter().unpack(limit)?))
            }
            Content::Spilled(place) => spill.get(place).map(|(limit, state)| look(limit, state)),
        }
    }
}

/// The slot for a state, if its limit has a number and it is small enough.
fn inline(name: Name, shape: Option<ShapeId>, limit: &Limit, state: &State) -> Option<Slot> {
    Some(Slot::inline(name, shape?, Compact::pack(state, limit)?))
}
