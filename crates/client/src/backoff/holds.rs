//! Until when nothing is sent to whom: what services asked for, bounded in number.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The services that are left alone for now.
#[derive(Debug)]
pub(super) struct Holds {
    until: Mutex<HashMap<Box<str>, Instant>>,
    most: usize,
}

impl Holds {
    pub(super) fn new(most: usize) -> Self {
        Self { until: Mutex::default(), most }
    }

    /// Leaves a service alone until then. What it asked for before still holds. If there are too many,
    /// the one is forgotten that would be over first.
    pub(super) fn note(&self, authority: &str, until: Instant, now: Instant) {
        let mut holds = self.until.lock();
        if let Some(known) = holds.get_mut(authority) {
            *known = until.max(*known);
            return;
        }
        if holds.len() >= self.most {
            holds.retain(|_, until| *until > now);
        }
        if holds.len() >= self.most {
            let soonest = holds.iter().min_by_key(|(_, until)| **until);
            let Some((soonest, _)) = soonest.filter(|(_, soonest)| **soonest < until) else {
                return;
            };
            let soonest = soonest.clone();
            holds.remove(&soonest);
        }
        holds.insert(authority.into(), until);
    }

    /// Until when a service is to be left alone, if that is not over.
    pub(super) fn until(&self, authority: &str, now: Instant) -> Option<Instant> {
        let mut holds = self.until.lock();
        let until = *holds.get(authority)?;
        if until > now {
            return Some(until);
        }
        holds.remove(authority);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::time::Duration;

    #[test]
    fn holds_end_and_never_shrink() {
        let (holds, now) = (Holds::new(2), clock::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        holds.note("a", at(5), now);
        holds.note("a", at(3), now);
        assert_eq!(holds.until("a", now), Some(at(5)));
        assert_eq!(holds.until("b", now), None);
        assert_eq!(holds.until("a", at(5)), None);
        assert_eq!(holds.until.lock().len(), 0);
    }

    #[test]
    fn the_longest_are_kept() {
        let (holds, now) = (Holds::new(2), clock::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        for (authority, seconds) in [("a", 5), ("b", 2), ("c", 9), ("d", 1)] {
            holds.note(authority, at(seconds), now);
            assert!(holds.until.lock().len() <= 2);
        }
        let known = ["a", "b", "c", "d"].map(|authority| holds.until(authority, now).is_some());
        assert_eq!(known, [true, false, true, false]);
        // Those that are over make room.
        holds.note("e", at(8), at(6));
        assert_eq!(holds.until("e", at(6)), Some(at(8)));
        assert_eq!(holds.until("c", at(6)), Some(at(9)));
        Holds::new(0).note("a", at(5), now);
    }
}
