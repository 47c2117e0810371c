//! Windows of the calendar: the days, weeks or months of a time zone, as a table of where they begin.
//!
//! Their lengths differ (23 to 25 hours, 28 to 31 days), and only a time zone database knows them. This crate has none:
//! a caller passes the boundaries once, and a limit refers to the table. Equal windows that follow each other take one
//! row, so two centuries of days are a few hundred rows, and a lookup is a binary search.

use std::fmt;

use crate::{Limit, Micros, Report, Timestamp};

const DAY: u64 = 24 * 60 * 60;

/// How long a window of the calendar is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// From Monday to Sunday.
    Week,
    /// From the first of a month to the next.
    Month,
}

impl CalendarUnit {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// The name used in policies and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The length that stands for windows of all lengths: 24 hours, 7 days, 31 days.
    #[must_use]
    pub const fn nominal(self) -> Micros {
        match self {
            Self::Day => Micros::from_secs(DAY),
            Self::Week => Micros::from_secs(7 * DAY),
            Self::Month => Micros::from_secs(31 * DAY),
        }
    }
}

/// The windows of one unit in one time zone.
pub struct Calendar {
    unit: CalendarUnit,
    zone: Box<str>,
    id: u64,
    /// Ascending; the first starts at the epoch, and windows like those of the last follow it forever.
    runs: Box<[EqualWindows]>,
}

/// Windows of one length that follow each other.
#[derive(Clone, Copy, Debug)]
struct EqualWindows {
    start: u64,
    length: u64,
}

impl Calendar {
    /// A calendar whose windows begin at these times. Times that do not ascend are skipped. `None` if fewer than two
    /// are left: the length of a window would be unknown.
    #[must_use]
    pub fn new(
        unit: CalendarUnit,
        zone: &str,
        starts: impl IntoIterator<Item = Timestamp>,
    ) -> Option<Self> {
        let mut runs: Vec<EqualWindows> = Vec::new();
        let mut last = 0;
        for start in starts.into_iter().map(Timestamp::as_micros).filter(|start| *start > 0) {
            let Some(length) = start.checked_sub(last).filter(|length| *length > 0) else {
                continue;
            };
            if runs.last().is_none_or(|run| run.length != length) {
                runs.push(EqualWindows { start: last, length });
            }
            last = start;
        }
        let id = id(unit, zone);
        (!runs.is_empty()).then(|| Self { unit, zone: zone.into(), id, runs: runs.into() })
    }

    /// Which windows these are.
    #[must_use]
    pub const fn unit(&self) -> CalendarUnit {
        self.unit
    }

    /// The name of the time zone.
    #[must_use]
    pub const fn zone(&self) -> &str {
        &self.zone
    }

    /// A number that identifies unit and zone in states, below 2^52 and never zero. It does not depend on the table, so
    /// two versions of the time zone database share their counters.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// When the window that contains `at` begins, and when the next one does.
    #[must_use]
    pub fn window_at(&self, at: Timestamp) -> (Timestamp, Timestamp) {
        let at = at.as_micros();
        let after = self.runs.partition_point(|run| run.start <= at);
        let run = self.runs.get(after.saturating_sub(1)).copied();
        let EqualWindows { start, length } = run.unwrap_or(EqualWindows { start: 0, length: 1 });
        let start = at - at.saturating_sub(start) % length.max(1);
        let end = start.saturating_add(length);
        (Timestamp::from_micros(start), Timestamp::from_micros(end))
    }
}

impl Limit {
    /// How long until the limit resets, at `now`, the time of a charge that was reported so.
    ///
    /// Fixed windows and sliding window counters have windows that end for all clients at the same time, whether or
    /// not anything was counted in them; those of the calendar end as it says. Other limits reset when nothing is in
    /// use.
    #[must_use]
    pub fn reset_after(&self, now: Timestamp, report: &Report) -> Micros {
        if !self.algorithm.has_aligned_windows() {
            return report.reset_after;
        }
        if let Some(calendar) = self.calendar {
            return calendar.window_at(now).1.since(now);
        }
        let window = self.window.get().max(1);
        Micros::new(window - now.as_micros() % window)
    }

    /// The calendar whose windows it counts by, if they are not of one length.
    #[must_use]
    #[inline]
    pub const fn calendar(&self) -> Option<&'static Calendar> {
        self.calendar
    }

    /// How long the rate takes to refill the capacity: the window, unless the burst differs from the limit. Of the
    /// calendar, it is the window that contains `now`.
    #[must_use]
    #[inline]
    pub fn refill_time_at(&self, now: Timestamp) -> Micros {
        match self.calendar {
            None => self.refill_time(),
            Some(calendar) => {
                let (start, end) = calendar.window_at(now);
                end.since(start)
            }
        }
    }
}

/// FNV-1a of unit and zone, in 52 bits: a script whose numbers are doubles compares it.
fn id(unit: CalendarUnit, zone: &str) -> u64 {
    let text = unit.name().bytes().chain([b' ']).chain(zone.bytes());
    let hash = text.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash ^ (hash >> 52)) & ((1 << 52) - 1)).max(1)
}

/// Unit and zone decide; two tables of one zone mean the same windows.
impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.unit == other.unit && self.zone == other.zone
    }
}

impl Eq for Calendar {}

/// As people say it: `month (Europe/Berlin)`.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.unit.name(), self.zone)
    }
}

/// Omits the table, which is long.
impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({self})")
    }
}
