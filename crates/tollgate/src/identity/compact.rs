//! A token in its compact form (RFC 7515), parsed before it is verified.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use serde_json::{Map, Value};

use super::keys::{Signed, SigningAlgorithm};
use super::token::TokenProblem;

/// The longest token, in bytes: as long as all headers of a request may be by default.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// Takes what other servers take: bits behind the last byte are ignored. Padding is cut off before.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// A token whose header could be read. Keys or addresses of keys in it (`jwk`, `jku`, `x5u`, `x5c`)
/// are ignored.
pub(super) struct CompactToken<'a> {
    pub(super) algorithm: SigningAlgorithm,
    kid: Option<String>,
    payload: &'a str,
    /// What is signed: header and payload as they were sent.
    message: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> CompactToken<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenProblem> {
        if token.len() > MAX_TOKEN_BYTES {
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
        let algorithm = SigningAlgorithm::named(name).ok_or(TokenProblem::Algorithm)?;
        let kid = match header.remove("kid") {
            None => None,
            Some(Value::String(kid)) => Some(kid),
            Some(_) => return Err(TokenProblem::Malformed),
        };
        // Nothing but the signature can be spelled in another way without the key of the issuer. Some
        // servers skip characters that do not belong there, others stop at them.
        let signature = decode(signature).map_err(|_| TokenProblem::Ambiguous)?;
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
    LENIENT_BASE64.decode(part.trim_end_matches('=')).map_err(|_| TokenProblem::Malformed)
}

fn parse_object(part: &str) -> Result<Map<String, Value>, TokenProblem> {
    serde_json::from_slice(&decode(part)?).map_err(|_| TokenProblem::Malformed)
}
