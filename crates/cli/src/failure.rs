//! What ends a command early, and the exit code it ends with.

use std::io;
use std::process::ExitCode;

use tollgate_server::settings::ByteSize;
use tollgate_simulate::traffic::InputError;

use crate::terminal::printable_lines;

/// Problems were found in what was given.
pub(crate) const FOUND_PROBLEMS: u8 = 1;
/// A server or the user refused.
const REFUSED: u8 = 1;
/// The command was used wrongly, or given something it cannot use.
pub(crate) const WRONG_USAGE: u8 = 2;

#[derive(Debug)]
pub(crate) enum Failure {
    /// One sentence, or several lines that are complete in themselves.
    Usage(String),
    /// The message where a server or the user refused.
    Refused(String),
    /// Standard output was closed by its reader: a reason to stop, not an error.
    OutputClosed,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(message.into())
    }

    /// The failure of a command whose exit code of a refusal means something else.
    pub(crate) fn unanswered(self) -> Self {
        match self {
            Self::Refused(message) => Self::Usage(message),
            other => other,
        }
    }

    /// The message, for a command that goes on.
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Usage(message) | Self::Refused(message) => printable_lines(&message),
            Self::OutputClosed => "standard output is closed".to_owned(),
        }
    }

    /// Prints the message on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                eprintln!("tollgate: {}", printable_lines(message));
                ExitCode::from(WRONG_USAGE)
            }
            Self::Refused(message) => {
                eprintln!("tollgate: {}", printable_lines(message));
                ExitCode::from(REFUSED)
            }
            Self::OutputClosed => ExitCode::SUCCESS,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Usage(format!("cannot write the output: {error}")),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        let InputError::TooMuchMemory { name, line, max_bytes } = error else {
            return Self::Usage(error.to_string());
        };
        let max = ByteSize::new(max_bytes as u64);
        Self::Usage(format!(
            "{name} is too large: the requests up to line {line} take more than {max} of memory; allow more with \
             --max-memory, save a third with --no-sort, or replay a part of the log"
        ))
    }
}
