//! Why an input as a whole cannot be used: one sentence that names the input and the cause.

use std::error::Error;
use std::{fmt, io};

use super::{BadLineReason, TrafficFormat};

/// An input that cannot be used.
#[derive(Debug)]
pub enum InputError {
    /// It could not be opened.
    Open {
        /// The input.
        name: String,
        /// What the system said.
        cause: io::Error,
    },
    /// It broke off while being read: a failing disk, damaged gzip data.
    Read {
        /// The input.
        name: String,
        /// How many whole lines had been read.
        lines: u64,
        /// What the system or the decoder said.
        cause: io::Error,
    },
    /// It holds no line at all.
    Empty {
        /// The input.
        name: String,
    },
    /// None of its lines is a request.
    Unrecognised {
        /// The input.
        name: String,
        /// The number of the first line that is not empty.
        line: u64,
        /// How that line begins.
        excerpt: String,
        /// The formats tried, and why the line is in none of them.
        tried: Vec<(TrafficFormat, BadLineReason)>,
    },
    /// A trace and a log together: a trace counts from zero and has its own order, a log has dates.
    Mixed {
        /// The input that is a trace.
        trace: String,
        /// The input that is a log.
        log: String,
    },
    /// The requests take more memory than allowed.
    TooMuchMemory {
        /// The input that was being read.
        name: String,
        /// The line that was one too many.
        line: u64,
        /// What is allowed.
        max_bytes: usize,
    },
    /// More different strings than can be held.
    TooLarge {
        /// The input that was one too many.
        name: String,
    },
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { name, cause } => write!(f, "cannot open {name}: {cause}"),
            Self::Read { name, lines: 0, cause } => write!(f, "cannot read {name}: {cause}"),
            Self::Read { name, lines, cause } => {
                write!(f, "cannot read {name} beyond line {lines}: {cause}")
            }
            Self::Empty { name } => write!(f, "{name} is empty"),
            Self::Unrecognised { name, line, excerpt, tried } => {
                write!(f, "{name} holds no request that can be read; line {line} is")?;
                for (index, (format, reason)) in tried.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    let format = match format {
                        TrafficFormat::Combined => "common or combined",
                        _ => format.name(),
                    };
                    write!(f, "{separator} not {format} ({reason})")?;
                }
                write!(f, ": {excerpt}")
            }
            Self::Mixed { trace, log } => {
                write!(f, "a trace cannot be mixed with logs: {trace} is a trace, {log} is a log")
            }
            Self::TooMuchMemory { name, line, max_bytes } => {
                write!(
                    f,
                    "{name} is too large: the requests up to line {line} take more than {max_bytes} bytes of memory"
                )
            }
            Self::TooLarge { name } => {
                write!(f, "{name} is too large: more than 4 GiB of different values")
            }
        }
    }
}

impl Error for InputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Open { cause, .. } | Self::Read { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
