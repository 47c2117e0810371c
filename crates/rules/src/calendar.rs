//! Days, weeks and months of a time zone, from the time zone database that is compiled in: a container of one static
//! binary has no `/usr/share/zoneinfo`, and nodes of one version must agree on where a month begins.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::civil::{Date, date};
use jiff::tz::{AmbiguousOffset, TimeZone, db};
use jiff::{Span, ToSpan as _};
use tollgate_core::{Calendar, CalendarUnit, Timestamp};
use tollgate_document::{edits, quote};

use crate::compile::flaw::Flaw;

/// Windows begin as the database says until this year; later ones are as long as the last one before it.
const LAST_YEAR: i16 = 2200;
/// Names of time zones are shorter. Longer texts are not compared with them.
const MAX_NAME_BYTES: usize = 64;
/// The longest abbreviation of a time zone, as in `CEST`.
const MAX_ABBREVIATION: usize = 4;

/// Calendars are shared by all rules of all policies and live as long as the process. There are as many as time zones
/// and units, so this is bounded whatever rules are written.
static CALENDARS: Mutex<BTreeMap<(CalendarUnit, String), &'static Calendar>> =
    Mutex::new(BTreeMap::new());

/// The calendar of a unit in the time zone of that name.
pub(crate) fn calendar(unit: CalendarUnit, zone: &str) -> Result<&'static Calendar, Flaw> {
    let time_zone = time_zone(zone)?;
    let mut calendars = CALENDARS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = calendars.get(&(unit, zone.to_owned())) {
        return Ok(known);
    }
    let calendar = Calendar::new(unit, zone, starts(unit, &time_zone)).ok_or_else(|| {
        Flaw::new(format!("the windows of {zone} are unknown"), "choose another time zone")
    })?;
    let calendar: &'static Calendar = Box::leak(Box::new(calendar));
    calendars.insert((unit, zone.to_owned()), calendar);
    Ok(calendar)
}

/// The calendar of a unit in the time zone of that name; `None` if there is no such time zone.
#[must_use]
pub fn find_calendar(unit: CalendarUnit, zone: &str) -> Option<&'static Calendar> {
    calendar(unit, zone).ok()
}

/// The time zone of that name, which must be spelt as in the database: counters carry the name.
fn time_zone(name: &str) -> Result<TimeZone, Flaw> {
    let unknown = || {
        let message = format!("there is no time zone {}", quote(name));
        let advice = match meant(name) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "write an IANA name like Europe/Berlin, or UTC".to_owned(),
        };
        Flaw::new(message, advice)
    };
    if name.len() > MAX_NAME_BYTES {
        return Err(unknown());
    }
    let found = TimeZone::get(name).map_err(|_| unknown())?;
    if found.iana_name() == Some(name) { Ok(found) } else { Err(unknown()) }
}

/// The name that was probably meant: the same in other letters, a city alone, or one with few typing errors.
fn meant(text: &str) -> Option<String> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return None;
    }
    let text = text.trim().to_lowercase().replace(' ', "_");
    let distance = |name: &str| {
        let name = name.to_lowercase();
        let city = name.rsplit('/').next().unwrap_or_default();
        if city == text { 0 } else { edits(&text, &name) }
    };
    db().available()
        .map(|name| (distance(name.as_str()), name))
        .filter(|(edits, name)| {
            let length = name.as_str().len();
            // One letter makes another zone of an abbreviation.
            *edits == 0 || (length > MAX_ABBREVIATION && *edits <= length / 3)
        })
        .min_by_key(|(edits, name)| (*edits, name.as_str().len()))
        .map(|(_, name)| name.as_str().to_owned())
}

/// When the windows begin, from the Unix epoch on.
fn starts(unit: CalendarUnit, zone: &TimeZone) -> impl Iterator<Item = Timestamp> {
    let (first, step): (Date, Span) = match unit {
        CalendarUnit::Day => (date(1970, 1, 1), 1.day()),
        // The first Monday after the epoch.
        CalendarUnit::Week => (date(1970, 1, 5), 1.week()),
        CalendarUnit::Month => (date(1970, 1, 1), 1.month()),
    };
    let dates = first.series(step).take_while(|date| date.year() < LAST_YEAR);
    dates.filter_map(|date| start_of(date, zone))
}

/// The first moment of a date: midnight, the first of two midnights, or, where clocks skip midnight, the moment to
/// which they skip. `None` before the Unix epoch.
fn start_of(date: Date, zone: &TimeZone) -> Option<Timestamp> {
    let midnight = zone.to_ambiguous_timestamp(date.at(0, 0, 0, 0));
    let is_skipped = matches!(midnight.offset(), AmbiguousOffset::Gap { .. });
    let mut start = midnight.compatible().ok()?;
    if is_skipped {
        // What follows the gap may be later than midnight would have been.
        let just_after = start.checked_add(1.nanosecond()).ok()?;
        start = zone.preceding(just_after).next()?.timestamp();
    }
    u64::try_from(start.as_microsecond()).ok().map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests;
