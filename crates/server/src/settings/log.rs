//! How the server logs.

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// One JSON object a line.
    Json,
}

/// The lowest level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// What may fail soon.
    Warn,
    /// Changes.
    Info,
    /// Details of events.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// Its name in loggers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}
