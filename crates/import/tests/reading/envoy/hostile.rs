//! No file and no request makes the reader or the matcher panic, hang, or fill the memory.

use proptest::prelude::*;
use tollgate_import::envoy::{Descriptor, DescriptorVerdict, EnvoyConfig};

use crate::envoy::request::{config, in_words};
use tollgate_testbed::hostile_text::{HostileText, check_shown, mutated, random_bytes};

const VALID: &str = r#"# A file that uses everything there is.
domain: "shop é"
descriptors:
  - key: tenant
    value: 0x1F
    rate_limit: &limit {unit: MINUTE, requests_per_unit: 100, name: one, algorithm: gcra}
    shadow_mode: yes
    descriptors:
      - {key: path, value: "/api/*", share_threshold: true, rate_limit: *limit}
      - {key: path, value: True, detailed_metric: true, value_to_metric: false}
  - key: other
    metadata: {anything: [1, {a: b}]}
    rate_limit:
      unlimited: true
      replaces: [{name: one}, {name: "two"}]
  - {key: é, value: 5, rate_limit: {unit: year, requests_per_unit: 0}, quota_mode: false}
"#;

/// Reads the text and checks the reported problems.
fn check(text: &str) {
    match EnvoyConfig::parse(&[("file.yaml", text)]) {
        Ok(config) => {
            let domain = config.domains().next().expect("a file has a domain");
            assert!(config.judge(domain, &[]).is_some_and(|verdicts| verdicts.is_empty()));
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "it says what is wrong");
            let hostile = HostileText::new("file.yaml", text);
            hostile.check(problems.iter().map(|told| &told.problem));
            for told in problems.iter().step_by(100) {
                check_shown(&told.to_string());
            }
        }
    }
}

