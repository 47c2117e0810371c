//! No text makes the reader panic, hang, fill the memory or point outside of the text.

use proptest::prelude::*;
use tollgate_rules::{Format, Source};
use tollgate_testbed::hostile_text::{HostileText, mutated, random_bytes};

const VALID: &str = r#"# A policy that uses everything there is.
rules:
  - rule_id: api_default
    name: "Default \u00e9 limit"
    limit: 1000
    window_seconds: 0.5
    algorithm: token_bucket
    burst: 1500
    identifier_type: [user_id, "header:x-tenant"]
    applies_to: &everywhere {hosts: ["*.example.com"], methods: [GET], attributes: {plan: [a]}}
    costs: {"POST /reports": 10}
    soft: {warn_at: 0.8, clear_at: 0.7, grace: 0}
    penalty: {after: 5, within_seconds: 60, ban_seconds: 600}
    refund_on: [5xx, 503]
    refusal: {status: 503, body: 'wait {retry_after} s', content_type: text/plain}
  - {rule_id: b, limit: 5, window: 1h30m, identifier_type: ip, applies_to: *everywhere}
tiers: [{tier: free, default: true}]
clients: [{identifier_type: user_id, identifier: u1, tier: free}]
overrides: [{identifier_type: ip, identifier: a, rule_id: b, multiplier: 1.5, expires_at: null}]
whitelist: [{identifier_type: ip, identifier: 10.0.0.0/8, reason: >
  folded}]
"#;

/// Reads the text in every way there is, and checks the reported problems.
fn check(text: &str) {
    let sources = [
        Source::parse(text),
        Source::parse_as(text, Format::Json),
        Source::parse_as(text, Format::Yaml),
        Source::parse_rule(text, "inline", "global"),
    ];
    let hostile = HostileText::new("policy.yaml", text);
    for source in &sources {
        hostile.check(source.problems.iter());
    }
}

fn pieces() -> impl Strategy<Value = String> {
    prop_oneof![
        "[\\[\\]{}:,\"'&*!|>%@#?\\-~\n\r\t 0-9a-z.\\\\\u{0}\u{1b}\u{e9}\u{feff}\u{1f600}]{1,3}",
        Just("- ".to_owned()),
        Just("\n---\n".to_owned()),
        Just("<<: ".to_owned()),
        Just("\"\\ud800\"".to_owned()),
    ]
}

/// The valid text as JSON, to be broken in its own ways.
fn valid_json() -> &'static str {
    static JSON: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    JSON.get_or_init(|| {
        let source = Source::parse(VALID);
        assert_eq!(source.problems, []);
        serde_json::to_string_pretty(&source.document).expect("a document can be written")
    })
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
    fn mutations_of_yaml(text in mutated(VALID, pieces())) {
        check(&text);
    }

    #[test]
    fn mutations_of_json(text in mutated(valid_json(), pieces())) {
        check(&text);
    }

    #[test]
    fn any_path(path in "[\\[\\]a-z0-9.\"\\\\\u{e9}]{0,40}") {
        let source = Source::parse(VALID);
        let problem = source.problem(&path, "wrong");
        HostileText::new("policy.yaml", VALID).check([&problem].into_iter());
    }
}

#[test]
fn endless_repetition() {
    for unit in [
        "[",
        "{",
        "- ",
        "a: ",
        "? ",
        "[a, ",
        "{a: ",
        "{\"a\":",
        "[{",
        "- [",
        "\n",
        "\r",
        " ",
        "\t",
        "#",
        "&a ",
        "*a ",
        "!a ",
        "- a\n",
        "a:\n",
        "'",
        "\"",
        "|\n",
        "a",
        "1",
        "0.",
        "%",
        "---\n",
        "...\n",
        ",",
        "[]",
        "\\",
        "a: 1\n",
        "x y ",
        ":",
        ": ",
        "\u{e9}",
        "\u{feff}",
        "\u{0}",
        "<<: ",
        "-\n",
        "- |\n a\n",
    ] {
        check(&unit.repeat(30_000));
    }
}

