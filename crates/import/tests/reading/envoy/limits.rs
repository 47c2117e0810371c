//! What limits are, once they are read.

use tollgate_core::{Algorithm, Micros, Quota};
use tollgate_import::envoy::{Allowance, EnvoyConfig, FileLimit, RepeatedDomain, Unit};

use crate::envoy::request::{config, entries, in_words};

/// The only limit of a file.
#[track_caller]
fn only_limit(file: &str) -> FileLimit {
    let config = config(file);
    let [limit] = config.limits() else { panic!("one limit in {file}") };
    limit.clone()
}

/// A file with that `rate_limit`.
fn with_rate_limit(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{key: k, rate_limit: {{{fields}}}}}\n")
}

#[test]
fn units_have_one_length() {
    for (text, unit, seconds) in [
        ("second", Unit::Second, 1),
        ("minute", Unit::Minute, 60),
        ("hour", Unit::Hour, 3_600),
        ("day", Unit::Day, 86_400),
        ("week", Unit::Week, 604_800),
        ("month", Unit::Month, 2_592_000),
        ("year", Unit::Year, 31_536_000),
        ("SECOND", Unit::Second, 1),
        ("Minute", Unit::Minute, 60),
        ("hOuR", Unit::Hour, 3_600),
    ] {
        let limit = only_limit(&with_rate_limit(&format!("unit: {text}, requests_per_unit: 7")));
        let Allowance::Limited { unit: found, quota, limit } = limit.allowance else {
            panic!("{text} is limited")
        };
        let window = Micros::from_secs(seconds);
        assert_eq!((found, quota.window, limit.window()), (unit, window, window), "{text}");
        assert_eq!((quota.limit, limit.capacity()), (7, 7), "{text}");
    }
}

#[test]
fn what_a_limit_allows() {
    let fixed = |limit| Some((Algorithm::FixedWindow, limit));
    for (fields, expected) in [
        ("unit: day", fixed(0)),
        ("unit: day, requests_per_unit: 0", fixed(0)),
        ("unit: day, requests_per_unit: 4294967295", fixed(4_294_967_295)),
        ("unit: day, requests_per_unit: 1e3", fixed(1_000)),
        ("unit: day, requests_per_unit: 0x10", fixed(16)),
        ("unit: day, requests_per_unit: 1_000", fixed(1_000)),
        ("unit: day, requests_per_unit: 010", fixed(8)),
        ("unit: day, requests_per_unit: 0b11", fixed(3)),
        ("unit: day, requests_per_unit: 5, requests_per_unit: 6", fixed(6)),
        ("unit: day, requests_per_unit: 5, unlimited: false", fixed(5)),
        ("unit: day, requests_per_unit: 5, unlimited: no", fixed(5)),
        ("unit: day, requests_per_unit: 5, unlimited: null", fixed(5)),
        ("unit: day, requests_per_unit: 5, algorithm: fixed_window", fixed(5)),
        ("unit: day, requests_per_unit: 5, algorithm: gcra", Some((Algorithm::Gcra, 5))),
        (
            "unit: day, requests_per_unit: 5, algorithm: sliding_window_log",
            Some((Algorithm::SlidingWindowLog, 5)),
        ),
        ("unlimited: true", None),
        ("unlimited: yes", None),
        ("unlimited: true, requests_per_unit: 5", None),
        ("unlimited: true, unit: forever", None),
        ("unlimited: true, unit: ''", None),
    ] {
        let found = match only_limit(&with_rate_limit(fields)).allowance {
            Allowance::Unlimited => None,
            Allowance::Limited { quota: Quota { algorithm, limit, .. }, .. } => {
                Some((algorithm, limit))
            }
        };
        assert_eq!(found, expected, "{fields}");
    }
}

#[test]
fn what_else_is_known_of_a_limit() {
    let limit = only_limit(
        "domain: d
descriptors:
  - key: outer
    value: 'x*'
    share_threshold: true
    metadata: {anything: [goes, {unit: 5, 7: 8}], unit: [], no: null}
    descriptors:
      - key: inner
        rate_limit: {unit: day, name: 5, replaces: [{name: six}, {name: 7}]}
        shadow_mode: on
        quota_mode: false
        detailed_metric: true
        value_to_metric: true
        metadata: text
",
    );
    assert_eq!((&*limit.id, &*limit.domain), ("d.outer_x-.inner-ac43bd97b8bc6ace", "d"));
    assert_eq!(limit.name.as_deref(), Some("5"));
    assert_eq!(limit.replaces.iter().map(|name| &**name).collect::<Vec<_>>(), ["six", "7"]);
    assert!(limit.shadow && limit.detailed_metric);
    let path = limit.path.iter().map(|step| {
        (&*step.key, step.value.as_deref(), step.share_threshold, step.value_to_metric)
    });
    let expected = [("outer", Some("x*"), true, false), ("inner", None, false, true)];
    assert_eq!(path.collect::<Vec<_>>(), expected);

    let plain = only_limit(&with_rate_limit("unit: day"));
    assert!(!plain.shadow && !plain.detailed_metric && plain.name.is_none());
    assert!(plain.replaces.is_empty() && !plain.path[0].value_to_metric);
}

