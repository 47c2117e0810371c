//! Several credentials in one request, headers of proxies, and what rules see of all that.

use http::HeaderMap;
use tollgate::identity::{
    ApiKeys, Extractor, HttpRequest, Identity, IdentityConfig, JwtConfig, KnownKey, TokenProblem,
    TokenVerdict,
};
use tollgate::{Attribute, Attributes, Limiter, Timestamp};

use crate::issuer::SECRET;
use crate::{NOW, address, at_once, extractor, headers, parse};

fn everything() -> Extractor {
    let mut config = IdentityConfig {
        tenant_header: Some(parse("x-tenant")),
        tier_header: Some(parse("x-tier")),
        jwt: Some(JwtConfig {
            tenant_claim: Some("tenant".to_owned()),
            tier_claim: Some("tier".to_owned()),
            ..JwtConfig::new(SECRET.keys())
        }),
        ..IdentityConfig::default()
    };
    config.client_ip.trusted_proxies.push(parse("10.0.0.0/8"));
    config.api_key.accept = ApiKeys::Known(vec![
        KnownKey {
            owner: Some("key-owner".to_owned()),
            tenant: Some("key-tenant".to_owned()),
            tier: Some("key-tier".to_owned()),
            ..KnownKey::new(parse("full"))
        },
        KnownKey::new(parse("bare")),
    ]);
    extractor(config)
}

fn bearer(claims: &str) -> String {
    format!("authorization: Bearer {}", SECRET.token(claims))
}

fn identify(peer: &str, lines: &[&str]) -> Identity {
    at_once(everything().identify(&headers(lines), address(peer), Timestamp::from_secs(NOW)))
}

/// Expects `user tenant tier`, with `-` for what is not there.
fn check(peer: &str, lines: &[&str], expected: &str) {
    let Identity { user_id, tenant, tier, .. } = identify(peer, lines);
    let parts = [user_id, tenant, tier].map(|part| part.unwrap_or("-".to_owned()));
    assert_eq!(parts.join(" "), expected, "from {peer}: {lines:?}");
}

#[test]
fn the_strongest_credential_wins() {
    let full = bearer(r#"{"sub":"alice","exp":1700000060,"tenant":"acme","tier":"pro"}"#);
    let bare = bearer(r#"{"sub":"alice","exp":1700000060}"#);
    let proxy = ["x-tenant: header-tenant", "x-tier: header-tier"];
    let (ours, stranger) = ("10.0.0.1", "198.51.100.7");
    check(ours, &[&full, "x-api-key: full", proxy[0], proxy[1]], "alice acme pro");
    check(ours, &[&bare, "x-api-key: full", proxy[0], proxy[1]], "alice key-tenant key-tier");
    check(ours, &["x-api-key: full", proxy[0], proxy[1]], "key-owner key-tenant key-tier");
    check(ours, &["x-api-key: bare", proxy[0], proxy[1]], "- header-tenant header-tier");
    check(ours, &proxy, "- header-tenant header-tier");
    // A peer that is not a trusted proxy cannot choose a tenant.
    check(stranger, &proxy, "- - -");
    check(stranger, &[&bare, proxy[0], proxy[1]], "alice - -");
    check(ours, &["x-tenant: a", "x-tenant: b", "x-tier:"], "- - -");
    check(ours, &[&format!("x-tenant: {}", "x".repeat(513))], "- - -");
}

#[test]
fn a_bad_token_takes_nothing_away_and_gives_nothing() {
    let expired = bearer(r#"{"sub":"alice","exp":1,"tenant":"acme","tier":"pro"}"#);
    check("198.51.100.7", &[&expired], "- - -");
    check("198.51.100.7", &[&expired, "x-api-key: full"], "key-owner key-tenant key-tier");
    let identity = identify("198.51.100.7", &[&expired]);
    assert_eq!(identity.token, TokenVerdict::Rejected(TokenProblem::Expired));
    let known_by_address =
        Identity { ip: "198.51.100.7".to_owned(), token: identity.token, ..Identity::default() };
    assert_eq!(identity, known_by_address);
}

#[test]
fn rules_see_the_request() {
    let token =
        bearer(r#"{"sub":"alice","exp":1700000060,"tenant":"acme","tier":"pro","seats":5}"#);
    let lines =
        [&token, "x-api-key: bare", "host: api.example.com", "x-region: eu", "x-region: us"];
    let identity = identify("2001:db8:1:2:3::4", &lines);
    let headers = headers(&lines);
    let request = HttpRequest {
        identity: &identity,
        method: "GET",
        host: None,
        path: "/orders?page=2",
        headers: &headers,
        cost: 3,
    };
    for (attribute, expected) in [
        (Attribute::UserId, Some("alice")),
        (Attribute::ApiKey, Some("bare")),
        (Attribute::Ip, Some("2001:db8:1:2::")),
        (Attribute::Tenant, Some("acme")),
        (Attribute::Tier, Some("pro")),
        (Attribute::Host, Some("api.example.com")),
        (Attribute::Path, Some("/orders?page=2")),
        (Attribute::Method, Some("GET")),
        (Attribute::Header("x-region"), Some("eu")),
        (Attribute::Header("x-missing"), None),
        (Attribute::Header("not a name"), None),
        (Attribute::Claim("seats"), Some("5")),
        (Attribute::Claim("missing"), None),
        (Attribute::Custom("anything"), None),
    ] {
        assert_eq!(request.get(attribute), expected, "{attribute:?}");
    }
    assert_eq!(request.cost(), 3);
    let named = HttpRequest { host: Some("other.example"), ..request };
    assert_eq!(named.get(Attribute::Host), Some("other.example"));
    assert!(!format!("{identity:?}").contains("bare"), "a key is a secret");
}

#[test]
fn an_ipv6_client_is_listed_and_counted_by_its_network() {
    let policy = "
        rules: [{rule_id: r, limit: 1, window: 1h, identifier_type: ip}]
        blacklist: [{identifier_type: ip, identifier: 2001:db8:bad::/48}]";
    let limiter = Limiter::from_text(policy).unwrap();
    let ask = |peer: &str| {
        let identity = identify(peer, &[]);
        let headers = HeaderMap::new();
        let (method, host, path, cost) = ("GET", None, "/", 1);
        let request =
            HttpRequest { identity: &identity, method, host, path, headers: &headers, cost };
        let decision = limiter.check(&request).now();
        decision.refusal().map(|refusal| format!("{refusal:?}")).unwrap_or_default()
    };
    assert_eq!(ask("2001:db8:1:2::1"), "");
    assert_eq!(ask("2001:db8:1:2:ffff::1"), "RateLimited");
    assert_eq!(ask("2001:db8:1:3::1"), "");
    assert_eq!(ask("2001:db8:bad:7::1"), "Denied");
}
