//! The horizontal axis: times in UTC, at steps that people count in.

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
/// 1970-01-05, a Monday, on which steps of weeks begin.
const MONDAY: i64 = 4 * DAY;
/// Times are drawn within this many seconds of the epoch, 270,000 years, so that no sum overflows.
const MAX_TIME: i64 = 100_000_000 * DAY;

const STEPS: [i64; 24] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    91 * DAY,
    364 * DAY,
];

/// A scale from one time to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    from: i64,
    to: i64,
}

impl TimeAxis {
    pub(crate) fn new(from: i64, to: i64) -> Self {
        let from = from.clamp(-MAX_TIME, MAX_TIME);
        Self { from, to: to.clamp(from, MAX_TIME) }
    }

    /// How far right a time stands: 0 at the left, 1 at the right. A single moment stands in the middle.
    pub(crate) fn fraction(self, time: i64) -> f64 {
        let length = self.to - self.from;
        if length == 0 {
            return 0.5;
        }
        let passed = time.clamp(self.from, self.to) - self.from;
        // Both are far below 2^53.
        (passed as f64) / (length as f64)
    }

    pub(crate) fn contains(self, time: i64) -> bool {
        (self.from..=self.to).contains(&time)
    }

    /// At most `most` times with their labels.
    pub(crate) fn ticks(self, most: i64, clock: TimeLabels) -> Vec<(i64, String)> {
        let length = self.to - self.from;
        let most = most.max(1);
        let fits = |step: &i64| length / step < most;
        let step = STEPS.into_iter().find(fits).unwrap_or_else(|| {
            let mut step = 3_640 * DAY;
            while !fits(&step) {
                step *= 10;
            }
            step
        });
        let offset = if step % (7 * DAY) == 0 { MONDAY } else { 0 };
        let first = (self.from - offset + step - 1).div_euclid(step) * step + offset;
        let times = (0..most).map(|i| first + i * step).take_while(|time| *time <= self.to);
        times.map(|time| (time, clock.label(time, step))).collect()
    }
}

/// What times are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeLabels {
    /// By the clock and calendar of UTC.
    #[default]
    Utc,
    /// By what has passed since a beginning, which is time 0.
    Elapsed,
}

impl TimeLabels {
    fn label(self, time: i64, step: i64) -> String {
        let is_coarse = step >= MINUTE;
        if self == Self::Elapsed {
            return elapsed(time, is_coarse);
        }
        if step >= 28 * DAY {
            date(time)
        } else if time.rem_euclid(DAY) == 0 {
            let (_, month, day) = civil(time.div_euclid(DAY));
            format!("{day} {}", MONTHS[usize::from(month - 1)])
        } else if is_coarse {
            clock_time(time)[..5].to_owned()
        } else {
            clock_time(time)
        }
    }

    /// A time to the second, as in `2015-05-17 10:05:03 UTC` or `1:05:03`.
    pub(crate) fn exactly(self, time: i64) -> String {
        match self {
            Self::Utc => date_and_time(time) + " UTC",
            Self::Elapsed => elapsed(time, false),
        }
    }
}

/// Hours, minutes and seconds.
fn elapsed(time: i64, is_coarse: bool) -> String {
    let hours_and_minutes = format!("{}:{:02}", time.div_euclid(HOUR), time.rem_euclid(HOUR) / 60);
    let second = time.rem_euclid(60);
    if is_coarse { hours_and_minutes } else { format!("{hours_and_minutes}:{second:02}") }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of day in UTC, `10:05:03`, of seconds since the epoch.
#[must_use]
pub fn clock_time(time: i64) -> String {
    let second = time.rem_euclid(DAY);
    format!("{:02}:{:02}:{:02}", second / HOUR, second / MINUTE % 60, second % 60)
}

/// Date and time in UTC, `2015-05-17 10:05:03`, of seconds since the epoch.
#[must_use]
pub fn date_and_time(time: i64) -> String {
    format!("{} {}", date(time), clock_time(time))
}

fn date(time: i64) -> String {
    let (year, month, day) = civil(time.div_euclid(DAY));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since the epoch, in the Gregorian calendar. A year here begins in March,
/// so that its last day is the one that may be missing.
fn civil(days: i64) -> (i64, u8, u8) {
    let days = i128::from(days) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    let small = |number: i128| u8::try_from(number).unwrap_or(1);
    (i64::try_from(year).unwrap_or_default(), small(month), small(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |time, expected: &str| assert_eq!(date_and_time(time), expected);
        check(0, "1970-01-01 00:00:00");
        check(-1, "1969-12-31 23:59:59");
        check(1_431_857_103, "2015-05-17 10:05:03");
        check(951_782_400, "2000-02-29 00:00:00");
        check(1_709_251_199, "2024-02-29 23:59:59");
        check(4_107_542_400, "2100-03-01 00:00:00");
        let _ = (date_and_time(i64::MIN), date_and_time(i64::MAX));
    }

    #[test]
    fn steps_are_those_that_people_count_in() {
        let check = |from: i64, length: i64, expected: &str| {
            let ticks = TimeAxis::new(from, from + length).ticks(6, TimeLabels::Utc);
            let labels: Vec<String> = ticks.into_iter().map(|(_, label)| label).collect();
            assert_eq!(labels.join(" "), expected);
        };
        let morning = 1_431_857_103;
        check(morning, 0, "10:05:03");
        check(morning, 20, "10:05:05 10:05:10 10:05:15 10:05:20");
        check(morning, 240, "10:06 10:07 10:08 10:09");
        check(morning, 4 * HOUR, "11:00 12:00 13:00 14:00");
        check(morning, DAY, "12:00 18:00 18 May 06:00");
        check(morning, 3 * DAY + HOUR, "18 May 19 May 20 May");
        check(morning, 30 * DAY, "18 May 25 May 1 Jun 8 Jun 15 Jun");
        check(0, 5_000 * DAY, "1970-01-05 1979-12-24");
        let passed = TimeAxis::new(0, 2 * DAY).ticks(6, TimeLabels::Elapsed);
        assert_eq!(passed[4].1, "48:00");
        let passed = TimeAxis::new(0, 90).ticks(6, TimeLabels::Elapsed);
        assert_eq!(passed[1].1, "0:00:30");
        assert!(TimeAxis::new(i64::MIN, i64::MAX).ticks(6, TimeLabels::Elapsed).len() <= 6);
    }
}
