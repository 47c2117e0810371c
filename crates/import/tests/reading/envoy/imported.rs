//! Files and the rules that are made of them, side by side.

use tollgate_import::envoy::{EnvoyConfig, EnvoyImport};
use tollgate_rules::document::{Action, RuleDocument};
use tollgate_rules::{Policy, Source};

use crate::envoy::request::config;

/// An id without its fingerprint.
fn short(id: &str) -> &str {
    let is_fingerprint =
        |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    id.rsplit_once('-').filter(|(_, last)| is_fingerprint(last)).map_or(id, |(start, _)| start)
}

/// A rule in one line: `id limit/window by identifiers where attributes, ...`.
fn shown(rule: &RuleDocument) -> String {
    let window = rule.window.as_deref().unwrap_or_default();
    let by = rule.identifier_type.join("+").replace("attribute:", "");
    let mut line = format!("{} {}/{window} by {by}", short(&rule.rule_id), rule.limit);
    for (name, globs) in rule.applies_to.attributes.iter().filter(|(name, _)| *name != "domain") {
        line += &format!(" where {name} {}", globs.join(" "));
    }
    if rule.key_pattern != "*" {
        line += &format!(" with {}", rule.key_pattern);
    }
    if !rule.replaces.is_empty() {
        let replaces = rule.replaces.iter().map(|id| short(id)).collect::<Vec<_>>();
        line += &format!(" replaces {}", replaces.join(" "));
    }
    if rule.algorithm.0.name() != "fixed_window" {
        line += &format!(" as {}", rule.algorithm.0.name());
    }
    line + if rule.action == Action::LogOnly { " watching" } else { "" }
}

/// Checks rules and notes. The two notes about every rule are left out.
#[track_caller]
fn check(descriptors: &str, rules: &[&str], notes: &[&str]) {
    let config = config(&format!("domain: d\ndescriptors:\n{descriptors}"));
    let EnvoyImport { document, notes: noted } = config.to_document();
    let shown = document.rules.iter().map(shown).collect::<Vec<_>>();
    assert_eq!(shown, rules, "{descriptors}");
    let noted = noted.iter().filter(|note| note.limit.is_some()).map(|note| {
        let limit = note.limit.as_deref().unwrap_or_default();
        format!("{limit} {}", note.loss.code())
    });
    assert_eq!(noted.collect::<Vec<_>>(), notes, "{descriptors}");
    Policy::compile(&Source::from_document(document)).expect("a valid policy");
}

#[test]
fn what_a_limit_says_a_rule_says() {
    check(
        "  - {key: a, rate_limit: {unit: second, requests_per_unit: 5}}",
        &["d.a 5/1s by a"],
        &[],
    );
    for (unit, window) in [
        ("minute", "1m"),
        ("hour", "1h"),
        ("DAY", "1d"),
        ("week", "7d"),
        ("month", "30d"),
        ("year", "365d"),
    ] {
        let rule = format!("d.a 0/{window} by a");
        check(&format!("  - {{key: a, rate_limit: {{unit: {unit}}}}}"), &[&rule], &[]);
    }
    check(
        "  - {key: a, value: x, shadow_mode: true, rate_limit: {unit: day, algorithm: gcra, requests_per_unit: 7}}",
        &["d.a_x 7/1d by global where a x as gcra watching"],
        &[],
    );
}

