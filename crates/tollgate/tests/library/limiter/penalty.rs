//! Bans that a limiter makes: which client is banned, when, for how long, and that others are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;
use tollgate::rules::{DirectoryChange, Subject};
use tollgate::{
    Ban, Limiter, ManualClock, MemoryStore, Micros, Offence, Penalties, Policy, Refusal, Request,
    Timestamp,
};

use crate::limiter::scene::{MIDNIGHT, Scene, at_once, config, parse};

const POLICY: &str = "
rules:
- {rule_id: login, limit: 1, window: 1h, algorithm: fixed_window, identifier_type: ip, applies_to: {endpoints: [/login]},
   penalty: {after: 3, within_seconds: 10, ban_seconds: 60}}
- {rule_id: all, limit: 100, window: 1h, algorithm: fixed_window, identifier_type: ip}
- {rule_id: watch, limit: 0, window: 1h, identifier_type: ip, action: log_only, applies_to: {endpoints: [/watched]},
   penalty: {after: 1, within_seconds: 10, ban_seconds: 60}}
";

/// Warnings are of no interest here.
fn ask(scene: &mut Scene<MemoryStore>, step: &str) -> String {
    scene.step(step).replace(", warned", "")
}

fn check(steps: &[(&str, &str)]) {
    let mut scene = Scene::new(POLICY, MemoryStore::new());
    for (step, expected) in steps {
        assert_eq!(ask(&mut scene, step), *expected, "{step}");
    }
}

#[test]
fn so_many_refusals_lead_to_a_ban_and_it_ends() {
    check(&[
        ("0 check /login ip=10.0.0.1", "allowed by login, 0 left"),
        ("1000 check /login ip=10.0.0.1", "refused by login, 0 left, retry in 3599000 ms"),
        ("2000 check /login ip=10.0.0.1", "refused by login, 0 left, retry in 3598000 ms"),
        ("3000 check /login ip=10.0.0.1", "refused by login, 0 left, retry in 3597000 ms"),
        ("3000 check /login ip=10.0.0.1", "banned by login, retry in 60000 ms"),
        ("3000 peek /login ip=10.0.0.1", "banned by login, retry in 60000 ms"),
        ("3000 rule login ip=10.0.0.1", "banned by login, retry in 60000 ms"),
        // The ban is one of the rule: elsewhere, and for others, nothing has changed.
        ("3000 check /else ip=10.0.0.1", "allowed by all, 98 left"),
        ("3000 check /login ip=10.0.0.2", "allowed by login, 0 left"),
        ("62999 check /login ip=10.0.0.1", "banned by login, retry in 1 ms"),
        ("63000 check /login ip=10.0.0.1", "refused by login, 0 left, retry in 3537000 ms"),
        // A banned request charges no rule.
        ("63000 check /else ip=10.0.0.1", "allowed by all, 97 left"),
    ]);
}

#[test]
fn refusals_too_far_apart_ban_no_client() {
    let refused = "refused by login, 0 left, retry in";
    let mut scene = Scene::new(POLICY, MemoryStore::new());
    assert_eq!(ask(&mut scene, "0 check /login ip=10.0.0.1"), "allowed by login, 0 left");
    for at in [1_000, 2_000, 11_500, 12_500, 21_600, 22_600] {
        let told = ask(&mut scene, &format!("{at} check /login ip=10.0.0.1"));
        assert!(told.starts_with(refused), "{at}: {told}");
    }
    assert!(ask(&mut scene, "22700 check /login ip=10.0.0.1").starts_with("refused"));
    assert!(ask(&mut scene, "22800 check /login ip=10.0.0.1").starts_with("banned"));
}

#[test]
fn peeks_and_shadow_rules_ban_no_client() {
    check(&[
        ("0 check /watched ip=10.0.0.1", "allowed by all, 99 left, watch would refuse"),
        ("0 check /watched ip=10.0.0.1", "allowed by all, 98 left, watch would refuse"),
        ("0 check /login ip=10.0.0.1", "allowed by login, 0 left"),
        ("0 peek /login ip=10.0.0.1", "allowed by login, 0 left"),
        ("0 peek /login ip=10.0.0.1", "allowed by login, 0 left"),
        ("0 peek /login ip=10.0.0.1", "allowed by login, 0 left"),
        ("0 check /login ip=10.0.0.1", "refused by login, 0 left, retry in 3600000 ms"),
    ]);
}

