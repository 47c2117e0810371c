//! Candidates: what one says is what its limit does in force, and its rule does what it does without one.

use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tollgate::rules::document::RuleDocument;
use tollgate::rules::{PolicyDocument, Source};
use tollgate::store::RemoteSettings;
use tollgate::{
    Decision, Limiter, ManualClock, MemoryStore, Micros, Policy, RuleCounts, RuleOutcome, Store,
};

use super::{check, in_memory};
use crate::scene::{MIDNIGHT, at_once, config, parse, request};

const ALGORITHMS: [&str; 6] = [
    "fixed_window",
    "sliding_window_log",
    "sliding_window_counter",
    "token_bucket",
    "leaky_bucket",
    "gcra",
];

/// What a client does.
#[derive(Clone, Copy, Debug)]
struct Step {
    after_ms: u64,
    client: u8,
    cost: u64,
    is_refunded: bool,
}

/// A rule with a candidate as text, and the requests that are tried on it.
#[derive(Clone, Debug)]
struct Trial {
    policy: String,
    steps: Vec<Step>,
}

prop_compose! {
    /// The fields of a limit.
    fn quota()(
        algorithm in 0..ALGORITHMS.len(),
        limit in 0..30_u64,
        window in 1..20_u64,
        burst in proptest::option::of(1..20_u64),
    ) -> String {
        let name = ALGORITHMS[algorithm];
        let mut text = format!("limit: {limit}, window: {window}s, algorithm: {name}");
        if let Some(burst) = burst.filter(|_| algorithm >= 3) {
            write!(text, ", burst: {burst}").expect("a string");
        }
        text
    }
}

prop_compose! {
    fn trial()(
        live in quota(),
        tried in prop_oneof![quota(), (0..30_u64).prop_map(|limit| format!("limit: {limit}"))],
        is_throttled in any::<bool>(),
        grace in 0..3_u64,
        has_override in any::<bool>(),
        steps in prop::collection::vec(
            (0..4_000_u64, 0..3_u8, 1..4_u64, prop::bool::weighted(0.1)), 1..80
        ),
    ) -> Trial {
        let has_turns = |text: &str| text.contains("bucket") || text.contains("gcra");
        let keeps_turns = has_turns(&live) && (!tried.contains("algorithm") || has_turns(&tried));
        let action = if is_throttled && keeps_turns { "throttle" } else { "reject" };
        let mut policy = format!(
            "rules: [{{rule_id: api, {live}, identifier_type: user_id, action: {action}, \
             soft: {{grace: {grace}}}, candidate: {{{tried}}}}}]\n"
        );
        if has_override {
            policy += "overrides: [{identifier_type: user_id, identifier: u0, rule_id: api, multiplier: 2}]\n";
        }
        let steps = steps.into_iter().map(|(after_ms, client, cost, is_refunded)| {
            Step { after_ms, client, cost, is_refunded }
        });
        Trial { policy, steps: steps.collect() }
    }
}

/// The policy with another rule in place of the first.
fn with_rule(policy: &str, change: impl Fn(&mut RuleDocument)) -> Policy {
    let mut document: PolicyDocument = Source::parse(policy).document;
    document.rules.iter_mut().for_each(change);
    Policy::compile(&Source::from_document(document)).expect("a policy")
}

fn limiter<S: Store>(policy: Policy, store: S) -> Limiter<S, ManualClock> {
    Limiter::builder().policy(policy).store(store).clock(ManualClock::at(MIDNIGHT)).build()
}

fn counts<S: Store>(limiter: &Limiter<S, ManualClock>, id: &str) -> RuleCounts {
    let found = limiter.stats().into_iter().find(|(rule_id, _)| **rule_id == *id);
    found.map(|(_, counts)| counts).expect("the counts of the rule")
}

fn candidate_in(decision: &Decision) -> RuleOutcome<'_> {
    decision.outcomes().find(|outcome| outcome.rule.is_candidate()).expect("the candidate")
}

