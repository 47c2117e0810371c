//! Why a request has to be refused for the credentials it shows.
//!
//! A credential that this crate reads in one way and the service behind it in another would be used without
//! its limits. So credentials that servers read differently are refused, whatever the settings.

use http::{HeaderValue, StatusCode};

use super::token::TokenProblem;

/// What to do with a credential that cannot be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unverified {
    /// It does not count: the request is known by its other credentials, or by its address.
    #[default]
    Ignore,
    /// The request is refused with 401.
    Refuse,
}

/// Why a request has to be refused for the credentials it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CredentialProblem {
    /// There are several `Authorization` headers, and they differ.
    RepeatedAuthorization,
    /// There are several API keys, and they differ.
    RepeatedApiKey,
    /// `Authorization` names the scheme `Bearer`, but servers read the token behind it in different ways.
    UnclearToken,
    /// The API key has bytes that some servers cut off.
    UnclearApiKey,
    /// The token is too long to be verified.
    LongToken,
    /// The token is not valid, and [`Unverified::Refuse`] holds.
    InvalidToken(TokenProblem),
    /// The API key is unknown, and [`Unverified::Refuse`] holds.
    UnknownApiKey,
}

impl CredentialProblem {
    /// The status of the response: 400, 401, or 503 if the keys that verify tokens could not be fetched.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::RepeatedAuthorization
            | Self::RepeatedApiKey
            | Self::UnclearToken
            | Self::UnclearApiKey
            | Self::LongToken => StatusCode::BAD_REQUEST,
            Self::InvalidToken(TokenProblem::KeysUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
            Self::InvalidToken(_) | Self::UnknownApiKey => StatusCode::UNAUTHORIZED,
        }
    }

    /// What is wrong with the token, if it is the token.
    #[must_use]
    pub const fn token_problem(self) -> Option<TokenProblem> {
        match self {
            Self::RepeatedAuthorization | Self::UnclearToken => Some(TokenProblem::Ambiguous),
            Self::LongToken => Some(TokenProblem::TooLong),
            Self::InvalidToken(problem) => Some(problem),
            Self::RepeatedApiKey | Self::UnclearApiKey | Self::UnknownApiKey => None,
        }
    }

    /// A fixed word that names the problem.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::RepeatedAuthorization
            | Self::RepeatedApiKey
            | Self::UnclearToken
            | Self::UnclearApiKey => "ambiguous_credentials",
            Self::LongToken => "token_too_long",
            Self::InvalidToken(TokenProblem::KeysUnavailable) => "token_keys_unavailable",
            Self::InvalidToken(_) => "invalid_token",
            Self::UnknownApiKey => "invalid_api_key",
        }
    }

    /// What is wrong, and what would be right. Plain ASCII; nothing of the credential is repeated.
    #[must_use]
    pub fn detail(self) -> String {
        match self {
            Self::RepeatedAuthorization => {
                "there are two Authorization headers, and they differ: send one".to_owned()
            }
            Self::RepeatedApiKey => "there are two API keys, and they differ: send one".to_owned(),
            Self::UnclearToken => {
                "Authorization can be read in two ways: send Bearer, one space, and \
                                   the token, with nothing before or behind it"
                    .to_owned()
            }
            Self::UnclearApiKey => "the API key can be read in two ways: send visible ASCII \
                                    characters, with nothing before or behind them"
                .to_owned(),
            Self::LongToken => "the token is longer than 64 KiB: send a shorter one".to_owned(),
            Self::InvalidToken(problem) => problem.to_string(),
            Self::UnknownApiKey => "the API key is unknown".to_owned(),
        }
    }

    /// The value of `WWW-Authenticate`, if the status is 401.
    #[must_use]
    pub fn challenge(self) -> Option<HeaderValue> {
        match self {
            Self::UnknownApiKey => Some(HeaderValue::from_static("ApiKey")),
            Self::InvalidToken(problem) if self.status() == StatusCode::UNAUTHORIZED => {
                let text =
                    format!("Bearer error=\"invalid_token\", error_description=\"{problem}\"");
                HeaderValue::try_from(text).ok()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_a_response() {
        let invalid = TokenProblem::ALL.map(CredentialProblem::InvalidToken);
        let others = [
            CredentialProblem::RepeatedAuthorization,
            CredentialProblem::RepeatedApiKey,
            CredentialProblem::UnclearToken,
            CredentialProblem::UnclearApiKey,
            CredentialProblem::LongToken,
            CredentialProblem::UnknownApiKey,
        ];
        for problem in invalid.into_iter().chain(others) {
            assert!(problem.detail().is_ascii(), "{problem:?}");
            let needs_challenge = problem.status() == StatusCode::UNAUTHORIZED;
            assert_eq!(problem.challenge().is_some(), needs_challenge, "{problem:?}");
        }
    }
}