/// A value is the text in the file, whatever YAML makes of it.
#[test]
fn a_value_needs_no_quotes() {
    for (written, value) in [
        ("5", "5"),
        ("05", "05"),
        ("+5", "+5"),
        ("-5.50", "-5.50"),
        ("1e3", "1e3"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        (".inf", ".inf"),
        ("true", "true"),
        ("True", "True"),
        ("FALSE", "FALSE"),
        ("yes", "yes"),
        ("1_000", "1_000"),
        ("'5'", "5"),
        ("\"0x1F\"", "0x1F"),
        ("10.0.0.1", "10.0.0.1"),
        ("2024-01-01", "2024-01-01"),
        ("é", "é"),
    ] {
        let limit = "rate_limit: {unit: day}";
        for file in [
            format!("domain: d\ndescriptors:\n  - key: k\n    value: {written}\n    {limit}\n"),
            format!("domain: d\ndescriptors: [{{key: k, value: {written}, {limit}}}]"),
            format!("{{domain: d, descriptors: [{{{limit}, key: k, value: {written}}}]}}"),
            format!(
                "\u{feff}domain: d\r\ndescriptors:\r\n- value: {written} # é\r\n  key: k\r\n  {limit}"
            ),
            format!("domain: d\ndescriptors: [{{metadata: é, key: k, value: {written}, {limit}}}]"),
        ] {
            let config = config(&file);
            let request = format!("k={value}");
            assert_eq!(in_words(&config, "d", &request), "0", "{request} by {file}");
            let found = config.limits()[0].path[0].value.as_deref();
            assert_eq!(found, Some(value), "{file}");
        }
    }
    assert_eq!(entries("k="), [("k", "")], "an empty value is a value");
}

#[test]
fn an_empty_value_is_none() {
    for value in ["''", "null", "~", ""] {
        let limit = only_limit(&format!(
            "domain: d\ndescriptors:\n  - key: k\n    value: {value}\n    rate_limit: {{unit: day}}\n"
        ));
        assert_eq!(limit.path[0].value, None, "{value}");
    }
}

#[test]
fn keys_and_domains_need_no_quotes_either() {
    let limit = only_limit("{domain: 0x1, descriptors: [{key: 7, rate_limit: {unit: day}}]}");
    assert_eq!((&*limit.domain, &*limit.path[0].key), ("0x1", "7"));
}

/// Ids in the order of the files, one per limit.
fn ids(files: &[(&str, &str)]) -> Vec<String> {
    let config = EnvoyConfig::parse(files).expect("valid files");
    config.limits().iter().map(|limit| limit.id.to_string()).collect()
}

/// These ids are in metrics and dashboards of others: they must not change.
#[test]
fn an_id_is_made_of_the_path() {
    let long = "x".repeat(200);
    for (domain, key, value, expected) in [
        ("shop", "tenant", "", "shop.tenant"),
        ("shop", "tenant", "acme", "shop.tenant_acme"),
        ("shop-2", "remote_address", "", "shop-2.remote_address"),
        ("Shop", "tenant", "", "shop.tenant-a3fd21b936a127ef"),
        ("shop", "path", "/api/*", "shop.path_-api---02c094bec67dba99"),
        ("shop.eu", "tenant", "", "shop.eu.tenant-7fa03ff516fd13e5"),
        ("é", "ü", "", "-.--94305edb6efd586e"),
        (
            "shop",
            &long,
            "",
            "shop.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-f6c2a6d05f86a5c7",
        ),
    ] {
        let text = |text: &str| serde_json::to_string(text).expect("a text");
        let file = format!(
            "{{domain: {}, descriptors: [{{key: {}, value: {}, rate_limit: {{unit: day}}}}]}}",
            text(domain),
            text(key),
            text(value),
        );
        assert_eq!(*only_limit(&file).id, *expected, "{file}");
    }
}

#[test]
fn no_two_limits_have_one_id() {
    let tree = "
descriptors:
  - {key: a, rate_limit: {unit: day}}
  - {key: A, rate_limit: {unit: day}}
  - {key: a., rate_limit: {unit: day}}
  - {key: 'a-', rate_limit: {unit: day}}
  - {key: 'a*', rate_limit: {unit: day}}
  - {key: 'a/', rate_limit: {unit: day}}
  - {key: a.b, rate_limit: {unit: day}}
  - {key: a, value: b, rate_limit: {unit: day}}
  - {key: b, descriptors: [{key: b, rate_limit: {unit: day}}]}
  - {key: b.b, rate_limit: {unit: day}}
  - {key: B, descriptors: [{key: B, rate_limit: {unit: day}}]}
";
    let files =
        ["d", "D", "d.a", "d.b", "é", "ü", "%"].map(|domain| format!("domain: '{domain}'{tree}"));
    let files = files.iter().map(|file| ("a.yaml", file.as_str())).collect::<Vec<_>>();
    let mut ids = ids(&files);
    assert_eq!(ids.len(), 77);
    let accepted = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
    assert!(ids.iter().all(|id| (1..=100).contains(&id.len()) && id.bytes().all(accepted)));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 77, "{ids:#?}");
}

