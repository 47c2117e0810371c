//! Removes counters of a page: expired ones, and others when memory is full. Both work on a bounded number of slots
//! at a time.

use tollgate_core::{Micros, Timestamp};

use super::limit_table::Limits;
use super::overflow::Overflow;
use super::page::{Common, Page};
use super::slot::{Content, Name};

/// States are kept a little beyond their expiry, in case the clock steps back.
const SLACK: Micros = Micros::from_secs(1);

/// Which counters may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionPolicy {
    /// Any counter: the page needs a slot.
    Anyone,
    /// Counters whose state is outside the page: only those free memory.
    Overflowed,
    /// Counters whose state is outside the page, except exhausted ones: evicting one resets a limit.
    OverflowedNotExhausted,
}

/// How many counters were evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) all: usize,
    pub(crate) exhausted: usize,
}

/// The share of the counters read that is evicted, and of those that are all exhausted: each of these resets a limit.
const EVICTED_SHARE: usize = 8;
const EXHAUSTED_SHARE: usize = 64;

impl Page {
    /// Reads the next `count` slots and removes expired counters. Shrinks the page when few are left. Returns whether
    /// the end of the page has been reached.
    pub(crate) fn sweep(
        &mut self,
        count: usize,
        now: Timestamp,
        overflow: &mut Overflow,
        common: &Common,
    ) -> bool {
        let now = now.minus(SLACK);
        let len = self.slot_count();
        let mut seen = false;
        let limits = common.limits.read();
        // Each slot once, and once more for each counter that is removed.
        for _ in 0..count.min(len * 2) {
            let index = self.next_index();
            // The counter that closes the gap is read next.
            if self.is_idle(index, now, overflow, &limits) {
                self.remove(index, overflow, common);
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

    /// Evicts up to an eighth of the counters in the next `count` slots, at least one: those that are soonest full
    /// again, and exhausted ones only if all are. So invented keys are evicted first.
    pub(crate) fn evict(
        &mut self,
        count: usize,
        policy: EvictionPolicy,
        now: Timestamp,
        overflow: &mut Overflow,
        common: &Common,
    ) -> Evicted {
        let len = self.slot_count();
        let start = self.next_index();
        let mut standings: Vec<((bool, Micros), Name)> = Vec::with_capacity(count.min(len));
        for step in 0..len {
            let index = (start + step) % len;
            let is_spilled = matches!(self.slot(index).content(), Some(Content::Overflowed(_)));
            let standing = if policy == EvictionPolicy::Anyone || is_spilled {
                self.examine(index, overflow, common, |limit, state| limit.standing(state, now))
            } else {
                None
            };
            let standing = standing.filter(|(is_exhausted, _)| {
                !is_exhausted || policy != EvictionPolicy::OverflowedNotExhausted
            });
            standings.extend(standing.map(|standing| (standing, self.slot(index).name())));
            self.cursor = index as u32 + 1;
            // Continues past empty slots if one counter has to be evicted.
            if step + 1 >= count && (policy != EvictionPolicy::Anyone || !standings.is_empty()) {
                break;
            }
        }
        let others = standings.iter().filter(|((is_exhausted, _), _)| !is_exhausted).count();
        let all = match others {
            0 => standings.len().div_ceil(EXHAUSTED_SHARE),
            _ => standings.len().div_ceil(EVICTED_SHARE).min(others),
        };
        if all < standings.len() {
            standings.select_nth_unstable_by_key(all, |(standing, _)| *standing);
        }
        for (_, name) in &standings[..all] {
            if let Some(index) = self.find(*name, common) {
                self.remove(index, overflow, common);
            }
        }
        Evicted { all, exhausted: if others == 0 { all } else { 0 } }
    }

    fn next_index(&self) -> usize {
        let cursor = self.cursor as usize;
        if cursor < self.slot_count() { cursor } else { 0 }
    }

    /// Whether the counter at `index` has expired.
    fn is_idle(
        &self,
        index: usize,
        now: Timestamp,
        overflow: &Overflow,
        limits: &Limits<'_>,
    ) -> bool {
        let slot = self.slot(index);
        match slot.content() {
            None => false,
            Some(Content::Inline(limit_id)) => {
                limits.get(limit_id).is_some_and(|limit| slot.counter().is_idle(limit, now))
            }
            Some(Content::Overflowed(place)) => {
                overflow.get(place).is_some_and(|(limit, state)| limit.is_idle(state, now))
            }
        }
    }
}