#[test]
fn counters_are_kept_by_keys_without_a_value() {
    let limit = "rate_limit: {unit: day}";
    for (steps, rule) in [
        (&["a"][..], "d.a 0/1d by a"),
        (&["a, value: x"], "d.a_x 0/1d by global where a x"),
        (&["a, value: x", "b"], "d.a_x.b 0/1d by b where a x"),
        (&["a", "b, value: x"], "d.a.b_x 0/1d by a where b x"),
        (&["b", "a", "c"], "d.b.a.c 0/1d by b+a+c"),
        (&["a, value: '*'"], "d.a_- 0/1d by a"),
        (&["a, value: 'x*'"], "d.a_x- 0/1d by a where a x*"),
        (&["a, value: '*x*y'"], "d.a_-x-y 0/1d by a where a *x*y"),
        // One counter for all values, which are not part of the key then.
        (&["a, value: 'x*', share_threshold: true"], "d.a_x- 0/1d by global where a x*"),
        (&["a, value: '*', share_threshold: true"], "d.a_- 0/1d by global where a *"),
        (&["a, value: 'x*', share_threshold: true", "b"], "d.a_x-.b 0/1d by b where a x*"),
        // Names that conditions know as something else, and characters that globs do.
        (&["tenant, value: x"], "d.tenant_x 0/1d by global where attribute:tenant x"),
        (&["path, value: /x"], "d.path_-x 0/1d by global where attribute:path /x"),
        (&["':path', value: /x"], "d.-path_-x 0/1d by global where attribute::path /x"),
        (&["a, value: 'x?[y]\\'"], "d.a_x--y-- 0/1d by global where a x\\?\\[y]\\\\"),
    ] {
        let open = steps.iter().fold("domain: d\ndescriptors: [".to_owned(), |file, step| {
            format!("{file}{{key: {step}, descriptors: [")
        });
        let (file, _) = open.rsplit_once(", descriptors: [").expect("a step");
        let file = format!("{file}, {limit}{}", "}]".repeat(steps.len()));
        let EnvoyImport { document, .. } = config(&file).to_document();
        let [found] = &*document.rules else { panic!("one rule of {file}") };
        assert_eq!(shown(found), rule, "{file}");
    }
}

#[test]
fn what_comes_first_replaces_the_rest() {
    check(
        "
  - {key: a, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a, value: x, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: a, value: y, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 4}}",
        &[
            "d.a 1/1d by a",
            "d.a_x 2/1d by global where a x replaces d.a",
            "d.a_y 3/1d by global where a y replaces d.a",
            "d.b 4/1d by b",
        ],
        &[],
    );
    // Further down, and beyond: what has more keys comes first.
    check(
        "
  - key: a
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors:
      - {key: b, rate_limit: {unit: day, requests_per_unit: 2}}
      - {key: b, value: x, rate_limit: {unit: day, requests_per_unit: 3}}",
        &[
            "d.a 1/1d by a",
            "d.a.b 2/1d by a+b replaces d.a",
            "d.a.b_x 3/1d by a where b x replaces d.a d.a.b",
        ],
        &[],
    );
    // With b, the value x meets no limit in the file. The key alone is not noted for that: where it
    // would apply to x, the rule of x replaces it.
    check(
        "
  - key: a
    rate_limit: {unit: day, requests_per_unit: 1}
    descriptors:
      - {key: b, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: a, value: x, rate_limit: {unit: day, requests_per_unit: 3}}",
        &[
            "d.a 1/1d by a",
            "d.a.b 2/1d by a+b where a [!x]* x?* replaces d.a",
            "d.a_x 3/1d by global where a x replaces d.a",
        ],
        &["d.a_x deeper"],
    );
    check(
        "
  - {key: a, descriptors: [{key: b, rate_limit: {unit: day}}]}
  - {key: b, rate_limit: {unit: day}}",
        &["d.a.b 0/1d by a+b replaces d.b", "d.b 0/1d by b"],
        &[],
    );
}

#[test]
fn wildcards_come_first_in_the_order_of_the_file() {
    check(
        "
  - {key: a, value: '*z', rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a, value: 'x*', rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: a, value: 'y*', rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: a, value: xz, rate_limit: {unit: day, requests_per_unit: 4}}",
        &[
            "d.a_-z 1/1d by a where a *z replaces d.a_x- d.a_y-",
            "d.a_x- 2/1d by a where a x*",
            "d.a_y- 3/1d by a where a y*",
            "d.a_xz 4/1d by global where a xz replaces d.a_-z d.a_x-",
        ],
        &[],
    );
}

