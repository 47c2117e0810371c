//! Malformed headers of every kind: nothing panics, no client gains an identity, and no header that a
//! client writes changes its address.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate::identity::{
    ApiKeys, ClientIpConfig, Extractor, ForwardingHeader, IdentityConfig, JwtConfig, KnownKey,
    TokenVerdict,
};

use crate::issuer::SECRET;
use crate::{NOW, address, at_once, extractor, holder, parse};

const TRUSTED: &str = "10.0.0.1";
const CLIENT: &str = "203.0.113.9";

fn config(header: ForwardingHeader) -> IdentityConfig {
    let client_ip = ClientIpConfig {
        trusted_proxies: vec![parse("10.0.0.0/8")],
        header,
        ..ClientIpConfig::default()
    };
    let mut config = IdentityConfig {
        client_ip,
        jwt: Some(JwtConfig::new(SECRET.keys())),
        ..IdentityConfig::default()
    };
    let key = KnownKey::new(parse("an-unlikely-key"));
    config.api_key.accept =
        ApiKeys::Known(vec![KnownKey { owner: Some("alice".to_owned()), ..key }]);
    config
}

fn lists() -> [(&'static str, Extractor); 2] {
    [
        ("x-forwarded-for", extractor(config(ForwardingHeader::XForwardedFor))),
        ("forwarded", extractor(config(ForwardingHeader::Forwarded))),
    ]
}

/// A value of a header: any bytes that HTTP lets through, or something that looks like one.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let bytes =
        vec(any::<u8>().prop_filter("no control", |byte| *byte >= 32 && *byte != 127), 0..80);
    let pieces = [
        "for=",
        "\"",
        "\\",
        ",",
        ";",
        "=",
        "[",
        "]",
        ":",
        "%",
        "10.0.0.2",
        "::1",
        "::ffff:10.0.0.3",
        "1.1.1.1",
        "unknown",
        "_x",
        " ",
        "Bearer ",
        ".",
        "eyJhbGciOiJIUzI1NiJ9",
        "e30",
        "sha256:",
    ];
    let pieces = vec(prop::sample::select(pieces.to_vec()), 0..20);
    prop_oneof![bytes, pieces.prop_map(|pieces| pieces.concat().into_bytes())]
}

fn append(headers: &mut HeaderMap, name: &'static str, value: &[u8]) {
    let value = HeaderValue::from_bytes(value).expect("a value without control characters");
    headers.append(HeaderName::from_static(name), value);
}

/// The six bits that a character of Base64 for URLs stands for.
fn base64url_digit(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

proptest! {
    #[test]
    fn malformed_credentials_identify_no_client(
        lines in vec((prop::sample::select(
            vec!["authorization", "x-api-key", "x-forwarded-for", "forwarded", "host"],
        ), value()), 0..6),
        peer in any::<IpAddr>(),
        through_proxy in any::<bool>(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in &lines {
            append(&mut headers, name, value);
        }
        let peer = if through_proxy { address(TRUSTED) } else { peer };
        for (_, extractor) in lists() {
            let now = Timestamp::from_secs(NOW);
            let identity = at_once(extractor.identify(&headers, peer, now));
            prop_assert_eq!(&identity.user_id, &None);
            prop_assert_eq!(&identity.api_key, &None);
            prop_assert_ne!(identity.token, TokenVerdict::Verified);
            // What rules are given is an address, in its only spelling.
            let parsed: IpAddr = identity.ip.parse().expect("an address");
            prop_assert_eq!(parsed.to_canonical().to_string(), identity.ip);
        }
    }

    #[test]
    fn what_a_client_writes_does_not_hide_its_address(written in value(), same_line in any::<bool>()) {
        for (name, extractor) in lists() {
            let added = if name == "forwarded" { format!("for={CLIENT}") } else { CLIENT.to_owned() };
            let mut headers = HeaderMap::new();
            if same_line {
                append(&mut headers, name, &[&written, b", ".as_slice(), added.as_bytes()].concat());
            } else {
                append(&mut headers, name, &written);
                append(&mut headers, name, added.as_bytes());
            }
            let identity =
                at_once(extractor.identify(&headers, address(TRUSTED), Timestamp::EPOCH));
            prop_assert_eq!(identity.ip, CLIENT);
        }
    }

    #[test]
    fn a_token_with_one_changed_character_is_rejected(at in any::<prop::sample::Index>(), other in "[ -~]") {
        let extractor = extractor(config(ForwardingHeader::XForwardedFor));
        let token = SECRET.token(r#"{"sub":"alice","exp":1700000060}"#);
        let now = Timestamp::from_secs(NOW);
        prop_assert_eq!(at_once(holder(&extractor, &token, now)), "alice");
        let at = at.index(token.len());
        let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        prop_assume!(changed != token);
        // The last character of a signature has two bits that carry nothing, and servers ignore them.
        let last_bits = |token: &str| token.bytes().last().and_then(base64url_digit).map(|it| it >> 2);
        let is_last = at + 1 == token.len();
        prop_assume!(!is_last || last_bits(&changed) != last_bits(&token));
        prop_assert_ne!(at_once(holder(&extractor, &changed, now)), "alice");
    }
}