/// Feeds requests to a rule with a candidate, and those that pass to the same rule with the candidate in force.
async fn compare<S: Store>(trial: &Trial, name: &str, store: S) {
    let Trial { policy, steps } = trial;
    let policy = &policy.replace("u0", &format!("{name}u0"));
    let tried = limiter(parse(policy), store);
    let memory = || MemoryStore::with_bytes(0);
    let alone = limiter(with_rule(policy, |rule| rule.candidate = None), memory());
    let promote = |rule: &mut RuleDocument| {
        *rule = rule.promoted().expect("a candidate");
    };
    let in_force = limiter(with_rule(policy, promote), memory());
    let (mut now, mut passed, mut refused) = (MIDNIGHT, 0, 0);
    for (number, step) in steps.iter().enumerate() {
        now = now.plus(Micros::from_millis(step.after_ms));
        [tried.clock(), alone.clock(), in_force.clock()].iter().for_each(|it| it.set(now));
        let text = format!("user_id={name}u{} cost={}", step.client, step.cost);
        let asked = request(&text);
        let decision = tried.check(&asked).await;
        let without = at_once(alone.check(&asked));
        let about = || format!("step {number} of {trial:#?}");
        let binding = |it: &Decision| it.binding().expect("the rule").outcome.report;
        assert_eq!(binding(&decision), binding(&without), "{}", about());
        assert_eq!(decision.is_allowed(), without.is_allowed(), "{}", about());
        assert_eq!(decision.delay(), without.delay(), "{}", about());
        assert_eq!(decision.state(), without.state(), "{}", about());
        if !decision.is_allowed() {
            continue;
        }
        let expected = at_once(in_force.check(&asked));
        let candidate = candidate_in(&decision).outcome;
        assert_eq!(candidate.admitted, expected.is_allowed(), "{}", about());
        assert_eq!(candidate.report, binding(&expected), "{}", about());
        passed += u64::from(candidate.admitted);
        refused += u64::from(!candidate.admitted);
        if step.is_refunded {
            tried.refund(decision).await.expect("a refund");
            at_once(alone.refund(without)).expect("a refund");
            at_once(in_force.refund(expected)).expect("a refund");
        }
    }
    let counted = counts(&tried, "api~candidate");
    assert_eq!((counted.admitted, counted.would_refuse), (passed, refused), "{trial:#?}");
    assert_eq!((counted.refused, counted.warned), (0, 0), "{trial:#?}");
    let (rule, without) = (counts(&tried, "api"), counts(&alone, "api"));
    assert_eq!(rule, without, "{trial:#?}");
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_candidate_says_what_its_limit_would_refuse_in_force(trial in trial()) {
        at_once(compare(&trial, "", MemoryStore::with_bytes(0)));
    }
}

