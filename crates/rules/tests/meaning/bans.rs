//! Bans: who they hold for, how long, and that they are found however a client is written.

use std::sync::Arc;

use proptest::prelude::*;
use tollgate_core::{Mode, Timestamp};
use tollgate_rules::{Digest, Directory, DirectoryChange, Policy, SECRET_DIGEST, Subject};

use crate::request::{Request, plan, policy, render};

const POLICY: &str = "
rules:
- {rule_id: login, limit: 5, window: 1m, identifier_type: ip, penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
- {rule_id: pair, limit: 5, window: 1m, identifier_type: [user_id, endpoint, tenant], applies_to: {endpoints: [/api/*]},
   penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
- {rule_id: key, limit: 5, window: 1m, identifier_type: api_key, penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
- {rule_id: must, limit: 5, window: 1m, identifier_type: 'claim:sub', on_missing: deny, applies_to: {methods: [PUT]}}
- {rule_id: mild, limit: 5, window: 1m, identifier_type: ip}
- {rule_id: watch, limit: 5, window: 1m, identifier_type: ip, action: log_only, penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}
whitelist: [{identifier_type: user_id, identifier: root}]
blacklist: [{identifier_type: user_id, identifier: foe, reason: known}]
";

/// Every rule bans these, whether or not it has a penalty, until so many seconds after 1970.
const BANS: [(&str, &[&str], u64); 6] = [
    ("login", &["10.0.0.1"], 100),
    ("login", &["2001:db8:1:2::/64"], 100),
    ("pair", &["u1", "/api/*", "acme"], 200),
    ("key", &["digest of k1"], 100),
    ("mild", &["10.0.0.9"], 100),
    ("watch", &["10.0.0.9"], 100),
];

const DIGEST: Digest = Digest { prefix: "digest of ", of: |secret| format!("digest of {secret}") };

fn banned() -> Policy {
    let policy = policy(POLICY);
    let directory = policy.directory().clone().with_digest(DIGEST);
    let bans = BANS.iter().map(|(rule_id, values, until)| DirectoryChange::Ban {
        rule_id: Arc::from(*rule_id),
        subject: Subject::new(values),
        until: Timestamp::from_secs(*until),
    });
    policy.with_directory(directory.apply(bans))
}

/// The admission of a request at a time, without its lines.
fn admission_of(policy: &Policy, request: &str, second: u64) -> String {
    let requests: Vec<Request> = request.split('&').map(Request::parse).collect();
    let rendered = render(&plan(policy, &requests, Timestamp::from_secs(second)), policy);
    rendered.split(' ').find(|word| !word.contains('(')).unwrap_or_default().to_owned()
}

#[test]
fn a_ban_holds_for_its_rule_and_client_until_it_ends() {
    let policy = banned();
    let check = |request: &str, second: u64, expected: &str| {
        assert_eq!(admission_of(&policy, request, second), expected, "{request} at {second}");
    };
    check("ip=10.0.0.1", 0, "banned:login:100");
    check("ip=10.0.0.1", 99, "banned:login:100");
    check("ip=10.0.0.1", 100, "");
    check("ip=10.0.0.2", 0, "");
    check("ip=2001:db8:1:2:ffff::1", 0, "banned:login:100");
    check("ip=2001:db8:1:3::1", 0, "");
    check("/api/x user_id=u1 tenant=acme", 0, "banned:pair:200");
    check("/x user_id=u1 tenant=acme", 0, "");
    check("/api/x user_id=u1 tenant=acme2", 0, "");
    check("api_key=k1", 0, "banned:key:100");
    check("api_key=k2", 0, "");
    // Rules without a penalty, and those that only watch, ban no client.
    check("ip=10.0.0.9", 0, "");
    // Of several bans the longest is reported; refusals that do not end by waiting come first.
    check("/api/x user_id=u1 tenant=acme ip=10.0.0.1", 0, "banned:pair:200");
    check("/api/x user_id=u1 tenant=acme ip=10.0.0.1", 150, "banned:pair:200");
    check("PUT /api/x user_id=u1 tenant=acme", 0, "missing:must");
    check("PUT ip=10.0.0.1", 0, "missing:must");
    check("user_id=root ip=10.0.0.1", 0, "allowed:-");
    check("user_id=foe ip=10.0.0.1", 0, "denied:known");
    check("user_id=u2&ip=10.0.0.1", 0, "banned:login:100");
}

#[test]
fn the_lines_of_a_banned_request_are_there_to_be_reset() {
    let policy = banned();
    let plan = plan(&policy, &[Request::parse("ip=10.0.0.1")], Timestamp::EPOCH);
    assert!(!plan.is_to_be_counted());
    let rules: Vec<&str> = plan.charges(policy.rules()).map(|charge| charge.key.rule).collect();
    assert_eq!(rules, ["login", "mild", "watch"]);
}

#[test]
fn bans_end_and_are_lifted_one_by_one() {
    let policy = banned();
    let directory = policy.directory();
    let in_force = |directory: &Directory, second| {
        (directory.bans(), directory.bans_in_force(Timestamp::from_secs(second)))
    };
    assert_eq!(in_force(directory, 0), (6, 6));
    assert_eq!(in_force(directory, 100), (6, 1));
    let unban = |(rule_id, values, _): &(&str, &[&str], u64)| DirectoryChange::Unban {
        rule_id: Arc::from(*rule_id),
        subject: Subject::new(values),
    };
    let lifted = directory.apply(BANS.iter().take(1).map(unban));
    assert_eq!(in_force(&lifted, 0), (5, 5));
    assert_eq!(admission_of(&policy.with_directory(lifted), "ip=10.0.0.1", 0), "");
    assert_eq!(in_force(&directory.apply(BANS.iter().map(unban)), 0), (0, 0));
    assert_eq!(in_force(directory, 0), (6, 6), "a copy changes nothing");
}

#[test]
fn clients_are_found_however_they_are_written() {
    let policy = banned();
    let check = |rule_id: &str, values: &[&str], expected: Result<&[&str], &str>| {
        let rule = policy.rules().find(rule_id).expect("a rule");
        let parsed = policy.directory().parse_subject(rule, values);
        let parsed = parsed.map(|subject| subject.values()).map_err(|flaw| flaw.to_string());
        match (parsed, expected) {
            (Ok(parsed), Ok(expected)) => assert_eq!(parsed, expected, "{values:?}"),
            (Err(told), Err(expected)) => assert!(told.contains(expected), "{values:?}: {told}"),
            (parsed, expected) => panic!("{values:?}: {parsed:?}, not {expected:?}"),
        }
    };
    check("login", &["10.0.0.1"], Ok(&["10.0.0.1"]));
    check("login", &["2001:DB8:1:2::77"], Ok(&["2001:db8:1:2::/64"]));
    check("login", &["somewhere"], Err("identifier"));
    check("login", &[], Err("0 values, but the rule counts by ip"));
    check("pair", &["u1", "/api/*", "acme"], Ok(&["u1", "/api/*", "acme"]));
    check("pair", &["u1"], Err("1 values, but the rule counts by user_id, endpoint, tenant"));
    check("key", &["k1"], Ok(&["digest of k1"]));
    check("key", &["digest of k1"], Ok(&["digest of k1"]));
}

#[test]
fn a_ban_is_explained() {
    let policy = banned();
    let told = |request: &str, second: u64| {
        let now = Timestamp::from_secs(second);
        let explanation = policy.explain(&Request::parse(request), now);
        let rules = explanation.rules.into_iter().filter(|rule| rule.banned_until.is_some());
        rules.map(|rule| format!("{}: {}", rule.rule_id, rule.because)).collect::<Vec<_>>()
    };
    assert_eq!(
        told("ip=10.0.0.1", 0),
        ["login: it applies to every request; banned until 1970-01-01T00:01:40Z by penalty"]
    );
    assert_eq!(told("ip=10.0.0.1", 100), [""; 0]);
    assert_eq!(told("ip=10.0.0.9", 0), [""; 0]);
}

#[test]
fn secrets_are_not_shown() {
    let policy = banned();
    assert!(!format!("{policy:?} {:?}", Subject::new(&["k1-secret"])).contains("k1"));
}

proptest! {
    /// Neither values nor rules run into each other, and what was joined comes apart again.
    #[test]
    fn no_two_clients_are_the_same(
        one in prop::collection::vec("[a-c/*]{1,3}", 1..4),
        other in prop::collection::vec("[a-c/*]{1,3}", 1..4),
        (rule, another) in ("[ab]{1,2}", "[ab]{1,2}"),
    ) {
        let (subject, different) = (Subject::new(&one), Subject::new(&other));
        prop_assert_eq!(subject.values(), one.clone());
        prop_assert_eq!(subject == different, one == other);
        let ban = DirectoryChange::Ban {
            rule_id: Arc::from(rule.as_str()),
            subject,
            until: Timestamp::from_secs(1),
        };
        let directory = Directory::default().apply([ban]);
        let is_found = directory.ban_end(&another, &different).is_some();
        prop_assert_eq!(is_found, one == other && rule == another);
    }
}

#[test]
fn up_to_a_hundred_refusals_are_counted_exactly() {
    let check = |after: u64, expected: &str| {
        let text = format!(
            "rules: [{{rule_id: one, limit: 1, window: 1s, identifier_type: ip,
             penalty: {{after: {after}, within_seconds: 60, ban_seconds: 1}}}}]"
        );
        let policy = policy(&text);
        let rule = policy.rules().find("one").expect("the rule");
        let penalty = rule.penalty.as_ref().expect("a penalty");
        assert_eq!(rule.mode, Mode::Enforce);
        assert_eq!(&*penalty.counter, "one!penalty");
        assert_eq!((penalty.limit.limit(), penalty.limit.algorithm().name()), (after, expected));
    };
    check(1, "sliding_window_log");
    check(100, "sliding_window_log");
    check(101, "sliding_window_counter");
    check(1_000_000, "sliding_window_counter");
    let beyond = "rules: [{rule_id: one, limit: 1, window: 1s, identifier_type: ip,
        penalty: {after: 1000001, within_seconds: 60, ban_seconds: 1}}]";
    let problems = Policy::from_text(beyond).expect_err("too many");
    assert!(problems[0].to_string().contains("out of range"), "{}", problems[0]);
}

/// A name that takes too much room would stop all bans from being written down.
#[test]
fn a_long_identifier_is_banned_by_its_digest() {
    const SHORT: Digest =
        Digest { prefix: "sha256:", of: |text| format!("sha256:{:064x}", text.len()) };
    let policy = policy(POLICY);
    let directory = policy.directory().clone().with_digest(SHORT);
    let rule = policy.rules().find("pair").expect("a rule");
    let check = |user: &str, expected: &str| {
        let written = directory.parse_subject(rule, &[user, "/api/*", "acme"]).expect("a client");
        assert_eq!(written.values()[0], expected, "{user}");
        let listed = directory.parse_subject(rule, &written.values()).expect("a client");
        assert_eq!(listed, written, "as it is listed");
    };
    check(&"x".repeat(160), &"x".repeat(160));
    check(&"x".repeat(161), &format!("sha256:{:064x}", 161));
    check(&"\"".repeat(81), &format!("sha256:{:064x}", 81));
    check("u1", "u1");
    // A name that looks like a digest is not taken for another client.
    check("sha256:ab", &format!("sha256:{:064x}", 9));
}

/// Keys of counters have values above 1,024 bytes as digests. The digest of that digest named another client
/// than the one that operators write.
#[test]
fn a_client_with_a_long_identifier_is_the_one_that_operators_write() {
    let base = policy(
        "rules: [{rule_id: one, limit: 1, window: 1h, identifier_type: user_id,
          penalty: {after: 3, within_seconds: 60, ban_seconds: 600}}]",
    );
    for user in ["u", &"x".repeat(200), &"x".repeat(1_024), &"x".repeat(1_025), "sha256:ab"] {
        let directory = base.directory().clone().with_digest(SECRET_DIGEST);
        let rule = base.rules().find("one").expect("a rule");
        // Identifiers above 1,024 bytes are written as digests only.
        let written = if user.len() > 1_024 { (SECRET_DIGEST.of)(user) } else { user.to_owned() };
        let subject = directory.parse_subject(rule, &[written]).expect("a client");
        let until = Timestamp::from_secs(100);
        let ban = DirectoryChange::Ban { rule_id: Arc::from("one"), subject, until };
        let policy = base.clone().with_directory(directory.apply([ban]));
        assert_eq!(admission_of(&policy, &format!("user_id={user}"), 0), "banned:one:100");
    }
}

#[test]
fn all_bans_by_a_rule_are_lifted() {
    let policy = banned();
    let of_login = |directory: &Directory| directory.bans_of_rule("login");
    assert_eq!((policy.directory().bans(), of_login(policy.directory())), (6, 2));
    let directory =
        policy.directory().apply([DirectoryChange::UnbanAll { rule_id: Arc::from("login") }]);
    assert_eq!(
        (directory.bans(), of_login(&directory), directory.banned_by("login").len()),
        (4, 0, 0)
    );
    let policy = policy.with_directory(directory);
    assert_eq!(admission_of(&policy, "ip=10.0.0.1", 0), "");
    assert_eq!(admission_of(&policy, "api_key=k1", 0), "banned:key:100");
}
