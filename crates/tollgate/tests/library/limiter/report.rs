//! What a limiter reports: explanations, statistics, revisions.

use tollgate::rules::Revision;
use tollgate::{Attributes, MemoryStore, RuleCounts, SoftState};

use crate::limiter::in_memory;
use crate::limiter::scene::{Scene, at_once, parse, request};

const POLICY: &str = "
rules:
  - {rule_id: wide, limit: 100, window: 1m, identifier_type: tenant, algorithm: fixed_window}
  - {rule_id: narrow, limit: 4, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: watch, limit: 1, window: 1m, identifier_type: user_id, algorithm: fixed_window, action: log_only}
  - {rule_id: posts, limit: 1, window: 1m, identifier_type: user_id, applies_to: {methods: [POST]}}
";

#[test]
fn an_explanation_names_the_rule_that_binds() {
    let mut scene = in_memory(POLICY);
    let request = request("GET / user_id=u tenant=acme");
    let explain = |scene: &Scene<MemoryStore>| at_once(scene.limiter.explain(&request));

    let before = explain(&scene);
    assert_eq!(before.binding.as_deref(), Some("wide"), "of equals the first");
    scene.step("0 check GET / user_id=u tenant=acme cost=3");
    let after = explain(&scene);
    assert_eq!(after.binding.as_deref(), Some("narrow"));
    let figures: Vec<_> = after
        .figures
        .iter()
        .map(|figures| (figures.rule_id.as_str(), figures.remaining, figures.state))
        .collect();
    let expected = [
        ("wide", 97, SoftState::Normal),
        ("narrow", 1, SoftState::Normal),
        ("watch", 1, SoftState::Normal),
    ];
    assert_eq!(figures, expected);
    let applying: Vec<_> = after
        .explanation
        .rules
        .iter()
        .filter(|rule| rule.applies)
        .map(|rule| rule.rule_id.as_str())
        .collect();
    assert_eq!(applying, ["wide", "narrow", "watch"]);
    assert_eq!(explain(&scene), after, "an explanation charges nothing");
}

/// An explanation used to say which rule binds, but not whether the request would pass.
#[test]
fn an_explanation_says_whether_the_request_would_pass() {
    let mut scene = in_memory(POLICY);
    let mut check = |step: &str, asked: &str, expected: (bool, Option<u64>, Option<&str>)| {
        if !step.is_empty() {
            scene.step(step);
        }
        let before = scene.limiter.stats();
        let explained = at_once(scene.limiter.explain(&request(asked)));
        let told = (explained.would_pass, explained.retry_ms, explained.binding.as_deref());
        assert_eq!(told, expected, "{asked}");
        for figures in &explained.figures {
            let cost = Attributes::cost(&request(asked));
            assert_eq!(figures.exceeded, cost > figures.remaining, "{asked}: {figures:?}");
        }
        assert_eq!(scene.limiter.stats(), before, "asking is not counted");
        let again = at_once(scene.limiter.explain(&request(asked)));
        assert_eq!(again, explained, "asking charges nothing");
    };
    check("", "GET / user_id=u tenant=acme", (true, None, Some("wide")));
    check("", "GET / user_id=u tenant=acme cost=5", (false, None, Some("narrow")));
    check("0 check GET / user_id=u cost=3", "GET / user_id=u", (true, None, Some("narrow")));
    check("", "GET / user_id=u cost=2", (false, Some(60_000), Some("narrow")));
    check("", "GET / user_id=u cost=2 tenant=acme", (false, Some(60_000), Some("narrow")));
    check("14000 check GET / user_id=u", "GET / user_id=u", (false, Some(46_000), Some("narrow")));
    check("", "GET / user_id=u cost=0", (true, None, Some("narrow")));
    check("", "GET /", (true, None, None));
}