#[test]
fn values_that_meet_no_limit_are_excluded() {
    // Without a limit, or without one that a rule could be made of.
    check(
        "
  - {key: a, rate_limit: {unit: day}}
  - {key: a, value: x}
  - {key: a, value: y, rate_limit: {unlimited: true}}
  - {key: a, value: 'z*'}",
        &["d.a 0/1d by a where a [!xyz]* x?* y?*"],
        &["d.a_y unlimited"],
    );
    // On the way down.
    check(
        "
  - key: a
    descriptors: [{key: b, rate_limit: {unit: day}}]
  - key: a
    value: x
    descriptors: [{key: c, rate_limit: {unit: day}}]
  - key: a
    value: y
    descriptors: [{key: b, rate_limit: {unit: day}}]",
        &[
            "d.a.b 0/1d by a+b where a [!x]* x?*",
            "d.a_x.c 0/1d by c where a x",
            "d.a_y.b 0/1d by b where a y replaces d.a.b",
        ],
        &[],
    );
    // From a wildcard: by the globs of its own prefix, or together with a pattern for the key.
    check(
        "
  - {key: a, value: xy}
  - {key: a, value: 'x*', rate_limit: {unit: day}}",
        &["d.a_x- 0/1d by a where a x x[!y]* xy?*"],
        &[],
    );
    check(
        "
  - key: b
    descriptors:
      - {key: a, value: y}
      - {key: a, value: '*y', rate_limit: {unit: day}}",
        &["d.b.a_-y 0/1d by a+b where a [!y]* y?* with *y"],
        &[],
    );
}

#[test]
fn what_cannot_be_said_is_noted() {
    let limit = "rate_limit: {unit: day}";
    let long = "x".repeat(257);
    let deep = (0..9).rev().fold(limit.to_owned(), |below, level| match level {
        0 => format!("  - {{key: k0, {below}}}"),
        _ => format!("descriptors: [{{key: k{level}, {below}}}]"),
    });
    for (descriptors, rules, notes) in [
        // No rule at all.
        ("  - {key: a, rate_limit: {unlimited: true}}".to_owned(), 0, &["d.a unlimited"][..]),
        (format!("  - {{key: 'a*', {limit}}}"), 0, &["key_wildcard"]),
        (format!("  - {{key: a, descriptors: [{{key: a, {limit}}}]}}"), 0, &["repeated_key"]),
        (format!("  - {{key: domain, {limit}}}"), 0, &["domain_key"]),
        (format!("  - {{key: {long}, {limit}}}"), 0, &["unwritable"]),
        (format!("  - {{key: a, value: {long}, {limit}}}"), 0, &["unwritable"]),
        (format!("  - {{key: \"a\\x07\", {limit}}}"), 0, &["unwritable"]),
        (deep, 0, &["many_keys"]),
        (
            format!("  - {{key: a, value: 'x*', {limit}}}\n  - {{key: a, value: 'xy*', {limit}}}"),
            1,
            &["never_met"],
        ),
        (
            format!("  - {{key: a, value: '*', {limit}}}\n  - {{key: a, {limit}}}"),
            1,
            &["never_met"],
        ),
        // A rule that applies elsewhere too.
        (format!("  - {{key: a, {limit}}}\n  - {{key: a, value: '*x'}}"), 1, &["exception"]),
        (format!("  - {{key: a, {limit}}}\n  - {{key: a, value: {long}}}"), 1, &["exception"]),
        (
            format!("  - {{key: a, {limit}, descriptors: [{{key: b, value: x, {limit}}}]}}"),
            2,
            &["deeper"],
        ),
        (format!("  - {{key: a, {limit}, descriptors: [{{key: b}}]}}"), 1, &["deeper"]),
        (
            format!(
                "  - {{key: a, descriptors: [{{key: b, {limit}}}]}}\n  - {{key: b, descriptors: [{{key: a, {limit}}}]}}"
            ),
            2,
            &["order", "order"],
        ),
        (
            format!("  - {{key: a, {limit}}}\n  - {{key: a_b, value: c, {limit}}}"),
            2,
            &["joined_names", "joined_names"],
        ),
        // Below two nodes of one key: a descriptor of b=a and a=x meets the limit of a_x.
        (
            format!(
                "  - {{key: b, value: a, descriptors: [{{key: a_x, {limit}}}]}}\n  - {{key: b, descriptors: [{{key: a}}]}}"
            ),
            1,
            &["joined_names"],
        ),
        // What is not about matching.
        (format!("  - {{key: a, detailed_metric: true, {limit}}}"), 1, &["metrics"]),
        (
            format!("  - {{key: a, value_to_metric: true, descriptors: [{{key: b, {limit}}}]}}"),
            1,
            &["metrics"],
        ),
        (format!("  - {{key: a, metadata: {{x: y}}, {limit}}}"), 1, &["metadata"]),
        (format!("  - {{key: a, metadata: null, {limit}}}"), 1, &[]),
    ] {
        let config = config(&format!("domain: d\ndescriptors:\n{descriptors}"));
        let EnvoyImport { document, notes: noted } = config.to_document();
        let noted = noted.iter().filter(|note| note.limit.is_some());
        let noted = noted.map(|note| note.loss.code()).collect::<Vec<_>>();
        let expected = notes.iter().map(|note| note.rsplit(' ').next().unwrap_or_default());
        assert_eq!(noted, expected.collect::<Vec<_>>(), "{descriptors}");
        assert_eq!(document.rules.len(), rules, "{descriptors}");
        Policy::compile(&Source::from_document(document)).expect("a valid policy");
    }
}

