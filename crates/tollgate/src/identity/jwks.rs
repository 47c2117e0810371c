//! Sets of keys as issuers publish them (RFC 7517). A key of an unknown kind is left out: issuers add
//! kinds of keys before all verifiers support them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use super::keys::{KeySet, SigningAlgorithm, VerifyingKey};

/// The most keys in a set: a token that names none is tried with each.
const MAX_KEYS: usize = 64;

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// The members of a key that are read.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// A set, and why keys of it were left out.
pub(super) struct Parsed {
    pub(super) keys: KeySet,
    left_out: Vec<String>,
}

impl Parsed {
    /// If there is no key in the set, why.
    pub(super) fn why_empty(&self) -> Option<String> {
        let why = || match self.left_out.as_slice() {
            [] => "no key to verify with: the set is empty".to_owned(),
            left_out => format!("no key to verify with. {}", left_out.join("; ")),
        };
        self.keys.is_empty().then(why)
    }
}

/// Reads a set of keys. Only what is no set at all is an error.
pub(super) fn parse(text: &[u8]) -> Result<Parsed, String> {
    let document: Document = serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("not a JWKS, which is {{\"keys\": [...]}}, at line {line}, column {column}")
    })?;
    if document.keys.len() > MAX_KEYS {
        return Err(format!("{} keys, of at most {MAX_KEYS}", document.keys.len()));
    }
    let mut parsed = Parsed { keys: KeySet::default(), left_out: Vec::new() };
    for (at, value) in document.keys.into_iter().enumerate() {
        let key = serde_json::from_value::<Jwk>(value).map_err(|_| "not a JWK".to_owned());
        match key.and_then(|jwk| Ok((verifying_key(&jwk)?, jwk.kid))) {
            Ok((key, kid)) => parsed.keys.keys.push((kid, key)),
            Err(reason) => parsed.left_out.push(format!("keys[{at}]: {reason}")),
        }
    }
    Ok(parsed)
}

fn verifying_key(jwk: &Jwk) -> Result<VerifyingKey, String> {
    if let Some(purpose) = jwk.r#use.as_deref().filter(|purpose| *purpose != "sig") {
        return Err(format!("for use `{purpose}`, not `sig`"));
    }
    if jwk.key_ops.as_ref().is_some_and(|operations| !operations.iter().any(|o| o == "verify")) {
        return Err("`verify` is not among its key_ops".into());
    }
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => VerifyingKey::from_rsa(&bytes(&jwk.n, "n")?, &bytes(&jwk.e, "e")?),
        ("EC", Some("P-256")) => {
            VerifyingKey::from_p256(&bytes(&jwk.x, "x")?, &bytes(&jwk.y, "y")?)
        }
        ("OKP", Some("Ed25519")) => VerifyingKey::from_ed25519(&bytes(&jwk.x, "x")?),
        ("oct", _) => Err("a secret; secrets are not taken from a JWKS".into()),
        (kind, curve) => Err(format!("a key of kind {kind} {}", curve.unwrap_or_default())),
    }?;
    match jwk.alg.as_deref() {
        Some(name) if SigningAlgorithm::named(name) != Some(key.algorithm) => {
            Err(format!("for algorithm `{name}`, not {}", key.algorithm))
        }
        _ => Ok(key),
    }
}

fn bytes(member: &Option<String>, name: &str) -> Result<Vec<u8>, String> {
    let text = member.as_ref().ok_or_else(|| format!("`{name}` is missing"))?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("`{name}` is not Base64url"))
}
