//! Tiers, overrides and lists: who is known, by what, for how long.

use std::time::Duration;

use serde_json::Value as Json;
use tollgate_core::{Micros, Timestamp};
use tollgate_rules::document::{ClientDocument, ListDocument, OverrideDocument};
use tollgate_rules::{Client, Directory, DirectoryChange, List, OneOrMany, Policy};

use crate::request::{Request, plan, policy, render};

/// 2030-01-01T00:00:00Z, when the entries below expire.
const END: Timestamp = Timestamp::from_secs(1_893_456_000);
const BEFORE: Timestamp = Timestamp::from_secs(1_893_455_999);

fn check(policy: &Policy, cases: &[(&str, Timestamp, &str)]) {
    for (request, now, expected) in cases {
        let plan = plan(policy, &[Request::parse(request)], *now);
        assert_eq!(render(&plan, policy), *expected, "{request} at {now:?}");
    }
}

#[test]
fn overrides() {
    let policy = policy(
        "
        rules:
        - {rule_id: u, limit: 10, window: 1m, identifier_type: user_id}
        - {rule_id: t, limit: 10, window: 1m, identifier_type: [tenant, user_id, path], priority: -1}
        - {rule_id: b, limit: 10, window: 1m, algorithm: gcra, burst: 20, identifier_type: ip}
        overrides:
        - {identifier_type: user_id, identifier: five, rule_id: u, limit: 5}
        - {identifier_type: user_id, identifier: blocked, rule_id: u, limit: 0}
        - {identifier_type: user_id, identifier: half, rule_id: u, multiplier: 0.55}
        - {identifier_type: user_id, identifier: tiny, rule_id: u, multiplier: 0.000001}
        - {identifier_type: user_id, identifier: huge, rule_id: u, multiplier: 1000000000}
        - {identifier_type: user_id, identifier: soon, rule_id: u, limit: 7, expires_at: '2030-01-01T01:00:00+01:00'}
        - {identifier_type: user_id, identifier: u1, rule_id: t, limit: 1}
        - {identifier_type: tenant, identifier: acme, rule_id: t, limit: 2}
        - {identifier_type: path, identifier: '/x/', rule_id: t, limit: 3}
        - {identifier_type: [user_id, tenant], identifier: [u2, acme], rule_id: t, limit: 4}
        - {identifier_type: [path, tenant, user_id], identifier: [/w, acme, u2], rule_id: t, limit: 5}
        - {identifier_type: [path, tenant, user_id], identifier: [/e, acme, u2], rule_id: t, limit: 6, expires_at: '2030-01-01T00:00:00Z'}
        - {identifier_type: ip, identifier: '2001:db8::7', rule_id: b, limit: 50}
        - {identifier_type: ip, identifier: 192.0.2.1, rule_id: b, burst: 50}
        - {identifier_type: ip, identifier: 192.0.2.2, rule_id: b, multiplier: 2}
        - {identifier_type: ip, identifier: 192.0.2.3, rule_id: b, window_seconds: 5}",
    );
    check(
        &policy,
        &[
            ("user_id=other", BEFORE, "u(other)=10*1"),
            ("user_id=five", BEFORE, "u(five)=5*1"),
            ("user_id=blocked", BEFORE, "u(blocked)=0*1"),
            ("user_id=half", BEFORE, "u(half)=5*1"),
            ("user_id=tiny", BEFORE, "u(tiny)=1*1"),
            ("user_id=huge", BEFORE, "u(huge)=10000000000*1"),
            ("user_id=soon", BEFORE, "u(soon)=7*1"),
            ("user_id=soon", END, "u(soon)=10*1"),
            // Components in the order of the rule: the tenant comes first.
            ("/x user_id=u1 tenant=acme", BEFORE, "u(u1)=10*1 t(acme,u1,/x)=2*1"),
            ("/x user_id=u1 tenant=z", BEFORE, "u(u1)=10*1 t(z,u1,/x)=1*1"),
            ("/x user_id=z tenant=z", BEFORE, "u(z)=10*1 t(z,z,/x)=3*1"),
            // More of the key wins over less of it.
            ("/x user_id=u2 tenant=acme", BEFORE, "u(u2)=10*1 t(acme,u2,/x)=4*1"),
            ("/w user_id=u2 tenant=acme", BEFORE, "u(u2)=10*1 t(acme,u2,/w)=5*1"),
            ("/e user_id=u2 tenant=acme", BEFORE, "u(u2)=10*1 t(acme,u2,/e)=6*1"),
            ("/e user_id=u2 tenant=acme", END, "u(u2)=10*1 t(acme,u2,/e)=4*1"),
            ("ip=2001:db8::8", BEFORE, "b(2001:db8::/64)=50*1"),
        ],
    );
    for (ip, capacity, window) in [
        ("2001:db8::8", 20, 60),
        ("192.0.2.1", 50, 60),
        ("192.0.2.2", 40, 60),
        ("192.0.2.3", 20, 5),
    ] {
        let plan = plan(&policy, &[Request::default().with("ip", ip)], BEFORE);
        let line = &plan.planned()[0];
        let own = line.own_limit.as_deref().expect("an exception");
        assert_eq!(own.capacity(), capacity, "{ip}");
        assert_eq!(Duration::from(own.window()), Duration::from_secs(window), "{ip}");
    }
}

