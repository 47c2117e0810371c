//! Credentials sent more than once: repeating one changes nothing, and two that differ are noticed.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate::identity::{
    ApiKeys, CredentialProblem, Extractor, Identity, IdentityConfig, JwtConfig, KnownKey, Secret,
    TokenProblem, TokenVerdict,
};

use crate::issuer::SECRET;
use crate::{NOW, STRANGER, address, at_once, extractor, headers, parse};

const ALICE: &str = r#"{"sub":"alice","exp":1700000060}"#;
const BOB: &str = r#"{"sub":"bob","exp":1700000060}"#;

fn believing_both() -> Extractor {
    let jwt = Some(JwtConfig::new(SECRET.keys()));
    let mut config = IdentityConfig { jwt, ..IdentityConfig::default() };
    config.api_key.accept = ApiKeys::Known(vec![
        KnownKey { owner: Some("carol".to_owned()), ..KnownKey::new(parse("carols")) },
        KnownKey { owner: Some("dave".to_owned()), ..KnownKey::new(parse("daves")) },
    ]);
    extractor(config)
}

fn identify(extractor: &Extractor, lines: &[&str]) -> Identity {
    let now = Timestamp::from_secs(NOW);
    at_once(extractor.identify(&headers(lines), address(STRANGER), now))
}

fn bearer(claims: &str) -> String {
    format!("authorization: Bearer {}", SECRET.token(claims))
}

/// Expects `user key`, with `-` for what is not there.
fn check(lines: &[&str], expected: &str, is_ambiguous: bool) -> Identity {
    let identity = identify(&believing_both(), lines);
    let key = identity.api_key.as_ref().map(Secret::expose);
    let parts = [identity.user_id.as_deref(), key].map(|part| part.unwrap_or("-"));
    assert_eq!(parts.join(" "), expected, "{lines:?}");
    assert_eq!(identity.credential_problem.is_some(), is_ambiguous, "{lines:?}");
    identity
}

#[test]
fn an_api_key_sent_twice_keeps_its_quota() {
    check(&["x-api-key: carols"], "carol carols", false);
    check(&["x-api-key: carols"; 2], "carol carols", false);
    check(&["x-api-key: carols"; 9], "carol carols", false);
    check(&["x-api-key: invented"; 2], "- -", false);
}

#[test]
fn api_keys_that_differ_are_ambiguous() {
    check(&["x-api-key: carols", "x-api-key: daves"], "- -", true);
    check(&["x-api-key: carols", "x-api-key: invented"], "- -", true);
    check(&["x-api-key: invented", "x-api-key: carols"], "- -", true);
    check(&["x-api-key: carols", "x-api-key: carols", "x-api-key:"], "- -", true);
    check(&["x-api-key: carols", "x-api-key: caf\u{e9}"], "- -", true);
    // Keys that differ are refused even if neither is known: an upstream may know more of them.
    let no_keys = extractor(IdentityConfig::default());
    assert!(identify(&no_keys, &["x-api-key: a", "x-api-key: b"]).credential_problem.is_some());
}

#[test]
fn a_token_sent_twice_keeps_its_quota() {
    let alice = bearer(ALICE);
    check(&[&alice], "alice -", false);
    let identity = check(&[&alice, &alice], "alice -", false);
    assert_eq!(identity.token, TokenVerdict::Verified);
    let identity = check(&["authorization: Basic YTpi"; 2], "- -", false);
    assert_eq!(identity.token, TokenVerdict::Absent);
}

#[test]
fn authorizations_that_differ_are_ambiguous() {
    let (alice, bob) = (bearer(ALICE), bearer(BOB));
    let basic = "authorization: Basic YTpi";
    for lines in [
        [&*alice, &bob],
        [&*alice, &alice.replace("Bearer", "bearer")],
        [&*alice, "authorization:"],
        [&*alice, basic],
        [basic, &*alice],
        [basic, "authorization: Basic YTpj"],
    ] {
        let identity = check(&lines, "- -", true);
        assert_eq!(identity.token, TokenVerdict::Rejected(TokenProblem::Ambiguous), "{lines:?}");
    }
    let no_tokens = extractor(IdentityConfig::default());
    let identity = identify(&no_tokens, &[basic, &alice]);
    assert_eq!(identity.token, TokenVerdict::Absent);
    assert_eq!(identity.credential_problem, Some(CredentialProblem::RepeatedAuthorization));
}

#[test]
fn a_credential_of_each_kind_is_not_ambiguous() {
    check(&[&bearer(ALICE), "x-api-key: carols"], "alice carols", false);
    // The other credential still counts where the request is not refused.
    check(&["x-api-key: carols", &bearer(ALICE), &bearer(BOB)], "carol carols", true);
    check(&["x-api-key: carols", "x-api-key: daves", &bearer(ALICE)], "alice -", true);
}

proptest! {
    #[test]
    fn repeating_what_was_sent_changes_nothing(
        chosen in vec(0_usize..6, 0..4),
        times in 2_usize..4,
    ) {
        let lines = [
            "x-api-key: carols",
            "x-api-key: daves",
            "x-api-key:",
            &bearer(ALICE),
            &bearer(BOB),
            "authorization: Basic YTpi",
        ];
        let once: Vec<_> = chosen.iter().map(|at| lines[*at]).collect();
        let extractor = believing_both();
        prop_assert_eq!(
            identify(&extractor, &once.repeat(times)),
            identify(&extractor, &once)
        );
    }
}