/// Texts that random tests found: the YAML parser reported positions outside of them.
#[test]
fn found_before() {
    for text in ["? ", "rules: [", "%\u{1}\u{fffd}\u{0}\n", "{\"rules\": [\"a\": }"] {
        check(text);
    }
}

#[test]
fn deep_nesting() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        check(&format!("{}1{}", open.repeat(100_000), close.repeat(100_000)));
        check(&format!("{{\"rules\": {}1{}}}", open.repeat(70), close.repeat(70)));
    }
    // The advice for paths with braces looks at the end of the word.
    check(&format!("rules: [/a{{b{}", "}]".repeat(100_000)));
    let staircase = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth)));
    check(&staircase.collect::<String>());
}

#[test]
fn huge_values() {
    let long = "9".repeat(1_000_000);
    let rule = |limit: &str| {
        format!("rules: [{{rule_id: r, limit: {limit}, window: 1m, identifier_type: ip}}]")
    };
    for limit in [
        long.as_str(),
        &format!("-{long}"),
        &format!("0.{long}"),
        &format!("1e{long}"),
        &format!("1e-{long}"),
        &format!("0x{long}"),
        &format!("\"{long}\""),
        &format!("{{\"{long}\": 1}}"),
    ] {
        let text = rule(limit);
        check(&text);
        assert_eq!(Source::parse(&text).problems.len(), 1, "one problem, in the limit");
    }
    let many = format!("rules: [{}]", format!("{{\"{long}\": 1}},").repeat(3));
    check(&many);
    let keys = (0..100_000).map(|key| format!("k{key}: 1, "));
    check(&format!("rules: [{{{}}}]", keys.collect::<String>()));
}

#[test]
fn aliases_do_not_multiply_without_bound() {
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}, ", level - 1).repeat(10);
        laughs.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
    }
    check(&laughs);
    let told = Source::parse(&laughs).problems;
    assert!(told[0].message.contains("aliases repeat too much"), "{told:?}");

    let long = "x".repeat(1_000_000);
    check(&format!("a: &a {long}\nb: [{}]\n", "*a, ".repeat(100_000)));

    let mut chain = "a0: &a0 [1]\n".to_owned();
    for level in 1..200 {
        chain.push_str(&format!("a{level}: &a{level} [[[[[[[[[[*a{}]]]]]]]]]]\n", level - 1));
    }
    check(&chain);
    let told = Source::parse(&chain).problems;
    assert!(told[0].message.contains("nested deeper than 64 levels"), "{told:?}");
}

#[test]
fn a_document_of_millions_of_values_is_refused_before_it_is_read_to_its_end() {
    let text = format!("{{\"rules\":[{}{{}}]}}", "{},".repeat(2_500_000));
    let source = Source::parse_as(&text, Format::Json);
    let told: Vec<&str> = source.problems.iter().map(|it| it.message.as_str()).collect();
    assert_eq!(told, ["the document has more than 2000000 values"]);
}

#[test]
fn reading_ends_with_the_last_problem_that_is_reported() {
    let fields: String = (0..300_000).map(|key| format!("\"k{key}\":1,")).collect();
    let rules = "{},".repeat(300_000);
    let tiers = "{\"tier\":\"\"},".repeat(300_000);
    let hosts = "\"/\",".repeat(300_000);
    for text in [
        format!("{{\"rules\":[{{{fields}\"z\":1}}]}}"),
        format!("{{\"rules\":[{rules}{{}}]}}"),
        format!("{{\"rules\":[],{fields}\"z\":1}}"),
        format!("{{\"tiers\":[{tiers}{{\"tier\":\"a\"}}]}}"),
        format!(
            "{{\"rules\":[{{\"rule_id\":\"r\",\"limit\":1,\"window\":\"1m\",\
             \"identifier_type\":\"ip\",\"applies_to\":{{\"hosts\":[{hosts}\"a\"]}}}}]}}"
        ),
    ] {
        let problems = tollgate_rules::Policy::compile(&Source::parse_as(&text, Format::Json))
            .expect_err("a wrong document");
        assert_eq!(problems.len(), 1_001, "{text:.40}");
        assert_eq!(problems[1_000].message, "only the first 1000 problems are shown");
    }
}
