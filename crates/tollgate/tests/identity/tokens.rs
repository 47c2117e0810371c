//! Tokens: valid ones are accepted, and each problem has its own name.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate::identity::{Extractor, IdentityConfig, JwtConfig, SigningAlgorithm, TokenKeys};
use tollgate::{Micros, Timestamp};

use crate::issuer::{self, ED25519, Issuer, P256, RSA, SECRET};
use crate::{
    NOW, STRANGER, address, at_once, believing, described, extractor, headers, holder, key_file,
};

const ALICE: &str = r#"{"sub":"alice","exp":1700000060}"#;

fn now() -> Timestamp {
    Timestamp::from_secs(NOW)
}

fn check(extractor: &Extractor, token: &str, expected: &str) {
    assert_eq!(at_once(holder(extractor, token, now())), expected, "{token}");
}

/// An extractor for tokens of the shared secret, with changed settings.
fn expecting(change: impl FnOnce(&mut JwtConfig)) -> Extractor {
    let mut config = JwtConfig::new(SECRET.keys());
    change(&mut config);
    extractor(IdentityConfig { jwt: Some(config), ..IdentityConfig::default() })
}

fn issuers() -> [&'static Issuer; 4] {
    [&SECRET, &RSA, &P256, &ED25519]
}

#[test]
fn every_algorithm_is_verified() {
    for issuer in issuers() {
        let extractor = believing(issuer.keys());
        let token = issuer.token(ALICE);
        check(&extractor, &token, "alice");
        let (message, _) = token.rsplit_once('.').unwrap();
        let other = URL_SAFE_NO_PAD.encode(issuer.sign(b"something else"));
        check(&extractor, &format!("{message}.{other}"), "Signature");
        check(&extractor, &format!("{message}."), "Signature");
    }
}