#[test]
fn an_override_is_in_force_exactly_from_its_start_until_its_end() {
    let policy = policy(
        "
        rules: [{rule_id: u, limit: 10, window: 1m, identifier_type: [user_id, path]}]
        overrides:
        - {identifier_type: user_id, identifier: later, rule_id: u, limit: 7, starts_at: '2030-01-01T01:00:00+01:00'}
        - {identifier_type: user_id, identifier: both, rule_id: u, limit: 3}
        - {identifier_type: [user_id, path], identifier: [both, /e], rule_id: u, limit: 7, starts_at: '2030-01-01T00:00:00Z', expires_at: '2030-01-01T00:00:01Z'}",
    );
    let second = Micros::from_secs(1);
    let just_before = END.minus(Micros::new(1));
    let just_before_end = END.plus(second).minus(Micros::new(1));
    check(
        &policy,
        &[
            ("/e user_id=later", just_before, "u(later,/e)=10*1"),
            ("/e user_id=later", END, "u(later,/e)=7*1"),
            // Until it starts and after it ends, the one for a part of the key counts.
            ("/e user_id=both", just_before, "u(both,/e)=3*1"),
            ("/e user_id=both", END, "u(both,/e)=7*1"),
            ("/e user_id=both", just_before_end, "u(both,/e)=7*1"),
            ("/e user_id=both", END.plus(second), "u(both,/e)=3*1"),
        ],
    );
    let quota = |user: &str, now| {
        let request = Request::parse("/e").with("user_id", user);
        let json = serde_json::to_value(policy.explain(&request, now)).expect("plain data");
        json["rules"][0]["quota"].clone()
    };
    let before = quota("later", just_before);
    assert_eq!(
        (&before["next_override_at"], &before["override_by"]),
        (&"2030-01-01T00:00:00Z".into(), &Json::Null)
    );
    let during = quota("both", END);
    assert_eq!(during["override_starts_at"], "2030-01-01T00:00:00Z");
    assert_eq!(during["override_expires_at"], "2030-01-01T00:00:01Z");
    assert_eq!(during.get("next_override_at"), None);
    assert_eq!(quota("other", END).get("override_starts_at"), None);
}

