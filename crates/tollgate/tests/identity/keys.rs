//! Sets of keys: which of them verify, and which are left out.

use std::path::PathBuf;

use tollgate::Timestamp;
use tollgate::identity::{Extractor, IdentityConfig, JwtConfig, TokenKeys};

use crate::issuer::{self, ED25519, Issuer, P256, RSA, SECRET};
use crate::{NOW, at_once, holder, key_file};

const ALICE: &str = r#"{"sub":"alice","exp":1700000060}"#;

/// An extractor that reads a set from a file.
fn reading(set: &str) -> Result<Extractor, String> {
    let file = key_file(set);
    let jwt = JwtConfig::new(TokenKeys::JwksFile(file.path().to_owned()));
    let config = IdentityConfig { jwt: Some(jwt), ..IdentityConfig::default() };
    let path = file.path().display().to_string();
    Extractor::new(config).map_err(|error| error.to_string().replace(&path, "FILE"))
}

fn check(keys: &[String], issuer: &Issuer, kid: &str, expected: &str) {
    let extractor = reading(&issuer::set_of(keys)).expect("usable keys");
    let kid = if kid.is_empty() { String::new() } else { format!(r#","kid":"{kid}""#) };
    let token = issuer.token_with(&format!(r#"{{"alg":"{}"{kid}}}"#, issuer.algorithm()), ALICE);
    let found = at_once(holder(&extractor, &token, Timestamp::from_secs(NOW)));
    assert_eq!(found, expected, "kid {kid} in {keys:?}");
}

#[test]
fn a_token_names_its_key() {
    let keys = [RSA.jwk("r", ""), P256.jwk("e", ""), ED25519.jwk("d", "")];
    check(&keys, &RSA, "r", "alice");
    check(&keys, &P256, "e", "alice");
    check(&keys, &ED25519, "d", "alice");
    check(&keys, &P256, "x", "UnknownKey");
    // A key is good for its own algorithm only.
    check(&keys, &RSA, "e", "Algorithm");
    check(&keys, &P256, "r", "Algorithm");
    check(&keys, &Issuer::p256(), "e", "Signature");
    // The token claims HS256, but the key is a public key.
    check(&keys, &SECRET, "r", "Algorithm");
}

#[test]
fn a_token_without_a_name_is_tried_with_every_key_of_its_algorithm() {
    let other = Issuer::p256();
    let keys = [other.jwk("o", ""), RSA.jwk("r", ""), P256.jwk("e", "")];
    check(&keys, &P256, "", "alice");
    check(&keys, &RSA, "", "alice");
    check(&keys, &ED25519, "", "Algorithm");
    check(&keys, &Issuer::p256(), "", "Signature");
    // Keys without a name are for tokens without one.
    let nameless = [P256.jwk("", "").replace(r#""kid":"","#, "")];
    check(&nameless, &P256, "", "alice");
    check(&nameless, &P256, "e", "UnknownKey");
}

#[test]
fn the_purpose_of_a_key_is_respected() {
    for (members, expected) in [
        (r#","use":"sig""#, "alice"),
        (r#","use":"sig","alg":"ES256","key_ops":["verify"]"#, "alice"),
        (r#","use":"enc""#, "UnknownKey"),
        (r#","key_ops":["sign"]"#, "UnknownKey"),
        (r#","key_ops":[]"#, "UnknownKey"),
        (r#","alg":"ES384""#, "UnknownKey"),
        (r#","alg":"RS256""#, "UnknownKey"),
        (r#","alg":"ECDH-ES""#, "UnknownKey"),
    ] {
        check(&[RSA.jwk("r", ""), P256.jwk("e", members)], &P256, "e", expected);
    }
}

#[test]
fn keys_of_unknown_kinds_are_left_out() {
    let strange = [
        r#"{"kty":"AKP","alg":"ML-DSA-65","kid":"q","pub":"AAAA"}"#,
        r#"{"kty":"EC","crv":"P-521","kid":"big","x":"AA","y":"AA"}"#,
        r#"{"kty":"OKP","crv":"X25519","kid":"x","x":"AA"}"#,
        r#"{"kid":"no kind"}"#,
        r#"{"kty":7}"#,
        r#""text""#,
        "null",
    ];
    let mut keys = strange.map(str::to_owned).to_vec();
    keys.push(P256.jwk("e", r#","x-unknown":{"a":[1]}"#));
    check(&keys, &P256, "e", "alice");
    check(&keys, &P256, "q", "UnknownKey");
}

#[test]
fn invalid_keys_are_left_out_and_named() {
    let modulus = |bytes: usize| format!("_{}", "_".repeat(bytes * 4 / 3 - 1));
    let short = format!(r#"{{"kty":"RSA","e":"AQAB","n":"{}"}}"#, modulus(129));
    let one = RSA.jwk("r", "").replace("AQAB", "AQ");
    for (key, reason) in [
        (short.as_str(), "an RSA key must have 2048 to 8192 bits"),
        (r#"{"kty":"RSA","e":"AQAB"}"#, "`n` is missing"),
        (r#"{"kty":"RSA","e":"AQAB","n":"+/"}"#, "`n` is not Base64url"),
        (r#"{"kty":"RSA","e":"AQAB","n":""}"#, "not an RSA key"),
        (r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}"#, "not a point on P-256"),
        (r#"{"kty":"EC","crv":"secp256k1"}"#, "a key of kind EC secp256k1"),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, "not an Ed25519 key"),
        (&SECRET.jwk("s", ""), "a secret; secrets are not taken from a JWKS"),
        (r#"{"kty":"new"}"#, "a key of kind new "),
        ("7", "not a JWK"),
        (&one, ""),
    ] {
        let error = reading(&issuer::set_of(&[key.to_owned()])).expect_err(key);
        let expected = format!("jwt.jwks_file: FILE: no key to verify with. keys[0]: {reason}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn an_invalid_set_is_refused() {
    let many = issuer::set_of(&vec!["{}".to_owned(); 65]);
    for (text, problem) in [
        ("", "not a JWKS, which is {\"keys\": [...]}, at line 1, column 0"),
        ("[]", "not a JWKS"),
        (r#"{"keys":"secret"}"#, "not a JWKS"),
        (r#"{"keys":[]}"#, "no key to verify with: the set is empty"),
        (&many, "65 keys, of at most 64"),
    ] {
        let error = reading(text).expect_err(text);
        assert!(error.starts_with(&format!("jwt.jwks_file: FILE: {problem}")), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let jwt = JwtConfig::new(TokenKeys::JwksFile(PathBuf::from("no/such/file.json")));
    let error = Extractor::new(IdentityConfig { jwt: Some(jwt), ..IdentityConfig::default() });
    let error = error.expect_err("no file").to_string();
    assert!(error.starts_with("jwt.jwks_file: no/such/file.json: "), "{error}");
}
