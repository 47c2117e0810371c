//! Times on the command line: when something ends, and which part of a log is wanted.

use clap::Args;
use tollgate::rules::{PAST_TIME, format_time, parse_past_time, parse_time, parse_window};
use tollgate::{Clock as _, Micros, SystemClock};

use crate::failure::Failure;

/// When something ends.
#[derive(Args, Debug)]
pub(super) struct EndArguments {
    /// When it ends: 2030-12-01T00:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_end, conflicts_with = "expires_in")]
    expires_at: Option<String>,

    /// How long it lasts: 12h, 30d.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    expires_in: Option<Micros>,
}

impl EndArguments {
    /// When it ends, if it does.
    pub(super) fn end(&self) -> Option<String> {
        let lasting = || self.expires_in.map(|span| format_time(SystemClock.now().plus(span)));
        self.expires_at.clone().or_else(lasting)
    }
}

/// Which part of a log is wanted.
#[derive(Args, Debug)]
pub(super) struct SpanArguments {
    /// Only from then on: 21:00 today in UTC, `2026-11-18 21:00`, 2026-11-18T21:00:00Z, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    pub(super) since: Option<String>,

    /// Only before then, written in the same way.
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    pub(super) until: Option<String>,

    /// How many at most, the newest first.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) limit: u64,
}

/// A time in one way of writing it.
pub(super) fn parse_moment(text: &str) -> Result<String, String> {
    let time = parse_time(text);
    time.map(format_time).ok_or_else(|| "write it like 2030-12-01T00:00:00Z".to_owned())
}

/// When something ends, which is not how long it lasts.
pub(crate) fn parse_end(text: &str) -> Result<String, String> {
    match parse_window(text) {
        Ok(_) => Err(format!("that is how long it lasts: write --expires-in {text}")),
        Err(_) => parse_moment(text),
    }
}

pub(super) fn parse_span(text: &str) -> Result<Micros, String> {
    parse_window(text).map_err(|_| "write it like 10s, 12h or 30d, 366d at most".to_owned())
}

/// A time, or how long ago it was.
fn parse_past(text: &str) -> Result<String, String> {
    let time = parse_past_time(text, SystemClock.now());
    time.map(format_time).ok_or_else(|| PAST_TIME.to_owned())
}

impl SpanArguments {
    /// Refuses a span that ends before it begins.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let time = |text: Option<&String>| text.and_then(|text| parse_time(text));
        let (Some(since), Some(until)) = (time(self.since.as_ref()), time(self.until.as_ref()))
        else {
            return Ok(());
        };
        if since <= until {
            return Ok(());
        }
        let (since, until) = (format_time(since), format_time(until));
        Err(Failure::usage(format!(
            "--since {since} is after --until {until}: write the earlier time after --since"
        )))
    }

    /// How many records are wanted.
    pub(super) fn max(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }
}
