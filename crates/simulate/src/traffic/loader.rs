//! Fills [`Traffic`] from streams, line by line: recognises formats, counts what cannot be read.

use std::borrow::Cow;
use std::io::Read;

use super::bad_line::{self, BadLine};
use super::input::decompressed;
use super::lines::{InputLine, InputLines, MAX_LINE};
use super::record::LogEntry;
use super::request::TrafficRequest;
use super::{
    BadLineReason, FormatChoice, InputError, Options, Traffic, TrafficFormat, TrafficSource,
};

/// The formats a line was tried as, and why it is in none of them.
type Tried = Vec<(TrafficFormat, BadLineReason)>;

/// Traffic that is being read.
#[derive(Debug)]
pub struct Loader {
    options: Options,
    traffic: Traffic,
    /// The tenant of requests that have none.
    tenant: Option<String>,
}

/// What is known of the input that is being read.
struct Current<'a> {
    name: &'a str,
    format: Option<TrafficFormat>,
    requests: u64,
    unparsable: u64,
    /// The first line that could not be read, in case there is no other.
    first_failure: Option<InputError>,
}

impl Loader {
    /// Starts with no traffic.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, traffic: Traffic::default(), tenant: None }
    }

    /// Counts requests that have no tenant as those of this one: the log is that of its service.
    #[must_use]
    pub fn of_tenant(mut self, tenant: Option<&str>) -> Self {
        self.tenant = tenant.map(str::to_owned);
        self
    }

    /// Adds one request that was recorded elsewhere; `source` is what to call it in messages.
    ///
    /// # Errors
    /// The requests take more memory than allowed.
    pub fn push(&mut self, source: &str, request: &TrafficRequest<'_>) -> Result<(), InputError> {
        let line = self.traffic.len() as u64 + 1;
        self.keep(&LogEntry::from(request), source, line)
    }

    /// Reads a stream to its end. `name` is what to call it in messages.
    ///
    /// # Errors
    /// When it cannot be read, holds no request at all, does not go with earlier streams, or takes more
    /// memory than allowed.
    pub fn add(&mut self, name: &str, stream: impl Read) -> Result<(), InputError> {
        let broken = |lines, cause| InputError::Read { name: name.to_owned(), lines, cause };
        let mut lines = InputLines::new(decompressed(stream).map_err(|cause| broken(0, cause))?);
        let pairs_before = self.traffic.records.pairs();
        let mut current = Current {
            name,
            format: self.options.format.told(),
            requests: 0,
            unparsable: 0,
            first_failure: None,
        };
        loop {
            match lines.next() {
                Ok(Some(line)) => self.add_line(&mut current, &line)?,
                Ok(None) => break,
                Err(cause) => return Err(broken(lines.number(), cause)),
            }
        }
        let Some(format) = current.format.filter(|_| current.requests > 0) else {
            let empty = || InputError::Empty { name: name.to_owned() };
            return Err(current.first_failure.unwrap_or_else(empty));
        };
        let has_headers = self.traffic.records.pairs() > pairs_before;
        self.traffic.sources.push(TrafficSource {
            name: name.to_owned(),
            format: match (format, self.options.format) {
                (TrafficFormat::Combined, FormatChoice::Auto) if !has_headers => {
                    TrafficFormat::Common
                }
                _ => format,
            },
            requests: current.requests,
            unparsable: current.unparsable,
        });
        Ok(())
    }

    /// All that was read, in the order in which it is to be replayed.
    #[must_use]
    pub fn finish(mut self) -> Traffic {
        let is_trace =
            self.traffic.sources.iter().any(|source| source.format == TrafficFormat::Trace);
        if self.options.sort && !is_trace {
            self.traffic.records.sort();
        }
        self.traffic
    }

    fn add_line(
        &mut self,
        current: &mut Current<'_>,
        line: &InputLine<'_>,
    ) -> Result<(), InputError> {
        // Nearly every line is UTF-8, and this is the faster way to find that out.
        let text = str::from_utf8(line.bytes)
            .map_or_else(|_| String::from_utf8_lossy(line.bytes), Cow::Borrowed);
        let known = current.format;
        let entry = if line.too_long {
            Err(too_long(known))
        } else {
            interpret(&mut current.format, &text)
        };
        match entry {
            Ok(mut entry) => {
                if known.is_none() {
                    self.refuse_a_mixture(current)?;
                }
                let tenant = self.tenant.take();
                entry.tenant = entry.tenant.or(tenant.as_deref().map(Cow::Borrowed));
                let kept = self.keep(&entry, current.name, line.number);
                drop(entry);
                self.tenant = tenant;
                kept?;
                current.requests += 1;
            }
            Err(tried) => self.count_bad_line(current, line, &text, tried),
        }
        Ok(())
    }

    fn keep(&mut self, entry: &LogEntry<'_>, name: &str, line: u64) -> Result<(), InputError> {
        let too_large = || InputError::TooLarge { name: name.to_owned() };
        self.traffic.records.push(entry).ok_or_else(too_large)?;
        let max_bytes = self.options.max_bytes;
        if self.traffic.records.bytes(self.options.sort) > max_bytes {
            return Err(InputError::TooMuchMemory { name: name.to_owned(), line, max_bytes });
        }
        Ok(())
    }

    fn refuse_a_mixture(&self, current: &Current<'_>) -> Result<(), InputError> {
        let Some(earlier) = self.traffic.sources.first() else { return Ok(()) };
        let is_trace = current.format == Some(TrafficFormat::Trace);
        let (trace, log) = match (is_trace, earlier.format == TrafficFormat::Trace) {
            (true, false) => (current.name, earlier.name.as_str()),
            (false, true) => (earlier.name.as_str(), current.name),
            _ => return Ok(()),
        };
        Err(InputError::Mixed { trace: trace.to_owned(), log: log.to_owned() })
    }

    fn count_bad_line(
        &mut self,
        current: &mut Current<'_>,
        line: &InputLine<'_>,
        text: &str,
        tried: Tried,
    ) {
        current.unparsable += 1;
        if self.traffic.bad_lines.len() < bad_line::KEPT {
            let likely = TrafficFormat::likely(text);
            let likeliest = tried.iter().find(|(format, _)| *format == likely);
            if let Some((_, reason)) = likeliest.or(tried.first()) {
                self.traffic.bad_lines.push(BadLine {
                    input: current.name.to_owned(),
                    line: line.number,
                    reason: reason.clone(),
                    excerpt: bad_line::excerpt(line.bytes),
                });
            }
        }
        if current.first_failure.is_none() {
            current.first_failure = Some(InputError::Unrecognised {
                name: current.name.to_owned(),
                line: line.number,
                excerpt: bad_line::excerpt(line.bytes),
                tried,
            });
        }
    }
}

/// Reads a line in the format of its input. If that is not known yet, the line may show it.
fn interpret<'a>(known: &mut Option<TrafficFormat>, text: &'a str) -> Result<LogEntry<'a>, Tried> {
    let mut tried = Tried::new();
    for format in candidates(*known) {
        match format.parse(text) {
            Ok(entry) => {
                *known = Some(format);
                return Ok(entry);
            }
            Err(reason) => tried.push((format, reason)),
        }
    }
    Err(tried)
}

fn too_long(known: Option<TrafficFormat>) -> Tried {
    let reason = |format| (format, format!("longer than {MAX_LINE} bytes").into());
    candidates(known).map(reason).collect()
}

fn candidates(known: Option<TrafficFormat>) -> impl Iterator<Item = TrafficFormat> {
    let unknown = if known.is_none() { &TrafficFormat::TRIED[..] } else { &[] };
    known.into_iter().chain(unknown.iter().copied())
}
