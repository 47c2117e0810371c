//! API keys: known ones identify their owner, others are ignored.

use tollgate::Timestamp;
use tollgate::identity::{
    ApiKeyConfig, ApiKeys, Extractor, IdentityConfig, KeyDigest, KnownKey, Secret,
};

use crate::{STRANGER, address, at_once, extractor, headers, parse};

/// The SHA-256 of `abc`, as FIPS 180 prints it.
const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

fn config(accept: ApiKeys) -> IdentityConfig {
    let api_key = ApiKeyConfig { accept, ..ApiKeyConfig::default() };
    IdentityConfig { api_key, ..IdentityConfig::default() }
}

fn known() -> ApiKeys {
    let plain = KnownKey::new(parse("plain-key"));
    ApiKeys::Known(vec![
        KnownKey { owner: Some("alice".to_owned()), ..KnownKey::new(parse(ABC)) },
        KnownKey { tier: Some("pro".to_owned()), tenant: Some("acme".to_owned()), ..plain },
    ])
}

/// Expects `key owner tier tenant`, with `-` for what is not there.
fn check(extractor: &Extractor, lines: &[&str], expected: &str) {
    let identity =
        at_once(extractor.identify(&headers(lines), address(STRANGER), Timestamp::EPOCH));
    let key = identity.api_key.as_ref().map(Secret::expose);
    let parts =
        [key, identity.user_id.as_deref(), identity.tier.as_deref(), identity.tenant.as_deref()];
    assert_eq!(parts.map(|part| part.unwrap_or("-")).join(" "), expected, "{lines:?}");
}

#[test]
fn only_known_keys_count() {
    let known = extractor(config(known()));
    check(&known, &[], "- - - -");
    check(&known, &["x-api-key: abc"], "abc alice - -");
    check(&known, &["X-API-Key: plain-key"], "plain-key - pro acme");
    check(&known, &["x-api-key: invented"], "- - - -");
    check(&known, &["x-api-key: ABC"], "- - - -");
    check(&known, &["x-api-key:"], "- - - -");
    check(&known, &[&format!("x-api-key: {ABC}")], "- - - -");
    check(&extractor(IdentityConfig::default()), &["x-api-key: abc"], "- - - -");
}

#[test]
fn any_key_counts_if_configured() {
    let any = extractor(config(ApiKeys::Any));
    check(&any, &["x-api-key: invented"], "invented - - -");
    check(&any, &["x-api-key: with space"], "- - - -");
    check(&any, &["x-api-key: caf\u{e9}"], "- - - -");
    let longest = "k".repeat(512);
    check(&any, &[&format!("x-api-key: {longest}")], &format!("{longest} - - -"));
    check(&any, &[&format!("x-api-key: {longest}k")], "- - - -");
}

#[test]
fn the_header_can_have_another_name() {
    let mut config = config(known());
    config.api_key.header = parse("x-partner");
    let extractor = extractor(config);
    check(&extractor, &["x-partner: abc"], "abc alice - -");
    check(&extractor, &["x-api-key: abc"], "- - - -");
}

#[test]
fn a_digest_is_as_good_as_the_key() {
    assert_eq!(ABC.parse(), Ok(KeyDigest::of("abc")));
    assert_eq!(ABC.to_uppercase().replace("SHA", "sha").parse(), Ok(KeyDigest::of("abc")));
}

#[test]
fn an_invalid_key_is_refused_without_being_shown() {
    for text in ["sha256:", "sha256:ba7816", &ABC.replace("ba", "zz"), "", "two words", "caf\u{e9}"]
    {
        let error = text.parse::<KeyDigest>().expect_err(text).to_string();
        assert!(error.starts_with("api_key: "), "{error}");
        assert!(text.is_empty() || !error.contains(text) || text == "sha256:", "{error}");
    }
    let twice = ApiKeys::Known(vec![
        KnownKey::new(parse("abc")),
        KnownKey::new(parse("other")),
        KnownKey::new(parse(ABC)),
    ]);
    let error = Extractor::new(config(twice)).expect_err("the same key twice");
    assert_eq!(error.to_string(), "api_key.accept[2]: the same key is there twice");
}