#[test]
fn a_reset_lifts_the_ban_and_forgets_the_refusals() {
    let banned = "banned by login, retry in 60000 ms";
    let refused = "refused by login, 0 left, retry in 3600000 ms";
    let ban = ["allowed by login, 0 left", refused, refused, refused, banned];
    let mut scene = Scene::new(POLICY, MemoryStore::new());
    for (reset, counters) in [("reset /login", 2), ("reset-rule login", 1)] {
        for expected in ban {
            assert_eq!(ask(&mut scene, "0 check /login ip=10.0.0.1"), expected);
        }
        let told = ask(&mut scene, &format!("0 {reset} ip=10.0.0.1"));
        assert_eq!(told, format!("{counters} changed"));
    }
    for expected in ban {
        assert_eq!(ask(&mut scene, "0 check /login ip=10.0.0.1"), expected);
    }
    let subject = Subject::new(&["10.0.0.1"]);
    assert!(at_once(scene.limiter.lift("login", &subject)).expect("a store"));
    assert!(!at_once(scene.limiter.lift("login", &subject)).expect("a store"));
    assert_eq!(ask(&mut scene, "0 check /login ip=10.0.0.1"), refused);
}

fn limiter(penalties: Penalties) -> Limiter<MemoryStore, ManualClock> {
    let builder = Limiter::builder().policy(parse(POLICY)).penalties(penalties);
    builder.clock(ManualClock::at(MIDNIGHT)).build()
}

fn login(ip: &str) -> Request<'_> {
    Request::new().path("/login").ip(ip)
}

fn refusal<C: tollgate::Clock>(limiter: &Limiter<MemoryStore, C>, ip: &str) -> Option<Refusal> {
    limiter.check(&login(ip)).now().refusal()
}

#[test]
fn penalties_can_be_ignored_or_left_to_others() {
    let ignoring = limiter(Penalties::Ignored);
    let (sender, told) = std::sync::mpsc::channel();
    let telling = limiter(Penalties::Told(Box::new(move |offence| {
        sender.send(offence).expect("a receiver");
    })));
    for limiter in [&ignoring, &telling] {
        assert_eq!(refusal(limiter, "10.0.0.1"), None);
        for _ in 0..5 {
            assert_eq!(refusal(limiter, "10.0.0.1"), Some(Refusal::RateLimited));
        }
    }
    let offences: Vec<Offence> = told.try_iter().collect();
    let expected = Offence { rule_id: Arc::from("login"), subject: Subject::new(&["10.0.0.1"]) };
    assert_eq!(offences, vec![expected; 5]);
    assert_eq!(at_once(telling.punish(&offences[..2])), 0);
    assert_eq!(refusal(&telling, "10.0.0.1"), Some(Refusal::RateLimited));
    assert_eq!(at_once(telling.punish(&offences[2..])), 1);
    assert_eq!(refusal(&telling, "10.0.0.1"), Some(Refusal::Banned));
    assert_eq!(at_once(telling.punish(&offences)), 0, "it is banned already");
}

fn ban(ip: &str, seconds: u64) -> Ban {
    let until = MIDNIGHT.plus(Micros::from_secs(seconds));
    Ban { rule_id: Arc::from("login"), subject: Subject::new(&[ip]), until }
}

fn with_bans(bans: &[Ban]) -> Policy {
    let policy = parse(POLICY);
    let changes = bans.iter().map(|Ban { rule_id, subject, until }| DirectoryChange::Ban {
        rule_id: Arc::clone(rule_id),
        subject: subject.clone(),
        until: *until,
    });
    policy.with_directory(policy.directory().apply(changes))
}

#[test]
fn a_new_policy_keeps_bans_until_it_knows_them_itself() {
    let limiter = limiter(Penalties::Ignored);
    let is_banned = |ip: &str| refusal(&limiter, ip) == Some(Refusal::Banned);
    assert_eq!(limiter.ban([ban("10.0.0.1", 60), ban("10.0.0.2", 30)]), 2);
    limiter.install(&parse(POLICY));
    assert!(is_banned("10.0.0.1") && is_banned("10.0.0.2"));
    assert_eq!(limiter.own_bans(9), [ban("10.0.0.2", 30), ban("10.0.0.1", 60)]);
    // The policy knows one of them: from now on that one is up to the policy.
    limiter.install(&with_bans(&[ban("10.0.0.1", 59)]));
    assert_eq!(limiter.own_bans(9), [ban("10.0.0.2", 30)]);
    assert!(is_banned("10.0.0.1") && is_banned("10.0.0.2"));
    limiter.install(&parse(POLICY));
    assert!(!is_banned("10.0.0.1") && is_banned("10.0.0.2"));
    // A ban that is handed over depends on the policy, also if the policy does not have it.
    limiter.hand_over(&[ban("10.0.0.2", 30)]);
    assert!(!is_banned("10.0.0.2"));
    assert_eq!(limiter.own_bans(9), []);
}

