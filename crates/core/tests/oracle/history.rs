//! Everything that ever happened to one counter, and the level that follows from it.
//!
//! This is the definition of the algorithms, not an implementation to be copied: it forgets
//! nothing, remembers no sum, and goes through the whole history again for every question. Levels
//! are exact fractions over the window, moments are signed and never saturate.

use tollgate_core::{Algorithm, Quota};

/// Something done to a counter, at the moment it took effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: i128,
    /// The limit that was in force.
    pub(crate) limit: u64,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Charge(u128),
    /// Taken until `most` units are in use.
    Debit {
        units: u128,
        most: u128,
    },
    Refund {
        units: u128,
        charged_at: Option<i128>,
    },
    /// Units that healing moved here. They are no admission, so a log does not merge them.
    Moved(u128),
}

#[derive(Clone, Debug)]
pub(crate) struct History {
    algorithm: Algorithm,
    window: i128,
    events: Vec<Event>,
}

/// Units in a log under the moment they count from.
#[derive(Clone, Copy)]
struct Entry {
    at: i128,
    units: u128,
}

/// A debt as it was last written: an exact number of units, over the window.
#[derive(Clone, Copy)]
struct Debt {
    level: u128,
    at: i128,
    /// The limit it was written under.
    limit: u64,
}

impl Event {
    fn is_refund(&self) -> bool {
        matches!(self.what, What::Refund { .. })
    }
}

impl History {
    pub(crate) fn new(quota: &Quota) -> Self {
        let window = i128::from(quota.window.get());
        Self { algorithm: quota.algorithm, window, events: Vec::new() }
    }

    /// Counters of another algorithm or window are other counters.
    pub(crate) fn belongs_to(&self, quota: &Quota) -> bool {
        self.algorithm == quota.algorithm && self.window == i128::from(quota.window.get())
    }