fn pieces() -> impl Strategy<Value = String> {
    prop_oneof![
        "[\\[\\]{}:,\"'&*!|>%@#?\\-~\n\r\t 0-9a-z.\\\\\u{0}\u{1b}\u{e9}\u{feff}\u{1f600}]{1,3}",
        Just("- ".to_owned()),
        Just("\n---\n".to_owned()),
        Just("value: 0o7".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_bytes(text in random_bytes()) {
        check(&text);
    }

    #[test]
    fn random_punctuation(text in "[\\[\\]{}:,\"'&*!|>%@#?\\-~\n\r\t 0ae.\\\\<\u{feff}]{0,80}") {
        check(&text);
    }

    #[test]
    fn mutations(text in mutated(VALID, pieces())) {
        check(&text);
    }

    #[test]
    fn any_request(
        domain in prop_oneof![Just("shop é".to_owned()), any::<String>()],
        request in prop::collection::vec(
            prop::collection::vec((any::<String>(), any::<String>()), 0..5),
            0..5,
        ),
    ) {
        let config = config(VALID);
        let entries = request.iter().map(|entries| {
            entries.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>()
        });
        let entries = entries.collect::<Vec<_>>();
        let descriptors = entries.iter().map(|entries| Descriptor { entries, carries_limit: false });
        let found = config.judge(&domain, &descriptors.collect::<Vec<_>>());
        let expected = (domain == "shop é").then_some(request.len());
        prop_assert_eq!(found.map(|found| found.len()), expected);
    }
}

#[test]
fn the_valid_file_is_valid() {
    let config = config(VALID);
    assert_eq!(config.limits().len(), 4);
    assert_eq!(in_words(&config, "shop é", "tenant=0x1F | é=5"), "100 | 0");
}

#[test]
fn endless_repetition() {
    for unit in [
        "[",
        "{",
        "- ",
        "a: ",
        "? ",
        "\n",
        "\r",
        "#",
        "&a ",
        "*a ",
        "!a ",
        "- a\n",
        "'",
        "\"",
        "|\n",
        "a",
        "1",
        "%",
        "---\n",
        "...\n",
        ",",
        "\\",
        "a: 1\n",
        ": ",
        "\u{feff}",
        "\u{0}",
        "<<: ",
        "- key: a\n",
        "- {key: 1}\n",
        "- key: a\n  descriptors:\n",
        "{key: a, descriptors: [",
        "- {value: 5, key: é, unit: x}\n",
    ] {
        check(&unit.repeat(30_000));
        check(&format!("domain: d\ndescriptors:\n{}", unit.repeat(30_000)));
        check(&format!("domain: d\ndescriptors: [{}", unit.repeat(30_000)));
    }
}

/// Descriptors nested that deep, with a limit at the bottom.
fn nested(depth: usize) -> String {
    let open = "{key: a, descriptors: [".repeat(depth - 1);
    let limit = "{key: a, rate_limit: {unit: day, requests_per_unit: 7}}";
    format!("{{domain: d, descriptors: [{open}{limit}{}]}}", "]}".repeat(depth - 1))
}

#[test]
fn depth_is_bounded() {
    // Each level is a list and a map; the file and the limit are maps too.
    let deepest = config(&nested(31));
    assert_eq!(in_words(&deepest, "d", &["a=1"; 31].join(",")), "7");
    assert_eq!(in_words(&deepest, "d", &["a=1"; 32].join(",")), "none");
    assert_eq!(in_words(&deepest, "d", &["a=1"; 100_000].join(",")), "none");
    let problems = EnvoyConfig::parse(&[("deep", &nested(32))]).expect_err("too deep");
    assert!(problems[0].to_string().contains("deeper than 64 levels"), "{problems:?}");
    for depth in [33, 1_000, 100_000] {
        assert!(EnvoyConfig::parse(&[("deep", &nested(depth))]).is_err(), "{depth} levels");
        check(&nested(depth));
    }
}

/// A name above many limits is in the id and the path of each of them.
#[test]
fn long_names_above_many_limits() {
    let long = "x".repeat(1_000_000);
    let limits = (0..20_000).map(|at| format!("{{key: k{at}, rate_limit: {{unit: day}}}}, "));
    let limits = limits.collect::<String>();
    let file = format!("{{domain: d, descriptors: [{{key: {long}, descriptors: [{limits}]}}]}}");
    let config = config(&file);
    assert_eq!(config.limits().len(), 20_000);
    assert_eq!(in_words(&config, "d", &format!("{long}=1,k7=1")), "0");
}

#[test]
fn many_values_without_quotes_in_one_line() {
    let many = |letter: &str| {
        let descriptors =
            (0..100_000).map(|at| format!("{{key: {letter}, value: {at}}}, ")).collect::<String>();
        format!("{{domain: d, descriptors: [{descriptors}]}}")
    };
    assert!(EnvoyConfig::parse(&[("f", &many("a"))]).is_ok());
    // Far into a line that is not ASCII a number cannot be put back, and is refused.
    let problems = EnvoyConfig::parse(&[("f", &many("é"))]).expect_err("too far");
    let told = problems[0].to_string();
    assert!(told.contains("value: expected text, found"), "{told}");
    assert!(told.contains("put it in quotes"), "{told}");
}

#[test]
fn wildcards_take_no_time() {
    let file = |value: &str| {
        format!(
            "{{domain: d, descriptors: [{{key: k, value: '{value}', rate_limit: {{unit: day}}}}]}}"
        )
    };
    let stars_then_b = config(&file(&("a*".repeat(1_000) + "b")));
    let long = "a".repeat(1_000_000);
    assert_eq!(in_words(&stars_then_b, "d", &format!("k={long}")), "none");
    assert_eq!(in_words(&stars_then_b, "d", &format!("k={long}b")), "0");
    let periodic = config(&file(&format!("*{}b*", "a".repeat(1_000))));
    assert_eq!(in_words(&periodic, "d", &format!("k={long}")), "none");
}

#[test]
fn many_descriptors_that_replace_each_other() {
    let replaces = (0..1_000).map(|at| format!("{{name: n{at}}}, ")).collect::<String>();
    let file = format!(
        "{{domain: d, descriptors: [{{key: k, rate_limit: {{unit: day, replaces: [{replaces}]}}}}, \
         {{key: l, rate_limit: {{unit: day, name: n7}}}}]}}"
    );
    let config = config(&file);
    let (replacing, replaced) = ([("k", "1")], [("l", "1")]);
    let mut request = vec![Descriptor { entries: &replaced, carries_limit: false }; 2_000];
    request.push(Descriptor { entries: &replacing, carries_limit: false });
    let verdicts = config.judge("d", &request).expect("the domain");
    let counted =
        verdicts.iter().filter(|verdict| **verdict != DescriptorVerdict::Replaced).count();
    assert_eq!(counted, 1);
}