/// Trials on a server that they share, each with clients of its own.
async fn on_server<S: Store>(connect: impl Fn(RemoteSettings) -> S) {
    let mut runner = TestRunner::deterministic();
    for number in 0..config(30).cases {
        let settings = RemoteSettings {
            deadline: Duration::from_secs(20),
            deny_cache: Micros::ZERO,
            uses_callers_clock: true,
            ..RemoteSettings::default()
        };
        let drawn = trial().new_tree(&mut runner).expect("a trial").current();
        compare(&drawn, &format!("t{number}"), connect(settings)).await;
    }
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_says_the_same_in_redis() {
    let redis = tollgate_testbed::Redis::start();
    on_server(|settings| {
        tollgate::store::redis::RedisStore::connect(&redis.url(), settings).expect("a URL")
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_says_the_same_in_postgresql() {
    let postgres = tollgate_testbed::Postgres::start();
    on_server(|settings| {
        tollgate::store::postgres::PostgresStore::connect(&postgres.url(), settings).expect("a URL")
    })
    .await;
}

const API: &str = "rules: [{rule_id: api, limit: 3, window: 1m, algorithm: fixed_window, identifier_type: user_id, \
     candidate: {limit: 1}}]";

/// A shared counter would call every request of a steady client refused: 9 of 10 in use is always more than 8.
#[test]
fn a_steady_client_is_refused_as_often_as_under_the_limit_itself() {
    let policy = "rules: [{rule_id: api, limit: 10, window: 10s, algorithm: sliding_window_log, \
                  identifier_type: user_id, candidate: {limit: 8}}]";
    let limiter = limiter(parse(policy), MemoryStore::with_bytes(0));
    for request_number in 0..900_u64 {
        limiter.clock().set(MIDNIGHT.plus(Micros::new(request_number * 10_000_000 / 9)));
        assert!(at_once(limiter.check(&request("user_id=u1"))).is_allowed());
    }
    let counted = counts(&limiter, "api~candidate");
    assert_eq!((counted.admitted, counted.would_refuse), (800, 100), "one in nine");
}

#[test]
fn a_candidate_changes_nothing_for_the_client() {
    check(
        API,
        &[
            ("0 check user_id=a", "allowed by api, 2 left"),
            ("0 check user_id=a", "allowed by api, 1 left, api~candidate would refuse"),
            ("0 check user_id=b", "allowed by api, 2 left"),
            ("0 check user_id=a", "allowed by api, 0 left, warned, api~candidate would refuse"),
            (
                "0 check user_id=a",
                "refused by api, 0 left, retry in 60000 ms, warned, api~candidate would refuse",
            ),
            // The newest is a refusal, the oldest was charged to both.
            ("0 refund oldest", "done"),
            ("0 check user_id=a", "allowed by api, 0 left, warned"),
            ("0 reset user_id=a", "2 changed"),
            ("0 rule api user_id=a", "allowed by api, 2 left"),
            ("0 rule api user_id=a", "allowed by api, 1 left, api~candidate would refuse"),
            ("0 rule api~candidate user_id=a", "no rule"),
        ],
    );
}

/// Refusals of the rule are no refusals of the candidate, and only the former lead to a ban.
#[test]
fn a_candidate_counts_requests_that_passed_and_bans_no_client() {
    let policy = API.replace(
        "candidate:",
        "penalty: {after: 2, within_seconds: 60, ban_seconds: 60}, candidate:",
    );
    let mut scene = in_memory(&policy);
    for _ in 0..4 {
        scene.step("0 check user_id=a");
    }
    let counted = counts(&scene.limiter, "api~candidate");
    assert_eq!((counted.admitted, counted.would_refuse, counted.refused), (1, 2, 0));
    assert_eq!(counts(&scene.limiter, "api").refused, 1);
    assert_eq!(scene.step("60000 check user_id=a"), "allowed by api, 2 left");
}

#[test]
fn another_limit_is_another_try() {
    let limiter = limiter(parse(API), MemoryStore::with_bytes(0));
    let ask = || drop(at_once(limiter.check(&request("user_id=a"))));
    (0..2).for_each(|_| ask());
    let tried = || {
        let counted = counts(&limiter, "api~candidate");
        (counted.admitted, counted.would_refuse)
    };
    assert_eq!(tried(), (1, 1));
    limiter.install(&parse(&API.replace("rule_id: api,", "rule_id: api, name: The API,")));
    assert_eq!(tried(), (1, 1), "the same limit");
    limiter.install(&parse(&API.replace("candidate: {limit: 1}", "candidate: {limit: 2}")));
    assert_eq!(tried(), (0, 0), "another limit");
    assert_eq!(counts(&limiter, "api").admitted, 2, "the rule goes on");
    ask();
    assert_eq!(tried(), (1, 0), "one of two is in use");
}

#[test]
fn a_rule_that_is_replaced_or_off_has_no_candidate() {
    let wide =
        "{rule_id: wide, limit: 9, window: 1m, identifier_type: user_id, candidate: {limit: 1}}";
    let narrow = "{rule_id: narrow, limit: 9, window: 1m, identifier_type: user_id, replaces: [wide], \
                  applies_to: {endpoints: [/a]}, candidate: {limit: 0}}";
    check(
        &format!("rules: [{wide}, {narrow}]"),
        &[
            ("0 check /b user_id=u", "allowed by wide, 8 left"),
            ("0 check /a user_id=u", "allowed by narrow, 8 left, narrow~candidate would refuse"),
            ("0 check /b user_id=u", "allowed by wide, 7 left, wide~candidate would refuse"),
        ],
    );
    check(
        "rules: [{rule_id: off, limit: 9, window: 1m, identifier_type: user_id, enabled: false, candidate: {limit: 0}}]",
        &[("0 check user_id=u", "no rule")],
    );
}

/// An override makes another limit of the candidate, as it would if that were in force.
#[test]
fn overrides_hold_for_candidates() {
    let policy = format!(
        "{API}\noverrides: [{{identifier_type: user_id, identifier: double, rule_id: api, multiplier: 2}}, \
         {{identifier_type: user_id, identifier: own, rule_id: api, limit: 2}}]"
    );
    check(
        &policy,
        &[
            ("0 check user_id=double", "allowed by api, 5 left"),
            ("0 check user_id=double", "allowed by api, 4 left"),
            ("0 check user_id=double", "allowed by api, 3 left, api~candidate would refuse"),
            ("0 check user_id=own", "allowed by api, 1 left"),
            ("0 check user_id=own", "allowed by api, 0 left, warned"),
        ],
    );
}
