//! Moments, as the pages show them: in UTC, to the millisecond.

/// A moment: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(u64);

/// A day and a time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calendar {
    pub(crate) year: u64,
    /// From 1.
    pub(crate) month: u64,
    /// From 1.
    pub(crate) day: u64,
    pub(crate) hour: u64,
    pub(crate) minute: u64,
    pub(crate) second: u64,
    pub(crate) millisecond: u64,
}

impl Time {
    /// So many seconds since the epoch.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// So many milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    /// Whole seconds since the epoch.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The milliseconds from an earlier moment to this one; 0 if that one is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment so many milliseconds later.
    #[must_use]
    pub const fn plus_millis(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// A moment in UTC as RFC 3339 has it; digits after milliseconds are cut off.
    pub(crate) fn of_rfc_3339(text: &str) -> Option<Self> {
        let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
        let number = |text: &str, length: usize, range: std::ops::RangeInclusive<u64>| {
            let is_number = text.len() == length && text.bytes().all(|it| it.is_ascii_digit());
            text.parse().ok().filter(|number| is_number && range.contains(number))
        };
        let mut parts = date.split('-');
        let year = number(parts.next()?, 4, 1_970..=9_999)?;
        let (month, day) = (number(parts.next()?, 2, 1..=12)?, number(parts.next()?, 2, 1..=31)?);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let mut parts = clock.split(':').map(|part| number(part, 2, 0..=59));
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let millis: String = fraction.chars().chain("00".chars()).take(3).collect();
        let millis = number(&millis, 3, 0..=999)?;
        // The inverse of `calendar`: years begin in March.
        let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400;
        let days = days + (153 * month + 2) / 5 + day - 1 - 719_468;
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        let time = Self(seconds * 1_000 + millis);
        // The 31st of June is none.
        (hour < 24 && time.calendar().day == day).then_some(time)
    }

    /// Day and time of day, by the algorithm of Howard Hinnant for the proleptic Gregorian calendar.
    pub(crate) const fn calendar(self) -> Calendar {
        let (days, millis) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
        Calendar {
            year,
            month,
            day: day_of_year - (153 * shifted_month + 2) / 5 + 1,
            hour: millis / 3_600_000,
            minute: millis / 60_000 % 60,
            second: millis / 1_000 % 60,
            millisecond: millis % 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_a_date() {
        let check = |seconds: u64, expected: (u64, u64, u64, u64, u64, u64)| {
            let Calendar { year, month, day, hour, minute, second, .. } =
                Time::from_secs(seconds).calendar();
            assert_eq!((year, month, day, hour, minute, second), expected, "{seconds}");
            let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
            assert_eq!(Time::of_rfc_3339(&text), Some(Time::from_secs(seconds)), "{text}");
        };
        check(0, (1970, 1, 1, 0, 0, 0));
        check(951_782_399, (2000, 2, 28, 23, 59, 59));
        check(951_782_400, (2000, 2, 29, 0, 0, 0));
        check(951_868_800, (2000, 3, 1, 0, 0, 0));
        check(1_763_424_000, (2025, 11, 18, 0, 0, 0));
        check(1_767_225_599, (2025, 12, 31, 23, 59, 59));
        check(4_107_542_400, (2100, 3, 1, 0, 0, 0));
    }

    #[test]
    fn a_fraction_of_a_second_is_read_and_other_texts_are_not() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(Time::of_rfc_3339(text), expected.map(Time::from_millis), "{text}");
        };
        check("1970-01-01T00:00:01.5Z", Some(1_500));
        check("1970-01-01T00:00:01.660787Z", Some(1_660));
        for text in [
            "",
            "Z",
            "TZ",
            "2026-06-31T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-1-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.éZ",
        ] {
            check(text, None);
        }
    }
}
