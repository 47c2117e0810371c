//! Whether the token of a request was verified, and why not.

use std::fmt;

/// Whether a request came with a token that could be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TokenVerdict {
    /// The request had no token, or tokens are not read.
    #[default]
    Absent,
    /// The token was verified.
    Verified,
    /// The token was rejected, so its claims do not count.
    Rejected(TokenProblem),
}

/// Why a token was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenProblem {
    /// There are several `Authorization` headers that differ, or servers read this one in different ways.
    Ambiguous,
    /// It is longer than any token should be.
    TooLong,
    /// It is not a signed token in the compact form, or a claim has a value of the wrong kind.
    Malformed,
    /// It is a token for another purpose, by its `typ`.
    Type,
    /// It demands an extension that is not supported, with `crit`.
    Critical,
    /// Its algorithm is not the one of the key, or is not accepted.
    Algorithm,
    /// The keys could not be fetched yet.
    KeysUnavailable,
    /// No key has its `kid`.
    UnknownKey,
    /// The signature is wrong.
    Signature,
    /// It has no `exp`.
    NoExpiry,
    /// It was valid until some time ago.
    Expired,
    /// It becomes valid later, or was made in the future.
    NotYetValid,
    /// It is by another issuer.
    Issuer,
    /// It is for another audience.
    Audience,
    /// The claim that names the user, or `sub`, is not text.
    User,
}

impl TokenVerdict {
    /// A fixed word, for labels: `absent`, `verified`, or the name of the problem.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Verified => "verified",
            Self::Rejected(problem) => problem.name(),
        }
    }
}

impl TokenProblem {
    /// Every problem there is.
    pub const ALL: [Self; 15] = [
        Self::Ambiguous,
        Self::TooLong,
        Self::Malformed,
        Self::Type,
        Self::Critical,
        Self::Algorithm,
        Self::KeysUnavailable,
        Self::UnknownKey,
        Self::Signature,
        Self::NoExpiry,
        Self::Expired,
        Self::NotYetValid,
        Self::Issuer,
        Self::Audience,
        Self::User,
    ];

    /// A fixed word, for labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ambiguous => "ambiguous",
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Type => "type",
            Self::Critical => "critical",
            Self::Algorithm => "algorithm",
            Self::KeysUnavailable => "keys_unavailable",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::NoExpiry => "no_expiry",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::User => "user",
        }
    }
}

/// For the `error_description` of an answer: nothing of the token itself is shown.
impl fmt::Display for TokenProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ambiguous => "the Authorization header can be read in two ways",
            Self::TooLong => "the token is too long",
            Self::Malformed => "the token is malformed",
            Self::Type => "the token is of another type",
            Self::Critical => "the token demands an unsupported extension",
            Self::Algorithm => "the algorithm of the token is not accepted",
            Self::KeysUnavailable => "the keys to verify tokens are not available",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::Signature => "the signature of the token is wrong",
            Self::NoExpiry => "the token has no expiry time",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::Issuer => "the token is by another issuer",
            Self::Audience => "the token is for another audience",
            Self::User => "the token names no usable user",
        })
    }
}
