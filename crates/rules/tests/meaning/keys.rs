//! Clients that are named by API keys: a policy may have the key or its digest, and both mean the same.

use tollgate_core::Timestamp;
use tollgate_rules::{Client, Listed, SECRET_DIGEST, Source};

use crate::request::{Request, plan, policy, render};

/// The digests of `k1` and `k2`, as sha256sum tells them.
const K1: &str = "sha256:6ab9f1eb8f7d3388f4f9d586f66e99fd54080df2c446f0e58668b09c08a16dd0";
const K2: &str = "sha256:015f7e6bc5aeaf483724089e9252cc13b50951a6b69412522765cff4d780306e";

const POLICY: &str = "
rules:
- {rule_id: r, limit: 10, window: 1m, identifier_type: [api_key, tenant]}
clients:
- {identifier_type: api_key, identifier: KEY1, tier: pro}
- {identifier_type: [tenant, api_key], identifier: [acme, KEY2], tier: gold}
overrides:
- {rule_id: r, identifier_type: api_key, identifier: KEY1, limit: 20}
- {rule_id: r, identifier_type: [api_key, tenant], identifier: [KEY2, acme], limit: 30}
whitelist:
- {identifier_type: api_key, identifier: KEY3}
blacklist:
- {identifier_type: [api_key, tenant], identifier: [KEY1, globex], reason: leaked}
";

#[test]
fn keys_and_their_digests_name_the_same_clients() {
    let k3 = "sha256:2f5052c9fd15b19a18c584d01363568198613f0c34e84409ef7938709a159ec2";
    let plain = POLICY.replace("KEY1", "k1").replace("KEY2", "k2").replace("KEY3", "k3");
    let digests = POLICY.replace("KEY1", K1).replace("KEY2", K2).replace("KEY3", k3);
    let mut redacted = Source::parse(&plain).document;
    redacted.redact_secrets();
    assert_eq!(redacted, Source::parse(&digests).document);
    for text in [plain, digests] {
        let policy = policy(&text);
        let check = |request: &str, tier: Option<&str>, expected: &str| {
            let plan = plan(&policy, &[Request::parse(request)], Timestamp::from_secs(1));
            assert_eq!(plan.tier(), tier, "{request}");
            assert_eq!(render(&plan, &policy), expected, "{request}");
        };
        check("api_key=k1 tenant=acme", Some("pro"), "r(k1,acme)=20*1");
        check("api_key=k2 tenant=acme", Some("gold"), "r(k2,acme)=30*1");
        check("api_key=k2 tenant=other", None, "r(k2,other)=10*1");
        check("api_key=k1 tenant=globex", None, "denied:leaked");
        check("api_key=k3 tenant=acme", None, "allowed:-");
        // A client that knows a digest does not have the key.
        let stolen = format!("api_key={K1} tenant=other");
        check(&stolen, None, &format!("r({},other)=10*1", (SECRET_DIGEST.of)(K1)));
    }
}

#[test]
fn a_key_and_its_digest_are_one_entry() {
    let names = |types: &[&str], values: &[&str]| {
        let client = Client::new(types, values).expect("a client").names();
        assert_eq!(Listed::new(types, values).expect("listed").names(), client);
        client
    };
    assert_eq!(names(&["api_key"], &["k1"]), names(&["api_key"], &[K1]));
    assert_eq!(
        names(&["tenant", "api_key"], &["a", "k1"]),
        names(&["api_key", "tenant"], &[K1, "a"])
    );
    assert!(names(&["api_key"], &["k1"]).iter().all(|(_, value)| value == K1));
}
