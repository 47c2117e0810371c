//! Keys that verify signatures. A key is good for one algorithm, whatever a token says.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents, VerificationAlgorithm,
};

use super::error::IdentityError;
use super::pem;
use super::token::TokenProblem;

/// The shortest secret: as long as the output of HMAC-SHA-256.
const MIN_SECRET_BYTES: usize = 32;

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SigningAlgorithm {
    /// HMAC with SHA-256, by a shared secret.
    Hs256,
    /// RSA (PKCS #1 v1.5) with SHA-256.
    Rs256,
    /// ECDSA on the curve P-256 with SHA-256.
    Es256,
    /// `EdDSA` on the curve Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// All that work with public keys.
    pub(super) const PUBLIC: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];

    /// The name in tokens and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of exactly that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [Self::Hs256, Self::Rs256, Self::Es256, Self::EdDsa];
        all.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

impl FromStr for SigningAlgorithm {
    type Err = IdentityError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::named(name).ok_or_else(|| {
            let problem = format!("`{name}` is none of HS256, RS256, ES256 and EdDSA");
            IdentityError::new("jwt.algorithms", problem)
        })
    }
}

impl fmt::Display for SigningAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key and the one algorithm that it is used with.
pub(super) struct VerifyingKey {
    pub(super) algorithm: SigningAlgorithm,
    material: Material,
}

enum Material {
    Secret(Box<hmac::Key>),
    Public(ParsedPublicKey),
}

impl VerifyingKey {
    pub(super) fn from_secret(secret: &str) -> Result<Self, String> {
        if secret.trim_start().starts_with("-----BEGIN ") {
            return Err("a key in PEM is not a secret; give it as a PEM key".into());
        }
        if secret.len() < MIN_SECRET_BYTES {
            let found = secret.len();
            return Err(format!(
                "a secret has at least {MIN_SECRET_BYTES} bytes, this one has {found}; make one with \
                 `openssl rand -base64 48`"
            ));
        }
        let key = Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
        Ok(Self { algorithm: SigningAlgorithm::Hs256, material: Material::Secret(key) })
    }

    /// Reads a public key in PEM, whose kind says which algorithm it is for.
    pub(super) fn from_pem(text: &str) -> Result<Self, String> {
        let der = pem::public_key(text)?;
        if let Ok(key) = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &der) {
            return Self::rsa(key);
        }
        let others: [(SigningAlgorithm, &'static dyn VerificationAlgorithm); 2] = [
            (SigningAlgorithm::Es256, &ECDSA_P256_SHA256_FIXED),
            (SigningAlgorithm::EdDsa, &ED25519),
        ];
        others
            .into_iter()
            .find_map(|(algorithm, kind)| Self::public(algorithm, kind, &der))
            .ok_or_else(|| "neither an RSA, nor a P-256, nor an Ed25519 key".into())
    }

    /// An RSA key by its modulus and exponent.
    pub(super) fn from_rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, String> {
        let components =
            RsaPublicKeyComponents { n: without_zeros(modulus), e: without_zeros(exponent) };
        let key = components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256);
        Self::rsa(key.map_err(|_| "not an RSA key")?)
    }

    /// A key on the curve P-256 by its coordinates.
    pub(super) fn from_p256(x: &[u8], y: &[u8]) -> Result<Self, String> {
        let point = [&[4], x, y].concat();
        let is_whole = x.len() == 32 && y.len() == 32;
        Self::public(SigningAlgorithm::Es256, &ECDSA_P256_SHA256_FIXED, &point)
            .filter(|_| is_whole)
            .ok_or_else(|| "not a point on P-256".into())
    }

    /// An Ed25519 key.
    pub(super) fn from_ed25519(key: &[u8]) -> Result<Self, String> {
        Self::public(SigningAlgorithm::EdDsa, &ED25519, key)
            .filter(|_| key.len() == 32)
            .ok_or_else(|| "not an Ed25519 key".into())
    }

    /// The size is checked here, since reading a key does not.
    fn rsa(key: ParsedPublicKey) -> Result<Self, String> {
        let der: Result<PublicKeyX509Der<'_>, _> = key.as_der();
        let der = der.map_err(|_| "not an RSA key")?;
        PublicEncryptingKey::from_der(der.as_ref())
            .map_err(|_| "an RSA key must have 2048 to 8192 bits")?;
        Ok(Self { algorithm: SigningAlgorithm::Rs256, material: Material::Public(key) })
    }

    fn public(
        algorithm: SigningAlgorithm,
        kind: &'static dyn VerificationAlgorithm,
        bytes: &[u8],
    ) -> Option<Self> {
        let key = ParsedPublicKey::new(kind, bytes).ok()?;
        Some(Self { algorithm, material: Material::Public(key) })
    }

    /// Verifies a signature. Its length is fixed by the algorithm, and secrets are compared in
    /// constant time.
    pub(super) fn verify(&self, signed: Signed<'_>) -> Result<(), TokenProblem> {
        if self.algorithm != signed.algorithm {
            return Err(TokenProblem::Algorithm);
        }
        let verified = match &self.material {
            Material::Secret(key) => hmac::verify(key, signed.message, signed.signature),
            Material::Public(key) => key.verify_sig(signed.message, signed.signature),
        };
        verified.map_err(|_| TokenProblem::Signature)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({})", self.algorithm)
    }
}

/// Keys by name.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    pub(super) keys: Vec<(Option<String>, VerifyingKey)>,
}

/// What of a token says which key to take, and what that key is to verify.
#[derive(Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) algorithm: SigningAlgorithm,
    pub(super) kid: Option<&'a str>,
    pub(super) message: &'a [u8],
    pub(super) signature: &'a [u8],
}

impl KeySet {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is a key for a token.
    pub(super) fn knows(&self, kid: Option<&str>) -> bool {
        self.fitting(kid).next().is_some()
    }

    /// Verifies a signature with the key the token names; if it names none, with every key of its
    /// algorithm.
    pub(super) fn verify(&self, signed: Signed<'_>) -> Result<(), TokenProblem> {
        let mut problem = TokenProblem::UnknownKey;
        for key in self.fitting(signed.kid) {
            match key.verify(signed) {
                Ok(()) => return Ok(()),
                // A wrong signature says more than a key of another kind.
                Err(_) if problem == TokenProblem::Signature => {}
                Err(newest) => problem = newest,
            }
        }
        Err(problem)
    }

    fn fitting(&self, kid: Option<&str>) -> impl Iterator<Item = &VerifyingKey> {
        let fits = move |name: &Option<String>| kid.is_none() || name.as_deref() == kid;
        self.keys.iter().filter(move |(name, _)| fits(name)).map(|(_, key)| key)
    }
}

/// Some issuers write a leading zero, as in DER.
fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}
