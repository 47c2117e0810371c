//! What is read from a token that was verified.

use tollgate::Timestamp;
use tollgate::identity::{Identity, IdentityConfig, JwtConfig};

use crate::issuer::SECRET;
use crate::{NOW, STRANGER, address, at_once, described, extractor, headers};

/// The identity of these claims, where `names` gives the claims for user, tenant and tier.
fn identity(names: [&str; 3], claims: &str) -> Identity {
    let [user, tenant, tier] = names.map(str::to_owned);
    let jwt = JwtConfig {
        user_claim: user,
        tenant_claim: Some(tenant),
        tier_claim: Some(tier),
        ..JwtConfig::new(SECRET.keys())
    };
    let extractor = extractor(IdentityConfig { jwt: Some(jwt), ..IdentityConfig::default() });
    let token = SECRET.token(&format!(r#"{{"exp":1700000060,{claims}}}"#));
    let headers = headers(&[&format!("authorization: Bearer {token}")]);
    at_once(extractor.identify(&headers, address(STRANGER), Timestamp::from_secs(NOW)))
}

const CLAIM_NAMES: [&str; 3] = ["sub", "tenant", "app.tier"];

/// Expects `user tenant tier`, with `-` for what is not there.
fn check(names: [&str; 3], claims: &str, expected: &str) {
    let found = identity(names, claims);
    let rest = [&found.tenant, &found.tier].map(|part| part.as_deref().unwrap_or("-"));
    assert_eq!(format!("{} {}", described(&found), rest.join(" ")), expected, "{claims}");
}

#[test]
fn user_tenant_and_tier_have_their_claims() {
    check(CLAIM_NAMES, r#""sub":"alice","tenant":"acme","app":{"tier":"pro"}"#, "alice acme pro");
    check(CLAIM_NAMES, r#""sub":"alice""#, "alice - -");
    check(CLAIM_NAMES, r#""sub":"alice","tenant":7,"app":{"tier":true}"#, "alice 7 true");
    check(CLAIM_NAMES, r#""sub":"alice","tenant":["acme"],"app":"pro""#, "alice - -");
    check(CLAIM_NAMES, r#""sub":"alice","tenant":"","app":{"tier":null}"#, "alice - -");
    check(CLAIM_NAMES, r#""tenant":"acme""#, "unknown acme -");
    // A name with dots comes before a path.
    let named = ["sub", "https://example.com/tenant", "app.tier"];
    check(named, r#""sub":"a","https://example.com/tenant":"acme""#, "a acme -");
    check(named, r#""sub":"a","app.tier":"pro","app":{"tier":"free"}"#, "a - pro");
    check(["user.id", "t", "a.b.c"], r#""user":{"id":42},"a":{"b":{"c":"deep"}}"#, "42 - deep");
}

#[test]
fn a_user_is_named_by_text() {
    for subject in ["7", "true", "null", "[]", r#"["alice"]"#, r#"{"name":"alice"}"#, r#""""#] {
        check(CLAIM_NAMES, &format!(r#""sub":{subject}"#), "User - -");
    }
    check(CLAIM_NAMES, &format!(r#""sub":"{}""#, "x".repeat(1025)), "User - -");
    check(["uid", "t", "t"], r#""sub":7,"uid":"alice""#, "User - -");
    check(["uid", "t", "t"], r#""uid":{"name":"alice"}"#, "User - -");
    check(["uid", "t", "t"], r#""sub":"alice""#, "unknown - -");
    check(["uid", "t", "t"], r#""uid":null"#, "unknown - -");
}

#[test]
fn rules_may_ask_for_claims() {
    let found = identity(
        CLAIM_NAMES,
        r#""sub":"alice","plan":"gold","seats":5,"share":0.5,"beta":true,"none":null,"list":[1],"app":{"tier":"pro"},"empty":"""#,
    );
    for (name, expected) in [
        ("sub", Some("alice")),
        ("plan", Some("gold")),
        ("seats", Some("5")),
        ("share", Some("0.5")),
        ("beta", Some("true")),
        ("exp", Some("1700000060")),
        ("none", None),
        ("list", None),
        ("app", None),
        ("app.tier", None),
        ("empty", None),
        ("missing", None),
    ] {
        assert_eq!(found.claims.get(name), expected, "{name}");
    }
    assert_eq!(
        format!("{:?}", found.claims),
        r#"{"beta", "exp", "plan", "seats", "share", "sub"}"#
    );
}

#[test]
fn claims_are_bounded() {
    let many: Vec<String> = (0..200).map(|number| format!(r#""c{number}":{number}"#)).collect();
    assert_eq!(identity(CLAIM_NAMES, &many.join(",")).claims.iter().count(), 64);
    let long = identity(CLAIM_NAMES, &format!(r#""sub":"a","long":"{}""#, "x".repeat(1025)));
    assert_eq!(long.claims.get("long"), None);
}
