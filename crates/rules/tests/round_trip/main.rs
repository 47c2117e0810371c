//! What is written of a document reads back as the same document, in both formats.

use proptest::prelude::*;
use tollgate_core::Algorithm;
use tollgate_rules::document::{
    Action, AppliesTo, CandidateDocument, ClientDocument, Consistency, LimitFromDocument,
    ListDocument, OnMissing, OnStoreFailure, OverrideDocument, PenaltyDocument, PolicyDocument,
    RefusalDocument, RuleDocument, SoftDocument, ThrottleDocument, TierDocument,
};
use tollgate_rules::{
    AlgorithmName, Decimal, Format, OneOrMany, Seconds, Source, StatusPattern, Window,
};

/// Texts that are easily taken for something else.
const TRICKY: &[&str] =
    &["", "*", "null", "~", "true", "5", "1e3", "- a", "a: b", "#", "\"", "\\", "\n", " x "];

fn text() -> impl Strategy<Value = String> {
    let tricky = prop::sample::select(TRICKY).prop_map(str::to_owned);
    prop_oneof![tricky, "[ -~\u{e9}\u{1f600}]{0,12}"]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3)
}

/// Small amounts, defaults among them, and the largest.
fn amount(least: u64) -> impl Strategy<Value = u64> {
    prop_oneof![least..least + 4, Just(i64::MAX as u64), least..i64::MAX as u64]
}

fn one_or_many() -> impl Strategy<Value = OneOrMany> {
    prop_oneof![
        text()
            .prop_filter("composite is refused", |text| text != "composite")
            .prop_map(OneOrMany::one),
        prop::collection::vec(text(), 2..4).prop_map(OneOrMany::many),
    ]
}

fn seconds() -> impl Strategy<Value = Seconds> {
    prop_oneof![1_u64..3_000, 1_u64..=31_622_400_000].prop_map(Seconds::from_millis)
}

fn decimal(most: u64) -> impl Strategy<Value = Decimal> {
    prop_oneof![Just(800_000), Just(700_000), 0..=most].prop_map(Decimal::from_millionths)
}

fn window() -> impl Strategy<Value = (Option<Seconds>, Option<Window>)> {
    let written =
        prop::sample::select(&["1ms", "10s", "1h30m", "366d", "1d2h3m4s5ms", "1 month"][..]);
    prop_oneof![
        seconds().prop_map(|seconds| (Some(seconds), None)),
        written.prop_map(|text| (None, Some(Window::new(text).expect("a window")))),
    ]
}

fn applies_to() -> impl Strategy<Value = AppliesTo> {
    let attributes = prop::collection::btree_map(text(), texts(), 0..3);
    (texts(), texts(), texts(), texts(), attributes).prop_map(
        |(hosts, endpoints, methods, user_tiers, attributes)| AppliesTo {
            hosts,
            endpoints,
            methods,
            user_tiers,
            attributes,
        },
    )
}

fn soft() -> impl Strategy<Value = SoftDocument> {
    (decimal(1_000_000), decimal(1_000_000), amount(0))
        .prop_map(|(warn_at, clear_at, grace)| SoftDocument { warn_at, clear_at, grace })
}

fn limit_from() -> impl Strategy<Value = LimitFromDocument> {
    (text(), amount(1)).prop_map(|(claim, ceiling)| LimitFromDocument { claim, ceiling })
}

fn candidate() -> impl Strategy<Value = CandidateDocument> {
    let algorithm = prop::sample::select(&Algorithm::ALL[..]).prop_map(AlgorithmName);
    let fields = (
        prop::option::of(amount(0)),
        prop_oneof![Just((None, None)), window()],
        prop::option::of(amount(1)),
        prop::option::of(algorithm),
    );
    fields.prop_map(|(limit, (window_seconds, window), burst, algorithm)| CandidateDocument {
        limit,
        window_seconds,
        window,
        burst,
        algorithm,
    })
}

fn penalty() -> impl Strategy<Value = PenaltyDocument> {
    (1..=1_000_000_u64, 1..=31_622_400_u64, 1..=31_622_400_u64).prop_map(
        |(after, within_seconds, ban_seconds)| PenaltyDocument {
            after,
            within_seconds,
            ban_seconds,
        },
    )
}

fn refusal() -> impl Strategy<Value = RefusalDocument> {
    let status = prop::option::of(400..=599_u64);
    (status, prop::option::of(text()), prop::option::of(text()))
        .prop_map(|(status, body, content_type)| RefusalDocument { status, body, content_type })
}

