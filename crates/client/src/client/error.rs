//! Why a call failed.

use std::fmt;
use std::time::Duration;

/// Why a call failed.
///
/// After [`Unreachable`](Self::Unreachable) and [`TimedOut`](Self::TimedOut) it is unknown whether the
/// check was charged; with an idempotency key it can be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No connection, or one that broke.
    Unreachable {
        /// Where the server should have been.
        server: String,
        /// What went wrong, for programs.
        failure: ConnectionFailure,
        /// What went wrong, for people.
        reason: String,
    },
    /// No response in time.
    TimedOut {
        /// The server that is too slow.
        server: String,
        /// How long it had.
        timeout: Duration,
    },
    /// The server understood, and refuses the call.
    Refused {
        /// What kind of refusal it is, for programs.
        kind: RefusalKind,
        /// The code of the server: a `code` of the HTTP API, or a code of gRPC.
        code: String,
        /// A sentence for people: what was wrong, where, and what would be right.
        detail: String,
    },
    /// The response is invalid. Is it a Tollgate server?
    Unreadable {
        /// The server that sent it.
        server: String,
        /// What is wrong with it.
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

/// At which point a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionFailure {
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The certificate of the server is not trusted.
    Certificate(CertificateProblem),
    /// The connection broke before the response was complete.
    Disconnected,
}

/// Why the certificate of a server is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateProblem {
    /// No trusted authority signed it.
    UnknownIssuer,
    /// It is for another name.
    WrongName,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is that of an authority, not of a server.
    AuthorityCertificate,
    /// Anything else, in words.
    Other(String),
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The call is invalid, so a retry does not help.
    Invalid,
    /// No such rule or decision.
    Unknown,
    /// The token is missing, wrong or not enough.
    Unauthorized,
    /// The server itself is called too often.
    TooManyCalls,
    /// The server cannot decide at present.
    Unavailable,
}

impl Error {
    pub(super) fn invalid_check(detail: String) -> Self {
        let kind = RefusalKind::Invalid;
        Self::Refused { kind, code: "invalid_check".to_owned(), detail }
    }

    /// Whether it is about the check itself, so that other checks of the same batch may succeed.
    pub(super) const fn is_about_the_check(&self) -> bool {
        matches!(self, Self::Refused { kind: RefusalKind::Invalid | RefusalKind::Unknown, .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { server, reason, .. } => {
                write!(f, "cannot reach {server}: {reason}")
            }
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