#[test]
fn lists() {
    let policy = policy(
        "
        rules: [{rule_id: r, limit: 10, window: 1m, identifier_type: global}]
        whitelist:
        - {identifier_type: ip, identifier: 10.0.0.0/8, reason: internal}
        - {identifier_type: ip, identifier: 10.1.2.3, reason: host}
        - {identifier_type: ip, identifier: 172.16.0.0/12, reason: tie}
        - {identifier_type: ip, identifier: '2001:db8::/32', reason: six}
        - {identifier_type: ip, identifier: 192.0.2.0/24, reason: wide}
        - {identifier_type: user_id, identifier: vip, reason: vip}
        - {identifier_type: 'header:X-Probe', identifier: 'yes', reason: probe}
        blacklist:
        - {identifier_type: ip, identifier: 10.1.0.0/16, reason: guest}
        - {identifier_type: ip, identifier: 172.16.0.0/12, reason: tie}
        - {identifier_type: ip, identifier: '2001:db8::bad', reason: bad}
        - {identifier_type: ip, identifier: 192.0.2.0/28, reason: soon, expires_at: '2030-01-01T00:00:00Z'}
        - {identifier_type: ip, identifier: '::ffff:198.51.100.0/120', reason: mapped}
        - {identifier_type: api_key, identifier: leaked, reason: leaked}
        - {identifier_type: [user_id, tenant], identifier: [vip, evil], reason: pair}",
    );
    let counted = "r(*)=10*1";
    check(
        &policy,
        &[
            ("/", BEFORE, counted),
            ("ip=10.9.9.9", BEFORE, "allowed:internal"),
            ("ip=::ffff:10.9.9.9", BEFORE, "allowed:internal"),
            ("ip=10.1.9.9", BEFORE, "denied:guest"),
            ("ip=10.1.2.3", BEFORE, "allowed:host"),
            ("ip=11.0.0.0", BEFORE, counted),
            ("ip=172.31.255.255", BEFORE, "denied:tie"),
            ("ip=172.32.0.0", BEFORE, counted),
            ("ip=2001:db8::1", BEFORE, "allowed:six"),
            // Lists look at the whole address, not at the /64 that counters are kept by.
            ("ip=2001:db8::bad", BEFORE, "denied:bad"),
            ("ip=2001:db9::", BEFORE, counted),
            ("ip=192.0.2.1", BEFORE, "denied:soon"),
            ("ip=192.0.2.1", END, "allowed:wide"),
            ("ip=198.51.100.7", BEFORE, "denied:mapped"),
            ("ip=nonsense", BEFORE, counted),
            ("user_id=vip", BEFORE, "allowed:vip"),
            ("user_id=VIP", BEFORE, counted),
            ("user_id=vip tenant=evil", BEFORE, "denied:pair"),
            ("user_id=vip ip=10.1.9.9", BEFORE, "denied:guest"),
            ("user_id=vip api_key=leaked", BEFORE, "denied:leaked"),
            ("ip=10.9.9.9 api_key=leaked", BEFORE, "denied:leaked"),
            ("header:x-probe=yes", BEFORE, "allowed:probe"),
            ("header:x-probe=no", BEFORE, counted),
        ],
    );
}

fn client(user: &str) -> Client {
    Client::new(&["user_id"], &[user]).expect("a client")
}

fn tier(user: &str, tier: &str) -> DirectoryChange {
    DirectoryChange::SetTier { client: client(user), tier: tier.into() }
}

fn listing(list: List, kind: &str, identifier: &str) -> DirectoryChange {
    let document = ListDocument {
        identifier_type: OneOrMany::one(kind),
        identifier: OneOrMany::one(identifier),
        reason: None,
        expires_at: None,
    };
    DirectoryChange::list(list, &document).expect("an entry")
}