#[test]
fn names_become_ids_where_limits_replace_each_other() {
    check(
        "
  - {key: a, rate_limit: {unit: day, name: one}}
  - {key: b, rate_limit: {unit: day, name: two, replaces: [{name: one}, {name: missing}]}}
  - {key: c, rate_limit: {unlimited: true, replaces: [{name: one}]}}
  - {key: e, rate_limit: {unit: day, name: one}}
  - {key: f, rate_limit: {unit: day, name: x, replaces: [{name: y}]}}
  - {key: g, rate_limit: {unit: day, name: y, replaces: [{name: x}]}}
  - {key: a, value: z, rate_limit: {unit: day, name: three}}
  - {key: h, rate_limit: {unit: day, replaces: [{name: three}]}}",
        &[
            "d.a 0/1d by a",
            "d.b 0/1d by b replaces d.a d.e",
            "d.e 0/1d by e",
            // Both ways would be a circle, which no policy may have.
            "d.f 0/1d by f replaces d.g",
            "d.g 0/1d by g",
            "d.a_z 0/1d by global where a z replaces d.a",
            "d.h 0/1d by h replaces d.a_z",
        ],
        &[
            "d.b replaces",
            "d.c unlimited",
            "d.c replaces",
            "d.f replaces",
            "d.g replaces",
            "d.h replaces",
        ],
    );
    let config = config("{domain: d, descriptors: [{key: a, rate_limit: {unit: day, name: n}}]}");
    assert_eq!(config.to_document().document.rules[0].name.as_deref(), Some("n"));
}

#[test]
fn domains_do_not_see_each_other() {
    let file = |domain: &str| {
        format!("{{domain: '{domain}', descriptors: [{{key: a, rate_limit: {{unit: day}}}}]}}")
    };
    let files = ["two", "one*", "three"].map(file);
    let files = files.iter().map(|file| ("f.yaml", file.as_str())).collect::<Vec<_>>();
    let config = EnvoyConfig::parse(&files).expect("valid files");
    let EnvoyImport { document, notes } = config.to_document();
    let domains = document.rules.iter().map(|rule| {
        assert!(rule.replaces.is_empty(), "{}", rule.rule_id);
        rule.applies_to.attributes["domain"].join(" ")
    });
    // A star is a star in a domain, not a wildcard.
    assert_eq!(domains.collect::<Vec<_>>(), ["two", "one\\*", "three"]);
    assert_eq!(notes.len(), 2, "only what is so of every rule: {notes:?}");
}

#[test]
fn files_without_limits_are_an_empty_policy() {
    for file in ["domain: d", "{domain: d, descriptors: [{key: a}]}"] {
        let EnvoyImport { document, notes } = config(file).to_document();
        assert!(document.rules.is_empty() && notes.is_empty(), "{file}");
    }
}

#[test]
fn a_note_is_a_sentence() {
    let config = config(
        "{domain: d, descriptors: [{key: a, rate_limit: {unlimited: true}}, {key: b, rate_limit: {unit: day}}]}",
    );
    let notes = config.to_document().notes;
    let told = notes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(told[2], "d.a: it is unlimited, so no rule is made of it");
    assert!(told[0].starts_with("every rule: it applies wherever its keys are among"), "{told:?}");
    assert!(told[1].starts_with("every rule: an entry with an empty value counts"), "{told:?}");
}