#[test]
fn bans_go_with_their_rule_and_its_penalty() {
    let rule =
        |fields: &str| format!("rules:\n- {{rule_id: login, limit: 1, window: 1h, {fields}}}");
    let penalty = "penalty: {after: 3, within_seconds: 60, ban_seconds: 60}";
    let cases = [
        ("rules: []".to_owned(), 0),
        (rule("identifier_type: ip"), 0),
        (rule(&format!("identifier_type: user_id, {penalty}")), 0),
        (rule(&format!("identifier_type: ip, {penalty}")), 1),
    ];
    for (policy, left) in cases {
        let limiter = limiter(Penalties::Ignored);
        assert_eq!(limiter.ban([ban("10.0.0.1", 60)]), 1);
        limiter.install(&parse(&policy));
        assert_eq!(limiter.own_bans(9).len(), left, "{policy}");
        limiter.install(&parse(POLICY));
        let is_banned = refusal(&limiter, "10.0.0.1") == Some(Refusal::Banned);
        assert_eq!(is_banned, left == 1, "{policy}: it does not come back with the rule");
    }
}

#[test]
fn bans_that_have_ended_are_forgotten() {
    let limiter = limiter(Penalties::Ignored);
    assert_eq!(limiter.ban((0..10).map(|at| ban(&format!("10.0.0.{at}"), 1 + at))), 10);
    for seconds in [0, 1, 5, 10, 11] {
        limiter.clock().set(MIDNIGHT.plus(Micros::from_secs(seconds)));
        limiter.sweep_bans();
        let left = usize::try_from(10_u64.saturating_sub(seconds)).expect("a few");
        assert_eq!(limiter.own_bans(99).len(), left, "{seconds}");
        assert_eq!(limiter.policy().directory().bans(), left, "{seconds}");
        assert_eq!(limiter.ban_counts().in_force, left, "{seconds}");
    }
}

#[test]
fn one_rule_has_half_of_all_bans_at_most() {
    let limiter = limiter(Penalties::Ignored);
    limiter.install(&with_bans(&[ban("10.0.0.1", 60), ban("10.0.0.2", 60)]));
    let name = |at: u64| format!("{at}");
    let flood = (0..100_010_u64).map(|at| ban(&name(at), 1 + at % 2));
    assert_eq!(limiter.ban(flood), 49_998);
    let counts = limiter.ban_counts();
    assert_eq!((counts.in_force, counts.made, counts.not_made), (50_000, 49_998, 50_012));
    // Once some have ended, there is room again.
    limiter.clock().set(MIDNIGHT.plus(Micros::from_secs(1)));
    assert_eq!(limiter.ban([ban("one more", 60)]), 1);
    assert_eq!(limiter.ban_counts().in_force, 25_002);
    assert!(limiter.policy().directory().bans() < 25_010);
}

#[test]
fn long_identifiers_are_banned_like_others() {
    let limiter = Limiter::from_text(
        "rules: [{rule_id: one, limit: 0, window: 1s, identifier_type: user_id,
         penalty: {after: 1, within_seconds: 9, ban_seconds: 9}}]",
    )
    .expect("a valid policy");
    for (length, expected) in [(1_024, Refusal::Banned), (1_025, Refusal::Banned)] {
        let name = "n".repeat(length);
        let request = Request::new().user_id(&name);
        assert_eq!(limiter.check(&request).now().refusal(), Some(Refusal::RateLimited));
        assert_eq!(limiter.check(&request).now().refusal(), Some(expected), "{length}");
    }
}