#[test]
fn changes_make_another_directory() {
    let policy = policy("rules: [{rule_id: r, limit: 10, window: 1m, identifier_type: user_id}]");
    let exception = OverrideDocument {
        identifier_type: OneOrMany::one("user_id"),
        identifier: OneOrMany::one("u"),
        rule_id: "r".to_owned(),
        limit: Some(99),
        window_seconds: None,
        burst: None,
        multiplier: None,
        starts_at: None,
        expires_at: None,
    };
    let exception = DirectoryChange::exception(&exception, policy.rules()).expect("an override");
    let deny = listing(List::Deny, "ip", "10.0.0.0/8");
    let first = policy.directory().apply([exception, tier("u", "pro"), deny]);
    let with_first = policy.with_directory(first.clone());
    check(&with_first, &[("user_id=u", END, "r(u)=99*1"), ("ip=10.1.1.1", END, "denied:-")]);
    check(&policy, &[("user_id=u", END, "r(u)=10*1"), ("ip=10.1.1.1", END, "")]);
    assert_eq!(first.sizes(), (1, 1, 1));

    let undone = first.apply([
        DirectoryChange::RemoveOverride { client: client("u"), rule_id: "r".into() },
        DirectoryChange::RemoveTier { client: client("u") },
        DirectoryChange::unlist(List::Deny, &["ip"], &["10.0.0.0/8"]).expect("an entry"),
        DirectoryChange::RemoveTier { client: client("unknown") },
    ]);
    assert_eq!(undone.sizes(), (0, 0, 0));
    let with_undone = policy.with_directory(undone);
    check(&with_undone, &[("user_id=u", END, "r(u)=10*1"), ("ip=10.1.1.1", END, "")]);
    // The first directory is as it was.
    check(&with_first, &[("user_id=u", END, "r(u)=99*1"), ("ip=10.1.1.1", END, "denied:-")]);
}

#[test]
fn later_changes_win() {
    let policy = policy("rules: [{rule_id: r, limit: 10, window: 1m, identifier_type: user_id}]");
    let changes = [
        tier("u", "free"),
        tier("u", "pro"),
        listing(List::Allow, "user_id", "v"),
        listing(List::Deny, "user_id", "v"),
        DirectoryChange::unlist(List::Deny, &["user_id"], &["v"]).expect("an entry"),
    ];
    let policy = policy.with_directory(Directory::default().apply(changes));
    let request = Request::parse("user_id=u");
    assert_eq!(plan(&policy, &[request], END).tier(), Some("pro"));
    check(&policy, &[("user_id=v", END, "allowed:-")]);
}

#[test]
fn a_change_that_no_longer_fits_the_rules_is_ignored() {
    let bucket =
        "rules: [{rule_id: r, limit: 10, window: 1m, algorithm: gcra, identifier_type: user_id}]";
    let window = "rules: [{rule_id: r, limit: 10, window: 1m, identifier_type: user_id}]";
    let burst = "overrides: [{identifier_type: user_id, identifier: u, rule_id: r, burst: 99}]";
    let old = policy(&format!("{bucket}\n{burst}"));
    let new = policy(window).with_directory(old.directory().clone());
    check(&new, &[("user_id=u", END, "r(u)=10*1")]);
}

#[test]
fn documents_are_checked_before_they_change_anything() {
    let policy = policy("tiers: [{tier: pro}]\nrules: []");
    let document = |identifier: &str, tier: &str| ClientDocument {
        identifier_type: OneOrMany::one("ip"),
        identifier: OneOrMany::one(identifier),
        tier: tier.to_owned(),
    };
    for (document, expected) in [
        (document("192.0.2.1", "pro"), None),
        (document("192.0.2.1", "gold"), Some("tier")),
        (document("192.0.2", "pro"), Some("identifier")),
    ] {
        let problem = DirectoryChange::tier(&document, policy.rules()).err();
        assert_eq!(problem.map(|problem| problem.path).as_deref(), expected, "{document:?}");
    }
}

#[test]
fn many_clients_are_distinguished() {
    let changes = (0..20_000).map(|n| tier(&format!("user-{n}"), &format!("tier-{}", n % 7)));
    let directory = Directory::default().apply(changes);
    assert_eq!(directory.sizes().0, 20_000);
    let policy = Policy::default().with_directory(directory);
    for n in 0..20_000 {
        let request = Request::default().with("user_id", &format!("user-{n}"));
        let plan = plan(&policy, &[request], END);
        assert_eq!(plan.tier(), Some(format!("tier-{}", n % 7).as_str()));
    }
}
