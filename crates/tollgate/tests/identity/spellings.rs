//! Spellings of credentials that some servers accept: they count as what they are, or the request is refused.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use tollgate::Timestamp;
use tollgate::identity::{
    ApiKeys, CredentialProblem, Extractor, Identity, IdentityConfig, JwtConfig, KnownKey,
    TokenProblem, Unverified,
};

use crate::issuer::{P256, SECRET};
use crate::{NOW, STRANGER, address, at_once, extractor, parse};

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

fn knowing(unverified: Unverified) -> Extractor {
    let jwt = Some(JwtConfig::new(SECRET.keys()));
    let mut config = IdentityConfig { jwt, unverified, ..IdentityConfig::default() };
    config.api_key.accept = ApiKeys::Known(vec![KnownKey {
        owner: Some("carol".to_owned()),
        ..KnownKey::new(parse("carols"))
    }]);
    extractor(config)
}

fn identify(extractor: &Extractor, name: &HeaderName, value: &[u8]) -> Identity {
    let value = HeaderValue::from_bytes(value).expect("a header value");
    let headers = HeaderMap::from_iter([(name.clone(), value)]);
    at_once(extractor.identify(&headers, address(STRANGER), Timestamp::from_secs(NOW)))
}

/// The user, or why the request is refused.
fn outcome(identity: &Identity) -> Result<&str, CredentialProblem> {
    match identity.credential_problem {
        Some(problem) => Err(problem),
        None => Ok(identity.user_id.as_deref().unwrap_or("-")),
    }
}

fn token(padding: usize) -> String {
    let filler = "x".repeat(padding);
    SECRET.token(&format!(r#"{{"sub":"alice","exp":1700000060,"x":"{filler}"}}"#))
}

/// The same signature to servers that ignore the bits behind its last byte.
fn with_other_last_bits(token: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (rest, last) = token.split_at(token.len() - 1);
    let value = ALPHABET.iter().position(|byte| last.as_bytes() == [*byte]).expect("base64");
    format!("{rest}{}", char::from(ALPHABET[value ^ 1]))
}

#[test]
fn a_token_in_another_spelling_does_not_shed_its_user() {
    let extractor = knowing(Unverified::Ignore);
    let check = |value: &[u8], expected: Result<&str, CredentialProblem>| {
        let identity = identify(&extractor, &AUTHORIZATION, value);
        assert_eq!(outcome(&identity), expected, "{}", String::from_utf8_lossy(value));
    };
    let token = token(0);
    let alice = Ok("alice");
    for spelled in [
        format!("Bearer {token}"),
        format!("bearer\t{token}"),
        format!("Bearer  \t {token}"),
        format!(" Bearer {token} "),
        format!("Bearer {token}="),
        format!("Bearer {token}==="),
        format!("Bearer {}", with_other_last_bits(&token)),
        format!("Bearer {}", self::token(7_000)),
        format!("Bearer {}", self::token(40_000)),
    ] {
        check(spelled.as_bytes(), alice);
    }
    let unclear = Err(CredentialProblem::UnclearToken);
    let (head, tail) = token.split_at(token.len() - 9);
    for spelled in [
        format!("Bearer{token}"),
        format!("Bearer,{token}"),
        format!("Bearer {token} more"),
        format!("Bearer {token}, Basic YTpi"),
        format!("Bearer\u{a0}{token}"),
        format!("\u{a0}Bearer {token}"),
        format!("Bearer {token}\u{a0}"),
        format!("Bearer {token}*"),
        format!("Bearer {head}={tail}"),
        format!("Bearer {head}!{tail}"),
        format!("Bearer {token}+"),
    ] {
        check(spelled.as_bytes(), unclear);
    }
    // The same byte in Latin-1.
    check(&[b"Bearer\xa0", token.as_bytes()].concat(), unclear);
    check(&[b"Bearer ", token.as_bytes(), b"\x85"].concat(), unclear);
    check(format!("Bearer {}", "a".repeat(70_000)).as_bytes(), Err(CredentialProblem::LongToken));
    // Other schemes, and tokens of other kinds, are ignored.
    for other in ["Basic YTpi", "Token abc", "Digest username=\u{fc}", "Bearer opaque/+~=="] {
        check(other.as_bytes(), Ok("-"));
    }
}

#[test]
fn an_api_key_in_another_spelling_does_not_shed_its_owner() {
    let extractor = knowing(Unverified::Ignore);
    let check = |value: &[u8], expected: Result<&str, CredentialProblem>| {
        let identity = identify(&extractor, &X_API_KEY, value);
        assert_eq!(outcome(&identity), expected, "{}", String::from_utf8_lossy(value));
    };
    for value in [&b"carols"[..], b" carols", b"carols\t"] {
        check(value, Ok("carol"));
    }
    for value in [&b"carols\xa0"[..], b"\x85carols", "carols\u{a0}".as_bytes(), b"caf\xe9"] {
        check(value, Err(CredentialProblem::UnclearApiKey));
    }
    check(b"invented", Ok("-"));
    check(b"", Ok("-"));
}

#[test]
fn unverified_credentials_can_be_refused() {
    let extractor = knowing(Unverified::Refuse);
    let check = |name: &HeaderName, value: &str, expected: Result<&str, CredentialProblem>| {
        let identity = identify(&extractor, name, value.as_bytes());
        assert_eq!(outcome(&identity), expected, "{name}: {value}");
    };
    check(&AUTHORIZATION, &format!("Bearer {}", token(0)), Ok("alice"));
    check(&AUTHORIZATION, "Basic YTpi", Ok("-"));
    let invalid = |problem| Err(CredentialProblem::InvalidToken(problem));
    check(&AUTHORIZATION, "Bearer opaque", invalid(TokenProblem::Malformed));
    let expired = SECRET.token(r#"{"sub":"alice","exp":1600000000}"#);
    check(&AUTHORIZATION, &format!("Bearer {expired}"), invalid(TokenProblem::Expired));
    let other = P256.token(r#"{"sub":"alice","exp":1700000060}"#);
    check(&AUTHORIZATION, &format!("Bearer {other}"), invalid(TokenProblem::Algorithm));
    check(&X_API_KEY, "carols", Ok("carol"));
    check(&X_API_KEY, "", Ok("-"));
    for unknown in ["invented", "carols x", &"k".repeat(600)] {
        check(&X_API_KEY, unknown, Err(CredentialProblem::UnknownApiKey));
    }
}
