//! Forgetting counters of a page: those that have expired, and others when memory is full. Both look
//! at a stretch of slots at a time.

use tollgate_core::{Micros, Timestamp};

use super::page::{Common, Page};
use super::slot::{Content, Name};
use super::spill::Spill;

/// States are kept a little beyond the moment they are worth nothing, in case the clock steps back.
const SLACK: Micros = Micros::from_secs(1);

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

impl Page {
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
        if self.len() == 0 {
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
}