    fn is_bucket(&self) -> bool {
        self.algorithm.is_bucket()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn record(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Time stands still until the clock has passed the last thing that happened.
    pub(crate) fn effective(&self, now: i128) -> i128 {
        let mark = if self.algorithm == Algorithm::SlidingWindowLog {
            self.entries().last().map(|entry| entry.at)
        } else {
            // A bucket is as of its last admission: a refund is no event in its time.
            let moves = |event: &&Event| !(self.is_bucket() && event.is_refund());
            self.events.iter().rfind(moves).map(|event| event.at)
        };
        mark.map_or(now, |mark| mark.max(now))
    }

    /// What is in use when the clock shows `now` and `limit` is in force, in units over the window.
    pub(crate) fn level(&self, now: i128, limit: u64) -> u128 {
        let now = self.effective(now);
        let window = self.window.unsigned_abs();
        match self.algorithm {
            Algorithm::FixedWindow => self.count_in(now.div_euclid(self.window)) * window,
            Algorithm::SlidingWindowCounter => {
                let index = now.div_euclid(self.window);
                let in_view = self.window - now.rem_euclid(self.window);
                self.count_in(index - 1) * in_view.unsigned_abs() + self.count_in(index) * window
            }
            Algorithm::SlidingWindowLog => {
                let counts = |entry: &&Entry| now - entry.at < self.window;
                self.entries().iter().filter(counts).map(|entry| entry.units).sum::<u128>() * window
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                self.debt().map_or(0, |debt| self.drained(debt, now, limit).level)
            }
        }
    }

    /// The limit at whose rate a level falls while `limit` is in force: a raised limit takes effect at
    /// once, a lowered one with the next admission.
    pub(crate) fn pace(&self, limit: u64) -> u64 {
        self.debt().map_or(limit, |debt| debt.limit.max(limit))
    }

    /// The count of one aligned window.
    fn count_in(&self, index: i128) -> u128 {
        let index_of = |at: i128| at.div_euclid(self.window);
        self.events.iter().fold(0, |count, event| match event.what {
            What::Charge(units) | What::Moved(units) if index_of(event.at) == index => {
                count + units
            }
            What::Debit { units, most } if index_of(event.at) == index => {
                (count + units).min(most).max(count)
            }
            What::Refund { units, charged_at }
                if index_of(charged_at.unwrap_or(event.at)) == index =>
            {
                count.saturating_sub(units)
            }
            _ => count,
        })
    }

    /// The entries of a log, oldest first: admissions of one millisecond count from the latest.
    fn entries(&self) -> Vec<Entry> {
        let millisecond = |at: i128| at.div_euclid(1_000);
        let mut entries: Vec<Entry> = Vec::new();
        for event in &self.events {
            entries.retain(|entry| event.at - entry.at < self.window);
            let used: u128 = entries.iter().map(|entry| entry.units).sum();
            let taken = match event.what {
                What::Charge(units) | What::Moved(units) => units,
                What::Debit { units, most } => units.min(most.saturating_sub(used)),
                What::Refund { units, charged_at } => {
                    let mut left = units;
                    for entry in entries.iter_mut().rev() {
                        if charged_at.is_none_or(|at| millisecond(at) == millisecond(entry.at)) {
                            let given = left.min(entry.units);
                            entry.units -= given;
                            left -= given;
                        }
                    }
                    entries.retain(|entry| entry.units > 0);
                    0
                }
            };
            if taken == 0 {
                continue;
            }
            let merges = !matches!(event.what, What::Moved(_));
            match entries.last_mut() {
                Some(last) if merges && millisecond(last.at) == millisecond(event.at) => {
                    *last = Entry { at: event.at, units: last.units + taken };
                }
                _ => entries.push(Entry { at: event.at, units: taken }),
            }
        }
        entries
    }

    /// The debt of a bucket when it was last written.
    fn debt(&self) -> Option<Debt> {
        let window = self.window.unsigned_abs();
        self.events.iter().fold(None, |debt, event| {
            let Event { at, limit, what } = *event;
            // As if so much less had been charged, whatever limit is in force now.
            if let (What::Refund { units, .. }, Some(debt)) = (what, debt) {
                let Debt { level, .. } = debt;
                return Some(Debt { level: level.saturating_sub(units * window), ..debt });
            }
            let debt =
                debt.map_or(Debt { level: 0, at, limit }, |debt| self.drained(debt, at, limit));
            // A charge on a debt of a higher limit rewrites all of it, in whole units.
            let owed = if debt.limit == limit { debt.level } else { self.whole(debt.level) };
            Some(match what {
                What::Charge(units) | What::Moved(units) => {
                    Debt { level: owed + units * window, at, limit }
                }
                What::Debit { units, most } => {
                    let level = (owed + units * window).min(most * window).max(owed);
                    Debt { level, at, limit }
                }
                What::Refund { .. } => debt,
            })
        })
    }

    /// A debt carried to a later moment, at which `limit` is in force.
    fn drained(&self, debt: Debt, at: i128, limit: u64) -> Debt {
        let pace = limit.max(debt.limit);
        let level = if limit > debt.limit { self.whole(debt.level) } else { debt.level };
        let drained = (at - debt.at).unsigned_abs().saturating_mul(u128::from(pace));
        Debt { level: level.saturating_sub(drained), at, limit: pace }
    }

    /// A level rounded up to whole units.
    pub(crate) fn whole(&self, level: u128) -> u128 {
        level.next_multiple_of(self.window.unsigned_abs())
    }

    /// Moves events that lie in the future back to the time of the clock.
    pub(crate) fn move_back_to(&mut self, now: i128) {
        let mark = self.effective(now);
        let window = self.window;
        match self.algorithm {
            Algorithm::SlidingWindowLog => {
                let limit = self.events.last().map_or(0, |event| event.limit);
                let (past, ahead): (Vec<_>, Vec<_>) =
                    self.entries().into_iter().partition(|entry| entry.at <= now);
                let ahead = Entry { at: now, units: ahead.iter().map(|entry| entry.units).sum() };
                let moved =
                    |entry: Entry| Event { at: entry.at, limit, what: What::Moved(entry.units) };
                self.events = past.into_iter().chain([ahead]).map(moved).collect();
            }
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                // The window of the mark becomes the window of the clock, the one before it the
                // one before that; older ones never count again.
                let moved =
                    |at: i128| now - (mark.div_euclid(window) - at.div_euclid(window)) * window;
                for event in &mut self.events {
                    event.at = moved(event.at);
                    if let What::Refund { charged_at: Some(at), .. } = &mut event.what {
                        *at = moved(*at);
                    }
                }
            }
            Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::Gcra => {
                for event in &mut self.events {
                    event.at -= mark - now;
                }
            }
        }
    }

    /// How far the counter is ahead of the clock.
    pub(crate) fn ahead_of(&self, now: i128) -> i128 {
        self.effective(now) - now
    }
}
