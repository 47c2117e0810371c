//! An issuer of tokens: keys of every kind, and tokens as right or as wrong as a test wants them.

use std::sync::LazyLock;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use aws_lc_rs::{hmac, rsa};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tollgate::identity::TokenKeys;

/// What signs tokens.
pub(crate) enum Issuer {
    Secret(String),
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// One of each kind, since making keys takes time.
pub(crate) static SECRET: LazyLock<Issuer> =
    LazyLock::new(|| Issuer::Secret("a secret of more than 32 bytes, for tests".to_owned()));
pub(crate) static RSA: LazyLock<Issuer> =
    LazyLock::new(|| Issuer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")));
pub(crate) static P256: LazyLock<Issuer> = LazyLock::new(Issuer::p256);
pub(crate) static ED25519: LazyLock<Issuer> =
    LazyLock::new(|| Issuer::Ed25519(Ed25519KeyPair::generate().expect("a key")));

impl Issuer {
    pub(crate) fn p256() -> Self {
        Self::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Secret(_) => "HS256",
            Self::Rsa(_) => "RS256",
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// A token that says what it is signed with.
    pub(crate) fn token(&self, claims: &str) -> String {
        self.token_with(&format!(r#"{{"alg":"{}"}}"#, self.algorithm()), claims)
    }

    pub(crate) fn token_with(&self, header: &str, claims: &str) -> String {
        let message = unsigned(header, claims);
        let signature = URL_SAFE_NO_PAD.encode(self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Secret(secret) => sign_with_secret(secret.as_bytes(), message),
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("signed");
                signature
            }
            Self::P256(key) => key.sign(&random, message).expect("signed").as_ref().to_vec(),
            Self::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// What verifies the tokens: the secret, or the public key in PEM.
    pub(crate) fn keys(&self) -> TokenKeys {
        match self {
            Self::Secret(secret) => TokenKeys::Secret(secret.as_str().into()),
            _ => TokenKeys::Pem(self.pem().into()),
        }
    }

    pub(crate) fn pem(&self) -> String {
        let der: PublicKeyX509Der<'_> = match self {
            Self::Secret(_) => panic!("a secret has no public key"),
            Self::Rsa(key) => key.public_key().as_der(),
            Self::P256(key) => key.public_key().as_der(),
            Self::Ed25519(key) => key.public_key().as_der(),
        }
        .expect("a key");
        let body = STANDARD.encode(der.as_ref());
        format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n")
    }

    /// The public key as an entry of a JWKS, with more members at will: `,"use":"sig"`.
    pub(crate) fn jwk(&self, kid: &str, more: &str) -> String {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let members = match self {
            Self::Secret(secret) => format!(r#""kty":"oct","k":"{}""#, encode(secret.as_bytes())),
            Self::Rsa(key) => {
                let modulus = encode(modulus(key.public_key()));
                format!(r#""kty":"RSA","e":"AQAB","n":"{modulus}""#)
            }
            Self::P256(key) => {
                let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                format!(r#""kty":"EC","crv":"P-256","x":"{}","y":"{}""#, encode(x), encode(y))
            }
            Self::Ed25519(key) => {
                let x = encode(key.public_key().as_ref());
                format!(r#""kty":"OKP","crv":"Ed25519","x":"{x}""#)
            }
        };
        format!(r#"{{"kid":"{kid}",{members}{more}}}"#)
    }
}

/// The modulus of a key of 2048 bits, at its place in the DER form.
fn modulus(key: &rsa::PublicKey) -> &[u8] {
    &key.as_ref()[9..9 + 256]
}

/// Header and payload, joined as they are signed.
pub(crate) fn unsigned(header: &str, claims: &str) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
}

pub(crate) fn sign_with_secret(secret: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
}

pub(crate) fn set_of(keys: &[String]) -> String {
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}
