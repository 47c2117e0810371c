//! A page: a small open-addressing table.
//!
//! There are so many pages that each stays small (some thousand slots when memory is full), which
//! bounds what growing one can take. Sweeping out what has expired and choosing whom to forget look
//! at a stretch of slots at a time. Pages grow by an eighth, so between 77 and 88 % of the slots are
//! in use.

use tollgate_core::{Charge, Compact, Limit, Line, Micros, State, Timestamp};

use super::shapes::{ShapeId, Shapes};
use super::slot::{Content, Name, Slot};
use super::spill::Spill;

/// States are kept a little beyond the moment they are worth nothing, in case the clock steps back.
const SLACK: Micros = Micros::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Page {
    slots: Box<[Slot]>,
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
}

impl Page {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.used as usize
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val::<[Slot]>(&self.slots)
    }

    /// The address and number of slots, for prefetching.
    pub(crate) fn location(&self) -> (usize, usize) {
        (self.slots.as_ptr().addr(), self.slots.len())
    }

    #[inline]
    pub(crate) fn find(&self, name: Name, common: &Common) -> Option<usize> {
        let len = self.slots.len();
        if len == 0 {
            return None;
        }
        let mut index = name.home(len, common.page_bits);
        // One slot in eight is empty, so the search ends.
        loop {
            let slot = &self.slots[index];
            if slot.is_named(name) {
                return Some(index);
            }
            if slot.is_empty() {
                return None;
            }
            index = if index + 1 == len { 0 } else { index + 1 };
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
        let slot = &self.slots[index];
        let Content::Inline(shape) = slot.content()? else { return None };
        if common.shapes.get(shape) != Some(charge.limit) {
            return None;
        }
        slot.counter().settle(charge, now, line)
    }

    /// Writes what [`Page::settled`] said.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, counter: Compact) {
        self.slots[index].set_counter(counter);
    }

    /// The limit that the counter at `index` is counted in.
    pub(crate) fn limit(&self, index: usize, spill: &Spill, common: &Common) -> Option<Limit> {
        self.examine(index, spill, common, |limit, _| *limit)
    }

    /// The state at `index`, to be given to [`Page::put_back`] or [`Page::write`] afterwards.
    pub(crate) fn take(&self, index: usize, spill: &mut Spill, common: &Common) -> Option<State> {
        match self.slots[index].content()? {
            Content::Inline(shape) => self.slots[index].counter().unpack(common.shapes.get(shape)?),
            Content::Spilled(place) => spill.take(place),
        }
    }

    /// Returns a state that [`Page::take`] gave and nobody changed.
    pub(crate) fn put_back(&self, index: usize, state: State, spill: &mut Spill) {
        if let Some(Content::Spilled(place)) = self.slots[index].content() {
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
        let slot = self.slots[index];
        let content = slot.content();
        let shape = match content {
            Some(Content::Inline(shape)) if common.shapes.get(shape) == Some(limit) => Some(shape),
            _ => common.shapes.id_of(limit),
        };
        self.slots[index] = match (inline(slot.name(), shape, limit, &state), content) {
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
    }

    /// Whether one more counter fits as the page is.
    pub(crate) fn has_room(&self) -> bool {
        (self.len() + 1) * 8 <= self.slots.len() * 7
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
        self.slots[index] = inline(name, common.shapes.id_of(limit), limit, &state)
            .unwrap_or_else(|| Slot::spilled(name, spill.add(limit, state)));
    }

    fn vacancy(&self, name: Name, common: &Common) -> usize {
        let len = self.slots.len();
        let mut index = name.home(len, common.page_bits);
        while !self.slots[index].is_empty() {
            index = if index + 1 == len { 0 } else { index + 1 };
        }
        index
    }

    /// How many slots the page would have after growing.
    pub(crate) fn grown_len(&self) -> usize {
        let len = self.slots.len();
        if len < 16 { (len * 2).max(4) } else { len + len / 8 }
    }

    /// Moves all counters to a table of `len` slots, which must be enough.
    pub(crate) fn resize(&mut self, len: usize, common: &Common) {
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); len].into());
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            let index = self.vacancy(slot.name(), common);
            self.slots[index] = slot;
        }
    }

    /// Forgets the counter at `index` and closes the gap, so that no search ends early.
    pub(crate) fn remove(&mut self, index: usize, spill: &mut Spill, common: &Common) {
        if let Some(Content::Spilled(place)) = self.slots[index].content() {
            spill.release(place);
        }
        self.used -= 1;
        let len = self.slots.len();
        let distance =
            |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut gap = index;
        let mut next = index;
        loop {
            next = if next + 1 == len { 0 } else { next + 1 };
            let slot = self.slots[next];
            if slot.is_empty() {
                break;
            }
            let home = slot.name().home(len, common.page_bits);
            if distance(home, next) >= distance(gap, next) {
                self.slots[gap] = slot;
                gap = next;
            }
        }
        self.slots[gap] = Slot::default();
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
        let len = self.slots.len();
        let mut seen = false;
        // Each slot once, and once more for each counter that is removed.
        for _ in 0..count.min(len * 2) {
            let index = self.next_index();
            // What closes the gap of a removed counter is looked at next.
            let idle = self.examine(index, spill, common, |limit, state| limit.is_idle(state, now));
            if idle == Some(true) {
                self.remove(index, spill, common);
                self.cursor = index as u32;
            } else {
                self.cursor = index as u32 + 1;
                seen |= index + 1 == len;
            }
        }
        if self.used == 0 {
            self.slots = Box::default();
        } else if self.slots.len() > 16 && self.len() * 4 < self.slots.len() {
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
        let len = self.slots.len();
        let start = self.next_index();
        let mut standings: Vec<((bool, Micros), Name)> = Vec::with_capacity(count.min(len));
        for step in 0..len {
            let index = (start + step) % len;
            let is_spilled = matches!(self.slots[index].content(), Some(Content::Spilled(_)));
            let standing = if victims == Victims::Anyone || is_spilled {
                self.examine(index, spill, common, |limit, state| limit.standing(state, now))
            } else {
                None
            };
            let standing = standing.filter(|(is_exhausted, _)| {
                !is_exhausted || victims != Victims::SpilledWithSomethingLeft
            });
            standings.extend(standing.map(|standing| (standing, self.slots[index].name())));
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
        if cursor < self.slots.len() { cursor } else { 0 }
    }

    /// Looks at the counter at `index`, if there is one.
    fn examine<T>(
        &self,
        index: usize,
        spill: &Spill,
        common: &Common,
        look: impl FnOnce(&Limit, &State) -> T,
    ) -> Option<T> {
        let slot = &self.slots[index];
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
