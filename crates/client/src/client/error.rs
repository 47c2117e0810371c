//! Why there is no verdict.

use std::fmt;
use std::time::Duration;

/// Why the server gave no verdict.
///
/// After [`Unreachable`](Self::Unreachable) and [`TimedOut`](Self::TimedOut) nobody knows whether the
/// check was charged; with an idempotency key it can be asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No connection, or one that broke.
    Unreachable {
        /// Where the server should have been.
        server: String,
        /// What went wrong.
        reason: String,
    },
    /// No answer in time.
    TimedOut {
        /// The server that is too slow.
        server: String,
        /// How long it had.
        timeout: Duration,
    },
    /// The server understood, and does not judge this check.
    Refused {
        /// What kind of refusal it is, for programs.
        kind: RefusalKind,
        /// The server's own word for it: a `code` of the HTTP API, or a code of gRPC.
        code: String,
        /// A sentence for people: what was wrong, where, and what would be right.
        detail: String,
    },
    /// The answer makes no sense. Is it a Tollgate server?
    Unreadable {
        /// Who answered.
        server: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// Too many checks wait for a batch already.
    QueueFull,
    /// This protocol has no such call.
    Unsupported {
        /// The call.
        call: &'static str,
    },
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// What was asked makes no sense, so asking again does not help.
    Invalid,
    /// No such rule or decision.
    Unknown,
    /// The token is missing, wrong or not enough.
    Unauthorized,
    /// The server itself is called too often.
    TooManyCalls,
    /// The server cannot judge at present.
    Unavailable,
}

impl Error {
    pub(super) fn invalid_check(detail: String) -> Self {
        let kind = RefusalKind::Invalid;
        Self::Refused { kind, code: "invalid_check".to_owned(), detail }
    }

    /// Whether it is about what was asked, so that others who were asked about together with it may
    /// fare better.
    pub(super) const fn is_about_the_check(&self) -> bool {
        matches!(self, Self::Refused { kind: RefusalKind::Invalid | RefusalKind::Unknown, .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { server, reason } => write!(f, "cannot reach {server}: {reason}"),
            Self::TimedOut { server, timeout } => {
                write!(f, "{server} did not answer within {timeout:?}")
            }
            Self::Refused { code, detail, .. } => write!(f, "{detail} ({code})"),
            Self::Unreadable { server, reason } => write!(
                f,
                "{server} gave an answer that cannot be read: {reason}. Is it a Tollgate server?"
            ),
            Self::QueueFull => f.write_str("too many checks wait for a batch already"),
            Self::Unsupported { call } => {
                write!(f, "there is no {call} over gRPC; ask a client over HTTP")
            }
        }
    }
}

impl std::error::Error for Error {}
