//! A token in its compact form (RFC 7515), taken apart before anything in it is believed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::keys::{Algorithm, Signed};
use super::token::TokenProblem;

/// The longest token, in bytes.
const LONGEST_TOKEN: usize = 8 << 10;

/// A token whose header could be read. Keys or addresses of keys in it (`jwk`, `jku`, `x5u`, `x5c`)
/// are not looked at.
pub(super) struct Token<'a> {
    pub(super) algorithm: Algorithm,
    kid: Option<String>,
    payload: &'a str,
    /// What is signed: header and payload as they were sent.
    message: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenProblem> {
        if token.len() > LONGEST_TOKEN {
            return Err(TokenProblem::TooLong);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(TokenProblem::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(TokenProblem::Malformed)?;
        if payload.contains('.') {
            return Err(TokenProblem::Malformed);
        }
        let mut header = parse_object(header)?;
        if header.contains_key("crit") {
            return Err(TokenProblem::Critical);
        }
        if !header.get("typ").is_none_or(is_access_token) {
            return Err(TokenProblem::Type);
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or(TokenProblem::Malformed)?;
        let algorithm = Algorithm::named(name).ok_or(TokenProblem::Algorithm)?;
        let kid = match header.remove("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid),
            Some(_) => return Err(TokenProblem::Malformed),
        };
        let signature = decode(signature)?;
        Ok(Self { algorithm, kid, payload, message: message.as_bytes(), signature })
    }

    /// What a key needs to verify the token.
    pub(super) fn signed(&self) -> Signed<'_> {
        Signed {
            algorithm: self.algorithm,
            kid: self.kid.as_deref(),
            message: self.message,
            signature: &self.signature,
        }
    }

    /// What the token says. Ask only when its signature is verified.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, TokenProblem> {
        parse_object(self.payload)
    }
}

/// Tokens without a type are as good. Those of other types, for logging out for example, are signed
/// with the same keys and say something else.
fn is_access_token(kind: &Value) -> bool {
    let kind = kind.as_str().unwrap_or_default().to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

fn decode(part: &str) -> Result<Vec<u8>, TokenProblem> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenProblem::Malformed)
}

fn parse_object(part: &str) -> Result<Map<String, Value>, TokenProblem> {
    serde_json::from_slice(&decode(part)?).map_err(|_| TokenProblem::Malformed)
}