prop_compose! {
    fn rule()(
        (rule_id, name, description, tenant) in
            (text(), prop::option::of(text()), prop::option::of(text()), prop::option::of(text())),
        (limit, burst, cost) in (amount(0), prop::option::of(amount(1)), amount(0)),
        (limit_from, time_zone, candidate) in
            (prop::option::of(limit_from()), prop::option::of(text()), prop::option::of(candidate())),
        (window_seconds, window) in window(),
        algorithm in prop::sample::select(&Algorithm::ALL[..]),
        (identifier_type, key_pattern, applies_to) in (one_or_many(), text(), applies_to()),
        costs in prop::collection::btree_map(text(), amount(0), 0..3),
        on_missing in prop::sample::select(OnMissing::ALL),
        action in prop::sample::select(Action::ALL),
        consistency in prop::sample::select(Consistency::ALL),
        on_store_failure in prop::sample::select(OnStoreFailure::ALL),
        throttle in prop::option::of(0..=31_622_400_000_u64),
        (soft, penalty, refusal) in
            (prop::option::of(soft()), prop::option::of(penalty()), prop::option::of(refusal())),
        (priority, fallback_factor) in
            (prop_oneof![-1_i64..2, any::<i64>()], prop_oneof![1_u32..4, 1..=u32::MAX]),
        (replaces, refund_on, enabled) in
            (texts(), prop::collection::vec("[1-5]([0-9]{2}|xx)", 0..3), any::<bool>()),
    ) -> RuleDocument {
        let refund_on = refund_on.iter().filter_map(|text| StatusPattern::new(text)).collect();
        RuleDocument {
            rule_id, name, description, limit, limit_from, window_seconds, window, time_zone,
            algorithm: AlgorithmName(algorithm),
            burst, candidate, identifier_type, key_pattern, on_missing, tenant, applies_to, cost, costs, action,
            throttle: throttle.map(|max_delay_ms| ThrottleDocument { max_delay_ms }),
            soft, priority, replaces, consistency, on_store_failure, fallback_factor, penalty,
            refund_on, refusal, enabled,
        }
    }
}

prop_compose! {
    fn listed()(
        identifier_type in one_or_many(),
        identifier in one_or_many(),
        reason in prop::option::of(text()),
        expires_at in prop::option::of(text()),
    ) -> ListDocument {
        ListDocument { identifier_type, identifier, reason, expires_at }
    }
}

prop_compose! {
    fn exception()(
        identifier_type in one_or_many(),
        identifier in one_or_many(),
        rule_id in text(),
        limit in prop::option::of(amount(0)),
        window_seconds in prop::option::of(seconds()),
        burst in prop::option::of(amount(1)),
        multiplier in prop::option::of(decimal(1_000_000_000_000_000)),
        starts_at in prop::option::of(text()),
        expires_at in prop::option::of(text()),
    ) -> OverrideDocument {
        OverrideDocument {
            identifier_type, identifier, rule_id, limit, window_seconds, burst, multiplier,
            starts_at, expires_at,
        }
    }
}

prop_compose! {
    fn document()(
        rules in prop::collection::vec(rule(), 0..4),
        tiers in prop::collection::vec((text(), any::<bool>()), 0..3),
        clients in prop::collection::vec((one_or_many(), one_or_many(), text()), 0..3),
        overrides in prop::collection::vec(exception(), 0..3),
        whitelist in prop::collection::vec(listed(), 0..3),
        blacklist in prop::collection::vec(listed(), 0..3),
    ) -> PolicyDocument {
        let tiers = tiers.into_iter().map(|(tier, default)| TierDocument { tier, default }).collect();
        let clients = clients.into_iter().map(|(identifier_type, identifier, tier)| {
            ClientDocument { identifier_type, identifier, tier }
        });
        PolicyDocument {
            rules, tiers, clients: clients.collect(), overrides, whitelist, blacklist,
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(document in document()) {
        let compact = serde_json::to_string(&document).expect("a document can be written");
        let pretty = serde_json::to_string_pretty(&document).expect("a document can be written");
        for text in [compact, pretty] {
            for format in [Format::Json, Format::Yaml] {
                let source = Source::parse_as(&text, format);
                prop_assert_eq!(&source.problems, &[], "{:?} {}", format, text);
                prop_assert_eq!(&source.document, &document, "{:?} {}", format, text);
            }
        }
    }

    #[test]
    fn decimals_are_never_rounded(millis in 1_u64..=31_622_400_000, trailing in 0_usize..3) {
        let text = format!("{}.{:03}{}", millis / 1_000, millis % 1_000, "0".repeat(trailing));
        let rule = format!("{{limit: 5, window_seconds: {text}}}");
        let source = Source::parse_rule(&rule, "r", "ip");
        prop_assert_eq!(&source.problems, &[]);
        prop_assert_eq!(source.document.rules[0].window_seconds, Some(Seconds::from_millis(millis)));
    }
}

#[test]
fn only_what_differs_from_the_default_is_written() {
    let text = "rules: [{rule_id: r, limit: 5, window_seconds: 1.50, identifier_type: [ip], cost: 1, \
                soft: {warn_at: 0.9, grace: 0}, applies_to: {methods: []}, enabled: false}]\n\
                tiers: [{tier: free, default: false}]\n\
                blacklist: []";
    let source = Source::parse(text);
    assert_eq!(source.problems, []);
    let written = serde_json::to_string(&source.document).expect("a document can be written");
    let expected = r#"{"rules":[{"rule_id":"r","limit":5,"window_seconds":1.5,"identifier_type":"ip","soft":{"warn_at":0.9},"enabled":false}],"tiers":[{"tier":"free"}]}"#;
    assert_eq!(written, expected);
}
