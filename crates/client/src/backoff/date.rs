//! Dates as HTTP writes them.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The form that is in use, and the two that must still be understood.
const FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// The seconds since 1970 that a date names.
pub(super) fn unix_seconds(text: &str) -> Option<u64> {
    let date = FORMS.iter().find_map(|form| DateTime::strptime(form, text).ok())?;
    let seconds = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    u64::try_from(seconds).ok()
}