#[test]
fn a_client_that_is_denied_would_not_pass() {
    let scene = in_memory(
        "rules: [{rule_id: keyed, limit: 1, window: 1m, identifier_type: api_key, on_missing: deny}]
blacklist: [{identifier_type: user_id, identifier: banned}]",
    );
    for (asked, expected) in
        [("user_id=banned api_key=k", false), ("user_id=u", false), ("api_key=k", true)]
    {
        let explained = at_once(scene.limiter.explain(&request(asked)));
        assert_eq!((explained.would_pass, explained.retry_ms), (expected, None), "{asked}");
    }
}

#[test]
fn statistics_count_the_outcomes_of_each_rule() {
    let mut scene = in_memory(POLICY);
    for step in [
        "0 check GET / user_id=u tenant=acme",
        "0 check GET / user_id=u tenant=acme",
        "0 check GET / user_id=u tenant=acme",
        "0 check GET / user_id=u tenant=acme",
        "0 check GET / user_id=u tenant=acme",
        "0 check GET / tenant=acme",
        // Neither of these is a request.
        "0 peek GET / user_id=u tenant=acme",
        "0 check GET / user_id=u tenant=acme cost=0",
    ] {
        scene.step(step);
    }
    let counts = |admitted, refused, would_refuse, warned| RuleCounts {
        admitted,
        refused,
        would_refuse,
        warned,
        ..RuleCounts::default()
    };
    let expected = [
        ("posts", counts(0, 0, 0, 0)),
        ("wide", counts(5, 0, 0, 0)),
        ("narrow", counts(4, 1, 0, 1)),
        ("watch", counts(1, 0, 4, 1)),
    ];
    check_stats(&scene, &expected);

    // Counts belong to rules by their id, and go on under another policy.
    let another = "
rules:
  - {rule_id: narrow, limit: 9, window: 1m, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: new, limit: 9, window: 1m, identifier_type: tenant, algorithm: fixed_window}
";
    scene.limiter.install(&parse(another));
    scene.step("0 check user_id=u tenant=acme");
    check_stats(&scene, &[("narrow", counts(5, 1, 0, 1)), ("new", counts(1, 0, 0, 0))]);
}

#[test]
fn delays_are_counted() {
    let mut scene = in_memory(
        "rules: [{rule_id: r, limit: 1, window: 1s, burst: 3, identifier_type: user_id, algorithm: leaky_bucket}]",
    );
    for _ in 0..4 {
        scene.step("0 check user_id=u");
    }
    let expected = RuleCounts { admitted: 3, refused: 1, delayed: 2, ..RuleCounts::default() };
    check_stats(&scene, &[("r", expected)]);
}

fn check_stats(scene: &Scene<MemoryStore>, expected: &[(&str, RuleCounts)]) {
    let stats = scene.limiter.stats();
    let stats: Vec<_> = stats.iter().map(|(rule, counts)| (&**rule, *counts)).collect();
    assert_eq!(stats, expected);
}

#[test]
fn a_decision_belongs_to_a_revision() {
    let scene = in_memory(POLICY);
    let request = request("user_id=u");
    assert_eq!(scene.limiter.check(&request).now().revision(), Revision::default());
    let revision = Revision { epoch: 7, number: 3 };
    let installed = scene.limiter.install(&parse(POLICY).with_revision(revision));
    assert_eq!(installed, revision);
    let decision = scene.limiter.check(&request).now();
    assert_eq!(decision.revision(), revision);
    assert_eq!(at_once(scene.limiter.explain(&request)).explanation.revision, revision);
    assert_eq!(scene.limiter.policy().revision(), revision);
}

/// Keys may be secrets, so nothing that is printed for debugging shows them.
#[test]
fn secrets_are_not_printed() {
    let scene = in_memory("rules: [{rule_id: r, limit: 1, window: 1s, identifier_type: api_key}]");
    let request = request("api_key=hush-hush");
    let decision = scene.limiter.check(&request).now();
    let explained = at_once(scene.limiter.explain(&request));
    for text in [format!("{request:?}"), format!("{decision:?}"), format!("{explained:?}")] {
        assert!(!text.contains("hush-hush"), "{text}");
    }
}