#[test]
fn several_files_are_several_domains() {
    let file = |domain: &str, limit: u32| {
        let limit = format!("{{unit: day, requests_per_unit: {limit}}}");
        format!("{{domain: {domain}, descriptors: [{{key: k, rate_limit: {limit}}}]}}")
    };
    let (one, two) = (file("one", 1), file("two", 2));
    let config = EnvoyConfig::parse(&[("1.yaml", &one), ("2.yaml", &two)]).expect("valid files");
    let mut domains = config.domains().collect::<Vec<_>>();
    domains.sort_unstable();
    assert_eq!(domains, ["one", "two"]);
    assert_eq!(in_words(&config, "one", "k=x"), "1");
    assert_eq!(in_words(&config, "two", "k=x"), "2");
    assert_eq!(in_words(&config, "three", "k=x"), "no domain");
    assert_eq!(EnvoyConfig::parse(&[]).expect("no file is no mistake").limits().len(), 0);
}

/// Anchors are often used with merge keys, which yaml.v2 knows; they used to be refused.
#[test]
fn yaml_is_read_as_by_yaml_v2() {
    let file = "
domain: d
domain: shop
descriptors:
  - &base
    key: a
    rate_limit: &limit {unit: day, requests_per_unit: 1_0}
    shadow_mode: true
  - <<: *base
    key: b
  - key: c
    rate_limit:
      requests_per_unit: 2
      <<: [*limit, {unit: hour, name: n}]
---
domain: [not read
";
    let config = config(file);
    let of = |limit: &FileLimit| {
        let Allowance::Limited { unit, quota, .. } = &limit.allowance else { panic!("unlimited") };
        (limit.id.to_string(), *unit, quota.limit, limit.shadow, limit.name.is_some())
    };
    let expected =
        [("shop.a", 10, true, false), ("shop.b", 10, true, false), ("shop.c", 2, false, true)];
    let expected =
        expected.map(|(id, limit, shadow, named)| (id.to_owned(), Unit::Day, limit, shadow, named));
    assert_eq!(config.limits().iter().map(of).collect::<Vec<_>>(), expected);
}

#[test]
fn a_merge_key_needs_a_map() {
    let file = "domain: d\ndescriptors:\n  - {<<: 5, key: a}\n";
    let problems = EnvoyConfig::parse(&[("f", file)]).expect_err("nothing to merge");
    let told = problems[0].to_string();
    assert!(told.contains("line 3, column 10") && told.contains("this cannot be merged"), "{told}");
}

#[test]
fn domains_of_several_files_can_be_merged() {
    let file = |key: &str| with_rate_limit("unit: day").replace("key: k", &format!("key: {key}"));
    let (one, two) = (file("k"), file("l"));
    let merged = |files: &[(&str, &str)]| EnvoyConfig::parse_domains(files, RepeatedDomain::Merged);
    let config = merged(&[("1", &one), ("2", &two)]).expect("valid files");
    assert_eq!((config.limits().len(), config.domains().count()), (2, 1));
    let problems = merged(&[("1", &one), ("2", &one)]).expect_err("a name twice");
    let told = problems[0].to_string();
    assert!(
        told.contains("2: line 3") && told.contains("in another file of this domain"),
        "{told}"
    );
}

#[test]
fn quotas_and_metadata_are_kept() {
    let file = "{domain: d, descriptors: [{key: k, quota_mode: true, metadata: {a: b}, rate_limit: {unit: day}}]}";
    let limit = only_limit(file);
    assert!(limit.quota && limit.metadata.is_some_and(|metadata| metadata.get("a").is_some()));
}
