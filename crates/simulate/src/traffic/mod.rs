//! Recorded traffic, read once and held small, so that hours of it can be sorted and replayed.
//!
//! Inputs are access logs (common, combined, nginx JSON) or traces of JSON lines, plain or gzipped.
//! Each line passes three steps: `lines` cuts it out, its [`TrafficFormat`] reads it as an entry, and
//! `record` keeps 64 bytes of that, with every distinct string stored once.

mod access_log;
mod bad_line;
mod error;
mod format;
mod input;
mod json;
mod lines;
mod loader;
mod nginx_json;
mod record;
mod request;
mod request_line;
mod strings;
mod time;
mod trace;

pub use bad_line::BadLine;
pub use error::InputError;
pub use format::{BadLineReason, FormatChoice, TrafficFormat, UnknownFormat};
pub use input::{Input, Progress, total_size};
pub use lines::MAX_LINE;
pub use loader::Loader;
pub use record::RecordView;
pub use request::TrafficRequest;

use record::TrafficRecords;

/// How to read traffic.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The format of every input, or that each is to be recognised.
    pub format: FormatChoice,
    /// Whether logs are sorted by time. Servers write a line when a request ends, so logs are a
    /// little out of order. A trace always keeps its own order.
    pub sort: bool,
    /// The most memory in bytes that requests may take. A compressed log of 1 MB can hold a billion
    /// lines.
    pub max_bytes: usize,
}

/// The most memory that requests take unless more is allowed: about 10 million of them.
pub const DEFAULT_MAX_BYTES: usize = 1 << 30;

impl Default for Options {
    fn default() -> Self {
        Self { format: FormatChoice::Auto, sort: true, max_bytes: DEFAULT_MAX_BYTES }
    }
}

/// What one input turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficSource {
    /// The path as given, or `standard input`.
    pub name: String,
    /// The format it was read as.
    pub format: TrafficFormat,
    /// How many lines are requests.
    pub requests: u64,
    /// How many lines could not be read.
    pub unparsable: u64,
}

/// All requests of some inputs, in the order in which they are to be replayed.
#[derive(Debug, Default)]
pub struct Traffic {
    records: TrafficRecords,
    sources: Vec<TrafficSource>,
    bad_lines: Vec<BadLine>,
}

impl Traffic {
    /// Reads all inputs, in order. `progress` is called about every hundred kilobytes.
    ///
    /// # Errors
    /// When an input cannot be read, holds no request at all, when a trace is mixed with logs, or when
    /// the requests take more memory than allowed.
    pub fn read(
        inputs: &[Input],
        options: Options,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Self, InputError> {
        let mut so_far = Progress { read: 0, total: total_size(inputs) };
        let mut loader = Loader::new(options);
        for input in inputs {
            let source = input.open()?;
            loader.add(&input.name(), input::MeteredInput::new(source, &mut so_far, progress))?;
        }
        Ok(loader.finish())
    }

    /// How many requests there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The request at this place, if there are that many.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<RecordView<'_>> {
        self.records.get(index)
    }

    /// Every request, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RecordView<'_>> {
        self.records.iter()
    }

    /// What each input turned out to be.
    #[must_use]
    pub fn sources(&self) -> &[TrafficSource] {
        &self.sources
    }

    /// Whether it is a trace, whose times may begin anywhere.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        self.sources.iter().any(|source| source.format == TrafficFormat::Trace)
    }

    /// How many lines of all inputs could not be read.
    #[must_use]
    pub fn unparsable(&self) -> u64 {
        self.sources.iter().map(|source| source.unparsable).sum()
    }

    /// The first few lines that could not be read, and why.
    #[must_use]
    pub fn bad_lines(&self) -> &[BadLine] {
        &self.bad_lines
    }
}
