//! Cooldowns: until when nothing is sent to a service that asked for it. Bounded in number.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The services that are in cooldown, by authority.
#[derive(Debug)]
pub(super) struct Cooldowns {
    until: Mutex<HashMap<Box<str>, Instant>>,
    most: usize,
}

impl Cooldowns {
    pub(super) fn new(most: usize) -> Self {
        Self { until: Mutex::default(), most }
    }

    /// Starts a cooldown, or extends it: it never becomes shorter. If there are too many, the one that would end
    /// first is forgotten.
    pub(super) fn extend(&self, authority: &str, until: Instant, now: Instant) {
        let mut untils = self.until.lock();
        if let Some(known) = untils.get_mut(authority) {
            *known = until.max(*known);
            return;
        }
        if untils.len() >= self.most {
            untils.retain(|_, until| *until > now);
        }
        if untils.len() >= self.most {
            let soonest = untils.iter().min_by_key(|(_, until)| **until);
            let Some((soonest, _)) = soonest.filter(|(_, soonest)| **soonest < until) else {
                return;
            };
            let soonest = soonest.clone();
            untils.remove(&soonest);
        }
        untils.insert(authority.into(), until);
    }

    /// When the cooldown of a service ends, if it is in one.
    pub(super) fn until(&self, authority: &str, now: Instant) -> Option<Instant> {
        let mut untils = self.until.lock();
        let until = *untils.get(authority)?;
        if until > now {
            return Some(until);
        }
        untils.remove(authority);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use std::time::Duration;

    #[test]
    fn a_cooldown_ends_and_never_shrinks() {
        let (cooldowns, now) = (Cooldowns::new(2), clock::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        cooldowns.extend("a", at(5), now);
        cooldowns.extend("a", at(3), now);
        assert_eq!(cooldowns.until("a", now), Some(at(5)));
        assert_eq!(cooldowns.until("b", now), None);
        assert_eq!(cooldowns.until("a", at(5)), None);
        assert_eq!(cooldowns.until.lock().len(), 0);
    }

    #[test]
    fn the_longest_cooldowns_are_kept() {
        let (cooldowns, now) = (Cooldowns::new(2), clock::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        for (authority, seconds) in [("a", 5), ("b", 2), ("c", 9), ("d", 1)] {
            cooldowns.extend(authority, at(seconds), now);
            assert!(cooldowns.until.lock().len() <= 2);
        }
        let known = ["a", "b", "c", "d"].map(|authority| cooldowns.until(authority, now).is_some());
        assert_eq!(known, [true, false, true, false]);
        // Those that have ended make room.
        cooldowns.extend("e", at(8), at(6));
        assert_eq!(cooldowns.until("e", at(6)), Some(at(8)));
        assert_eq!(cooldowns.until("c", at(6)), Some(at(9)));
        Cooldowns::new(0).extend("a", at(5), now);
    }
}