#[test]
fn a_ban_is_counted_and_explained() {
    let limiter = limiter(Penalties::Here);
    for _ in 0..6 {
        let _ = limiter.check(&login("10.0.0.1")).now();
    }
    let stats = limiter.stats();
    let (_, counts) = stats.iter().find(|(id, _)| &**id == "login").expect("the rule");
    assert_eq!((counts.admitted, counts.refused, counts.banned), (1, 3, 2));
    let explained = limiter.explain(&login("10.0.0.1")).now();
    assert!(!explained.would_pass);
    assert_eq!(explained.binding.as_deref(), Some("login"));
    assert_eq!(explained.retry_ms, Some(60_000));
    let rule = &explained.explanation.rules[0];
    assert_eq!(rule.rule_id, "login");
    assert!(rule.because.ends_with("by penalty"), "{}", rule.because);
    let decision = limiter.check(&login("10.0.0.1")).now();
    let explained = decision.receipt();
    assert!(!format!("{decision:?} {explained:?}").contains("10.0.0.1"));
}

/// However many threads are refused at once, no client is banned too early, and all of them are.
#[test]
fn sixty_four_threads_are_banned_after_so_many_refusals() {
    const AFTER: u64 = 50;
    let limiter = Limiter::from_text(&format!(
        "rules: [{{rule_id: one, limit: 10, window: 366d, algorithm: fixed_window,
          identifier_type: ip, penalty: {{after: {AFTER}, within_seconds: 600, ban_seconds: 600}}}}]"
    ))
    .expect("a valid policy");
    for round in 0..20 {
        let ip = format!("10.0.0.{round}");
        let (refused, banned) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        match limiter.check(&Request::new().ip(&ip)).now().refusal() {
                            Some(Refusal::RateLimited) => refused.fetch_add(1, Ordering::SeqCst),
                            Some(Refusal::Banned) => {
                                // The refusals that led to it were counted, or are about to be.
                                banned.fetch_add(1, Ordering::SeqCst);
                                return;
                            }
                            _ => continue,
                        };
                    }
                });
            }
        });
        let (refused, banned) = (refused.into_inner(), banned.into_inner());
        assert_eq!(banned, 64, "round {round}: every thread is banned in the end");
        // Requests that were being checked meanwhile may have been refused too.
        assert!((AFTER..AFTER + 64).contains(&refused), "round {round}: {refused}");
    }
    assert_eq!(limiter.ban_counts().made, 20);
}

proptest! {
    #![proptest_config(config(64))]

    /// A slow model: the times of refusals in a list.
    #[test]
    fn bans_are_those_of_a_slow_model(
        steps in prop::collection::vec((0_u64..8, 0_usize..3), 1..80),
        (after, within, lasting) in (1_usize..5, 1_u64..20, 1_u64..20),
    ) {
        let limiter = Limiter::builder().policy(parse(&format!(
            "rules: [{{rule_id: one, limit: 0, window: 1s, identifier_type: user_id,
             penalty: {{after: {after}, within_seconds: {within}, ban_seconds: {lasting}}}}}]"
        )));
        let limiter = limiter.clock(ManualClock::at(MIDNIGHT)).build();
        let mut refusals: [Vec<u64>; 3] = Default::default();
        let mut ends = [0; 3];
        let mut now = 0;
        for (pause, user) in steps {
            now += pause;
            limiter.clock().set(MIDNIGHT.plus(Micros::from_secs(now)));
            let name = format!("u{user}");
            let refusal = limiter.check(&Request::new().user_id(&name)).now().refusal();
            let expected = if now < ends[user] { Refusal::Banned } else { Refusal::RateLimited };
            prop_assert_eq!(refusal, Some(expected), "at {} for {}", now, user);
            if expected == Refusal::RateLimited {
                refusals[user].push(now);
                let recent = refusals[user].iter().filter(|at| **at + within > now).count();
                if recent >= after {
                    ends[user] = now + lasting;
                }
            }
        }
        prop_assert_eq!(limiter.ban_counts().not_made, 0);
        prop_assert!(limiter.policy().directory().bans() <= 3);
    }
}

#[test]
fn a_time_before_1970_bans_no_client_for_ever() {
    let limiter = limiter(Penalties::Here);
    limiter.clock().set(Timestamp::EPOCH);
    for _ in 0..4 {
        let _ = limiter.check(&login("10.0.0.1")).now();
    }
    assert_eq!(refusal(&limiter, "10.0.0.1"), Some(Refusal::Banned));
    limiter.clock().set(Timestamp::from_secs(60));
    assert_eq!(refusal(&limiter, "10.0.0.1"), Some(Refusal::RateLimited));
}
