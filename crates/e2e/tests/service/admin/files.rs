//! With rules in a file, the admin API reads them and does not write them.

use super::desk::{TestServer, step};

const RULES: &str = "
rules: [{rule_id: api, limit: 5, window: 1h, identifier_type: user_id, tenant: acme}]
tiers: [{tier: free, default: true}, {tier: pro}]
clients:
  - {identifier_type: user_id, identifier: bob, tier: pro}
  - {identifier_type: user_id, identifier: alice, tier: free}
overrides: [{rule_id: api, identifier_type: user_id, identifier: alice, limit: 9}]
whitelist: [{identifier_type: ip, identifier: 10.0.0.0/8}]
blacklist: [{identifier_type: [tenant, user_id], identifier: [acme, eve], reason: abuse}]
";

#[test]
fn rules_of_the_file_are_shown() {
    let desk = TestServer::with_rules(RULES);
    let check = |path: &str, expected: &str| {
        let answer = desk.as_admin("GET", path, "");
        assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{path}");
    };
    let exception =
        r#"{"identifier_type":"user_id","identifier":"alice","rule_id":"api","limit":9}"#;
    let network = r#"{"identifier_type":"ip","identifier":"10.0.0.0/8"}"#;
    let eve =
        r#"{"identifier_type":["tenant","user_id"],"identifier":["acme","eve"],"reason":"abuse"}"#;
    let alice = r#"{"identifier_type":"user_id","identifier":"alice","tier":"free"}"#;
    let bob = r#"{"identifier_type":"user_id","identifier":"bob","tier":"pro"}"#;
    check("/api/v1/tiers", r#"{"tiers":[{"tier":"free","default":true},{"tier":"pro"}]}"#);
    check("/api/v1/clients", &format!("{{\"clients\":[{alice},{bob}]}}"));
    check("/api/v1/clients?tier=pro", &format!("{{\"clients\":[{bob}]}}"));
    check("/api/v1/clients?identifier=alice", &format!("{{\"clients\":[{alice}]}}"));
    check("/api/v1/clients?identifier_type=ip", "{\"clients\":[]}");
    check("/api/v1/overrides?rule_id=api", &format!("{{\"overrides\":[{exception}]}}"));
    check("/api/v1/overrides?tenant=acme", &format!("{{\"overrides\":[{exception}]}}"));
    check("/api/v1/overrides?tenant=globex", "{\"overrides\":[]}");
    check("/api/v1/overrides?rule_id=other", "{\"overrides\":[]}");
    for family in ["/api/v1", "/admin/api/v1/rate-limits"] {
        check(&format!("{family}/whitelist"), &format!("{{\"whitelist\":[{network}]}}"));
        check(&format!("{family}/blacklist"), &format!("{{\"blacklist\":[{eve}]}}"));
    }
    check("/api/v1/blacklist?tenant=acme&detail=true", &format!("{{\"blacklist\":[{eve}]}}"));
    let first = desk.as_admin("GET", "/api/v1/clients?limit=1", "");
    let link = first.header("link").expect("a link");
    let next = link.trim_start_matches('<').split('>').next().expect("a path");
    check(next, &format!("{{\"clients\":[{bob}]}}"));
    let limits = desk.read("/api/v1/users/alice/limits?tenant=acme");
    assert_eq!(
        (&limits["limits"][0]["limit"], &limits["tier"]["from"]),
        (&9.into(), &"client".into())
    );
}

#[test]
fn writes_are_refused() {
    let desk = TestServer::with_rules(RULES);
    let listed = r#"{"identifier_type": "ip", "identifier": "10.0.0.1"}"#;
    let of_address = "?identifier_type=ip&identifier=10.0.0.1";
    let client = r#"{"identifier_type": "user_id", "identifier": "eve", "tier": "pro"}"#;
    let exception =
        r#"{"rule_id": "api", "identifier_type": "user_id", "identifier": "eve", "limit": 1}"#;
    for (method, path, body) in [
        ("POST", "/api/v1/whitelist", listed),
        ("POST", "/api/v1/blacklist", listed),
        ("POST", "/admin/api/v1/rate-limits/whitelist?dry_run=true", "{}"),
        ("DELETE", &format!("/api/v1/whitelist{of_address}"), ""),
        ("DELETE", &format!("/admin/api/v1/rate-limits/blacklist{of_address}"), ""),
        ("PUT", "/api/v1/tiers", r#"{"tiers": []}"#),
        ("PUT", "/api/v1/tiers", "{}"),
        ("PUT", "/api/v1/clients", client),
        ("PUT", "/api/v1/clients", "{}"),
        ("DELETE", &format!("/api/v1/clients{of_address}"), ""),
        ("PUT", "/api/v1/overrides", exception),
        ("DELETE", &format!("/api/v1/overrides{of_address}&rule_id=api"), ""),
        ("PUT", "/api/v1/users/eve/tier", "{}"),
        ("DELETE", "/api/v1/users/eve/tier", ""),
        ("POST", "/api/v1/users/eve/override", "{}"),
        ("DELETE", "/api/v1/users/eve/override?rule_id=api", ""),
        ("GET", "/api/v1/api-keys", ""),
        ("POST", "/api/v1/api-keys", "{}"),
        ("DELETE", "/api/v1/api-keys/nope", ""),
        ("GET", "/api/v1/tokens", ""),
        ("POST", "/api/v1/tokens", "{}"),
        ("DELETE", "/api/v1/tokens/nope", ""),
        ("PUT", "/api/v1/policy", r#"{"rules": []}"#),
        ("GET", "/api/v1/policy/revisions", ""),
        ("GET", "/api/v1/policy/revisions/1", ""),
        ("GET", "/api/v1/policy/revisions/1/diff", ""),
        ("POST", "/api/v1/policy/revisions/1/rollback", ""),
    ] {
        desk.check(&[(step(method, path, body), 405, "rules_from_file")]);
    }
}