#[test]
fn a_token_cannot_choose_its_algorithm() {
    for issuer in issuers() {
        let extractor = believing(issuer.keys());
        for name in ["HS256", "RS256", "ES256", "EdDSA"] {
            let token = issuer.token_with(&format!(r#"{{"alg":"{name}"}}"#), ALICE);
            let is_right = name == issuer.algorithm();
            check(&extractor, &token, if is_right { "alice" } else { "Algorithm" });
        }
        for other in issuers().into_iter().filter(|other| other.algorithm() != issuer.algorithm()) {
            check(&extractor, &other.token(ALICE), "Algorithm");
        }
        for name in ["none", "None", "NONE", "nOnE", "", "hs256", "HS512", "PS256", "ES256K"] {
            let message = issuer::unsigned(&format!(r#"{{"alg":"{name}"}}"#), ALICE);
            check(&extractor, &format!("{message}."), "Algorithm");
            let signed = URL_SAFE_NO_PAD.encode(issuer.sign(message.as_bytes()));
            check(&extractor, &format!("{message}.{signed}"), "Algorithm");
        }
    }
}

#[test]
fn a_public_key_is_no_secret() {
    for issuer in [&*RSA, &*P256, &*ED25519] {
        let (pem, extractor) = (issuer.pem(), believing(issuer.keys()));
        for secret in [pem.as_str(), pem.trim_end(), &pem.replace('\n', "")] {
            let message = issuer::unsigned(r#"{"alg":"HS256"}"#, ALICE);
            let signature = issuer::sign_with_secret(secret.as_bytes(), message.as_bytes());
            let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
            check(&extractor, &token, "Algorithm");
        }
    }
}

#[test]
fn signatures_have_one_form() {
    let extractor = believing(P256.keys());
    let message = issuer::unsigned(r#"{"alg":"ES256"}"#, ALICE);
    let right = P256.sign(message.as_bytes());
    let with = |signature: &[u8]| format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    check(&extractor, &with(&right), "alice");
    for wrong in
        [&right[..63], &[&right[..], &[0]].concat(), &[0; 64], &[], &[&[0], &right[..]].concat()]
    {
        check(&extractor, &with(wrong), "Signature");
    }
    // ASN.1, as ECDSA is written elsewhere.
    let mut der = vec![0x30, 70];
    for half in right.chunks(32) {
        der.extend([2, 33, 0]);
        der.extend(half);
    }
    check(&extractor, &with(&der), "Signature");
}

#[test]
fn a_token_has_three_parts_of_base64url() {
    let extractor = believing(SECRET.keys());
    let token = SECRET.token(ALICE);
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    check(&extractor, &format!("{token}="), "alice");
    check(&extractor, &format!("{header}=.{payload}.{signature}"), "Signature");
    check(&extractor, &format!("{header} .{payload}.{signature}"), "Ambiguous");
    check(&extractor, &format!("{header}.{payload}.{}+", &signature[1..]), "Ambiguous");
    for malformed in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        header,
        message,
        &format!("{token}.{signature}"),
        &SECRET.token_with("[]", ALICE),
        &SECRET.token_with("{}", ALICE),
        &SECRET.token_with(r#"{"alg":1}"#, ALICE),
        &SECRET.token_with(r#"{"alg":"HS256","kid":7}"#, ALICE),
        &SECRET.token_with(r#"{"alg":["HS256"]}"#, ALICE),
        &SECRET.token("[]"),
        &SECRET.token("null"),
        &SECRET.token("alice"),
        &SECRET.token(r#"{"sub":"alice","exp":"1700000060"}"#),
        &SECRET.token(r#"{"sub":"alice","exp":null}"#),
        &SECRET.token(r#"{"sub":"alice","exp":1700000060,"nbf":"now"}"#),
        &SECRET.token(r#"{"sub":"alice","exp":1700000060,"iat":{}}"#),
    ] {
        check(&extractor, malformed, "Malformed");
    }
}

#[test]
fn the_header_of_a_token_is_validated() {
    let extractor = believing(SECRET.keys());
    let with = |members: &str, expected: &str| {
        check(
            &extractor,
            &SECRET.token_with(&format!(r#"{{"alg":"HS256"{members}}}"#), ALICE),
            expected,
        );
    };
    // The only key needs no name.
    with(r#","kid":"whatever""#, "alice");
    with(r#","typ":"JWT""#, "alice");
    with(r#","typ":"at+jwt""#, "alice");
    with(r#","typ":"application/AT+JWT""#, "alice");
    with(r#","typ":"logout+jwt""#, "Type");
    with(r#","typ":"dpop+jwt""#, "Type");
    with(r#","typ":7"#, "Type");
    with(r#","crit":["exp"]"#, "Critical");
    with(r#","crit":["b64"],"b64":false"#, "Critical");
    with(r#","crit":[]"#, "Critical");
    with(r#","crit":null"#, "Critical");
}

#[test]
fn keys_in_a_token_are_not_used() {
    let stranger = Issuer::p256();
    let extractor = believing(P256.keys());
    let own_key = format!(r#","jwk":{}"#, stranger.jwk("own", ""));
    let addresses =
        r#","jku":"http://127.0.0.1:9/keys","x5u":"http://127.0.0.1:9/","x5c":["AAAA"]"#;
    for members in [&own_key, addresses] {
        let header = format!(r#"{{"alg":"ES256"{members}}}"#);
        check(&extractor, &stranger.token_with(&header, ALICE), "Signature");
        check(&extractor, &P256.token_with(&header, ALICE), "alice");
    }
}

#[test]
fn a_huge_token_is_not_decoded() {
    let extractor = believing(SECRET.keys());
    let padded = |length: usize| {
        SECRET.token(&format!(r#"{{"sub":"alice","exp":1700000060,"x":"{}"}}"#, "x".repeat(length)))
    };
    let fitting = (49_000..49_100).map(padded).rfind(|token| token.len() <= 65_536);
    let fitting = fitting.expect("a token of nearly 64 KiB");
    assert!(fitting.len() > 65_530);
    check(&extractor, &fitting, "alice");
    check(&extractor, &padded(49_200), "TooLong");
    check(&extractor, &"?".repeat(65_537), "TooLong");
}

#[test]
fn expiry_and_not_before_are_checked() {
    let extractor = believing(SECRET.keys());
    let with = |members: &str, expected: &str| {
        check(&extractor, &SECRET.token(&format!(r#"{{"sub":"alice"{members}}}"#)), expected);
    };
    with("", "NoExpiry");
    with(r#","exp":1699999971"#, "alice");
    with(r#","exp":1699999970"#, "Expired");
    with(r#","exp":1699999970.5"#, "alice");
    with(r#","exp":1699999969.5"#, "Expired");
    with(r#","exp":0"#, "Expired");
    with(r#","exp":-1"#, "Expired");
    with(r#","exp":1e300"#, "alice");
    with(r#","exp":18446744073709551615"#, "alice");
    with(r#","exp":1700000060,"nbf":1700000030"#, "alice");
    with(r#","exp":1700000060,"nbf":1700000031"#, "NotYetValid");
    with(r#","exp":1700000060,"iat":1700000030"#, "alice");
    with(r#","exp":1700000060,"iat":1700000031"#, "NotYetValid");
    with(r#","exp":1700000060,"iat":1.7e12"#, "NotYetValid");
}

#[test]
fn the_caller_passes_the_time() {
    let extractor = expecting(|config| config.leeway = Duration::ZERO);
    let token = SECRET.token(r#"{"sub":"alice","nbf":1700000000,"exp":1700000060}"#);
    let at = |now: Timestamp| at_once(holder(&extractor, &token, now));
    let one = Micros::new(1);
    assert_eq!(at(now().minus(one)), "NotYetValid");
    assert_eq!(at(now()), "alice");
    assert_eq!(at(Timestamp::from_secs(NOW + 60).minus(one)), "alice");
    assert_eq!(at(Timestamp::from_secs(NOW + 60)), "Expired");
}

#[test]
fn issuer_and_audience_must_be_right() {
    let token =
        |members: &str| SECRET.token(&format!(r#"{{"sub":"alice","exp":1700000060{members}}}"#));
    let issued = expecting(|config| config.issuer = Some("https://issuer.example".to_owned()));
    check(&issued, &token(r#","iss":"https://issuer.example""#), "alice");
    for members in
        ["", r#","iss":"https://issuer.example/""#, r#","iss":["https://issuer.example"]"#]
    {
        check(&issued, &token(members), "Issuer");
    }
    let heard = expecting(|config| config.audiences = vec!["api".to_owned(), "web".to_owned()]);
    for members in [r#","aud":"api""#, r#","aud":["other","web"]"#] {
        check(&heard, &token(members), "alice");
    }
    for members in [
        "",
        r#","aud":"ap""#,
        r#","aud":["other"]"#,
        r#","aud":[]"#,
        r#","aud":[["api"]]"#,
        r#","aud":{"api":1}"#,
    ] {
        check(&heard, &token(members), "Audience");
    }
    check(&believing(SECRET.keys()), &token(r#","aud":"other","iss":"anybody""#), "alice");
}

#[test]
fn algorithms_can_be_narrowed() {
    let file = key_file(&issuer::set_of(&[RSA.jwk("r", ""), P256.jwk("e", "")]));
    let mut config = JwtConfig::new(TokenKeys::JwksFile(file.path().to_owned()));
    config.algorithms = vec![SigningAlgorithm::Es256];
    let extractor = extractor(IdentityConfig { jwt: Some(config), ..IdentityConfig::default() });
    check(&extractor, &P256.token_with(r#"{"alg":"ES256","kid":"e"}"#, ALICE), "alice");
    check(&extractor, &RSA.token_with(r#"{"alg":"RS256","kid":"r"}"#, ALICE), "Algorithm");
}

#[test]
fn tokens_are_read_from_authorization_bearer() {
    let extractor = believing(SECRET.keys());
    let token = SECRET.token(ALICE);
    let with = |lines: &[&str], expected: &str| {
        let identity = at_once(extractor.identify(&headers(lines), address(STRANGER), now()));
        assert_eq!(described(&identity), expected, "{lines:?}");
    };
    with(&[], "no token");
    with(&["authorization: Basic YTpi"], "no token");
    with(&["authorization: Bearerx"], "Ambiguous");
    with(&["authorization: Bearer"], "Malformed");
    with(&["authorization: Bearer \u{e9}"], "Ambiguous");
    with(&[&format!("authorization: bEaReR   {token}")], "alice");
    with(&[&format!("x-token: {token}"), &format!("cookie: token={token}")], "no token");
}

#[test]
fn without_keys_tokens_are_ignored() {
    check(&extractor(IdentityConfig::default()), &SECRET.token(ALICE), "no token");
}
