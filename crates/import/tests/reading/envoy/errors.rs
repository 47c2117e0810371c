//! Every mistake in a file is reported: where it stands, and what is right.

use tollgate_import::FileProblem;
use tollgate_import::envoy::EnvoyConfig;

fn describe(FileProblem { file, problem }: &FileProblem) -> String {
    let place = problem.position.map(|place| format!("{}:{}", place.line, place.column));
    let advice = problem.advice.as_deref().unwrap_or_default();
    let place = place.unwrap_or_default();
    format!("{file} {} @ {place} {}; {advice}", problem.path, problem.message)
}

/// Checks that the files have just these problems, each reported as
/// `file path @ line:column message; advice`, of which a beginning is given.
#[track_caller]
fn check_files(files: &[(&str, &str)], expected: &[&str]) {
    let problems = EnvoyConfig::parse(files).expect_err("there is a mistake");
    let told = problems.iter().map(describe).collect::<Vec<_>>();
    let same = told.len() == expected.len()
        && told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected));
    assert!(same, "{files:#?}\nexpected {expected:#?}\ntold {told:#?}");
}

#[track_caller]
fn check(file: &str, expected: &str) {
    check_files(&[("f", file)], &[&format!("f {expected}")]);
}

/// Checks one line of a descriptor, the fourth of the file.
#[track_caller]
fn check_field(line: &str, expected: &str) {
    check(
        &format!("domain: d\ndescriptors:\n  - key: k\n    {line}\n"),
        &format!("descriptors[0]{expected}"),
    );
}

/// Checks the fields of a limit, in the fourth line of the file from column 18 on.
#[track_caller]
fn check_limit(fields: &str, expected: &str) {
    check_field(&format!("rate_limit: {{{fields}}}"), &format!(".rate_limit{expected}"));
}

#[test]
fn the_file_as_a_whole() {
    for (file, expected) in [
        ("", " @ 1:1 the file is empty; write the domain and its descriptors"),
        ("# nothing", " @ 1:1 the file is empty"),
        ("text", " @ 1:1 expected a map, found \"text\"; the fields are domain, descriptors"),
        ("- domain: d", " @ 1:1 expected a map, found a list"),
        ("domain: [", " @ 1:10 this is not YAML"),
        ("descriptors: []", "domain @ 1:1 this required field is missing; add domain: the domain"),
        ("domain: ''", "domain @ 1:9 the domain is empty; write a text"),
        ("domain:", "domain @ 1:7 expected text, found nothing"),
        ("domain: [d]", "domain @ 1:9 expected text, found a list; write a single text"),
        ("domain: d\nDescriptors: []", "Descriptors @ 2:1 there is no such field; did you mean d"),
        ("domain: d\n5: x", "5 @ 2:1 there is no such field; the fields are domain, descriptors"),
        ("domain: d\nunit: x", "unit @ 2:1 there is no such field"),
        ("domain: d\n[a]: x", " @ 2:1 a key must be a text"),
        ("domain: d\ndescriptors: x", "descriptors @ 2:14 expected a list, found \"x\"; write"),
        ("domain: d\ndescriptors: {key: k}", "descriptors @ 2:14 expected a list, found a map"),
        ("domain: d\ndescriptors: [k]", "descriptors[0] @ 2:15 expected a map, found \"k\"; the"),
        ("domain: d\ndescriptors: [5]", "descriptors[0] @ 2:15 expected a map, found 5"),
        ("domain: d\ndescriptors: [[]]", "descriptors[0] @ 2:15 expected a map, found a list"),
        ("domain: d\ndescriptors: [null]", "descriptors[0] @ 2:15 expected a map, found nothing"),
    ] {
        check(file, expected);
    }
}

#[test]
fn the_key_of_a_descriptor() {
    for (descriptor, expected) in [
        ("{}", " @ 2:15 this required field is missing; add key: the key of an entry that Envoy"),
        ("{value: v}", " @ 2:15 this required field is missing"),
        ("{key: ''}", " @ 2:21 the key is empty; write a text"),
        ("{key: }", " @ 2:19 expected text, found nothing"),
        ("{key: []}", " @ 2:21 expected text, found a list"),
        ("{key: {a: b}}", " @ 2:21 expected text, found a map"),
    ] {
        let file = format!("domain: d\ndescriptors: [{descriptor}]");
        check(&file, &format!("descriptors[0].key{expected}"));
    }
}

#[test]
fn the_fields_of_a_descriptor() {
    for (line, expected) in [
        ("vaule: x", ".vaule @ 4:5 there is no such field; did you mean value?"),
        ("unit: day", ".unit @ 4:5 there is no such field; the fields are key, value, rate_limit"),
        ("requests_per_unit: 5", ".requests_per_unit @ 4:5 there is no such field"),
        ("'': x", "[\"\"] @ 4:5 there is no such field"),
        ("value: [x]", ".value @ 4:12 expected text, found a list"),
        ("rate_limit: 5", ".rate_limit @ 4:17 expected a map, found 5; the fields are unit, req"),
        ("rate_limit: []", ".rate_limit @ 4:17 expected a map, found a list"),
        ("descriptors: {}", ".descriptors @ 4:18 expected a list, found a map; write each"),
        ("descriptors: [{value: x}]", ".descriptors[0].key @ 4:19 this required field is miss"),
        ("shadow_mode: maybe", ".shadow_mode @ 4:18 expected true or false, found \"maybe\""),
        ("shadow_mode: 1", ".shadow_mode @ 4:18 expected true or false, found 1"),
        ("detailed_metric: 1", ".detailed_metric @ 4:22 expected true or false, found 1"),
        ("value_to_metric: 1", ".value_to_metric @ 4:22 expected true or false, found 1"),
        ("share_threshold: 1", ".share_threshold @ 4:22 expected true or false, found 1"),
        ("quota_mode: 1", ".quota_mode @ 4:17 expected true or false, found 1"),
        ("share_threshold: true", ".share_threshold @ 4:22 there is no wildcard whose matches"),
        (
            "value: x\n    share_threshold: true",
            ".share_threshold @ 5:22 there is no wildcard whose matches could share a counter; put",
        ),
    ] {
        check_field(line, expected);
    }
}

#[test]
fn the_fields_of_a_limit() {
    for (fields, expected) in [
        ("", ".unit @ 4:17 this required field is missing; add unit: second, minute, hour"),
        ("unit: ", ".unit @ 4:22 expected one of second, minute, hour, day, week, month, year"),
        ("unit: ''", ".unit @ 4:24 expected one of second, minute, hour, day, week, month, year"),
        ("unit: minutes", ".unit @ 4:24 expected one of second, minute, hour, day, week, month"),
        ("unit: unknown", ".unit @ 4:24 expected one of second, minute"),
        ("unit: 60", ".unit @ 4:24 expected one of second, minute, hour, day, week, month, year,"),
        ("unit: [day]", ".unit @ 4:24 expected one of"),
        ("unit: day, limit: 5", ".limit @ 4:29 there is no such field; the fields are unit, req"),
        (
            "unit: day, request_per_unit: 5",
            ".request_per_unit @ 4:29 there is no such field; did you mean requests_per_unit?",
        ),
        ("unit: day, shadow_mode: true", ".shadow_mode @ 4:29 there is no such field"),
        ("unit: day, requests_per_unit: -1", ".requests_per_unit @ 4:48 -1 is out of range; wr"),
        ("unit: day, requests_per_unit: 4294967296", ".requests_per_unit @ 4:48 4294967296 is out"),
        ("unit: day, requests_per_unit: 1.5", ".requests_per_unit @ 4:48 expected a whole numb"),
        ("unit: day, requests_per_unit: '5'", ".requests_per_unit @ 4:48 expected a whole numb"),
        ("unlimited: true, unit: day", ".unit @ 4:41 what is unlimited has no unit; leave out"),
        ("unit: Day, unlimited: true", ".unit @ 4:24 what is unlimited has no unit"),
        ("unlimited: 1, unit: day", ".unlimited @ 4:29 expected true or false, found 1"),
        ("unit: day, name: [x]", ".name @ 4:35 expected text, found a list"),
        ("unit: day, replaces: x", ".replaces @ 4:39 expected a list, found \"x\""),
        ("unit: day, replaces: [x]", ".replaces[0] @ 4:40 expected a map, found \"x\"; the field"),
        ("unit: day, replaces: [{}]", ".replaces[0].name @ 4:40 this required field is missing"),
        ("unit: day, replaces: [{name: ''}]", ".replaces[0].name @ 4:47 the name is empty; wri"),
        (
            "unit: day, replaces: [{name: x}, {name: y, nmae: y}]",
            ".replaces[1].nmae @ 4:61 there is no such field; did you mean name?",
        ),
        (
            "unit: day, name: x, replaces: [{name: y}, {name: x}]",
            ".replaces @ 4:67 a limit cannot replace itself; name another limit, or leave it out",
        ),
        ("unit: day, algorithm: gcr", ".algorithm @ 4:40 expected one of fixed_window, sliding_"),
        (
            "unit: day, algorithm: sliding_window_log, requests_per_unit: 10001",
            ".algorithm @ 4:40 sliding_window_log remembers every admission, at most 10000; use",
        ),
    ] {
        check_limit(fields, expected);
    }
}

#[test]
fn a_name_is_on_a_level_twice() {
    for (second, name) in [
        ("{key: a, value: b_c}", "a_b_c"),
        ("{key: a_b, value: c}", "a_b_c"),
        ("{key: a_b_c}", "a_b_c"),
        ("{value: '*', key: w}", "w_*"),
        ("{key: 'w_*'}", "w_*"),
        ("{key: alone}", "alone"),
        ("{key: alone, value: ''}", "alone"),
    ] {
        let first = match name {
            "a_b_c" => 3,
            "w_*" => 4,
            _ => 5,
        };
        let siblings = "{key: a_b, value: c}\n  - {key: w, value: '*'}\n  - {key: alone}";
        check(
            &format!("domain: d\ndescriptors:\n  - {siblings}\n  - {second}\n"),
            &format!(
                "descriptors[3] @ 6:5 \"{name}\" is on this level already, at line {first}, \
                 column 5; join the two"
            ),
        );
    }
    // On another level it is another name.
    let nested = "{domain: d, descriptors: [{key: a, descriptors: [{key: a}]}, {key: b}]}";
    assert!(EnvoyConfig::parse(&[("f", nested)]).is_ok());
}

#[test]
fn a_domain_is_in_two_files() {
    check_files(
        &[
            ("a.yaml", "\ndomain: d"),
            ("b.yaml", "domain: e"),
            ("c.yaml", "descriptors: []\ndomain: d"),
        ],
        &[
            "c.yaml domain @ 2:9 the domain \"d\" is in a.yaml already, at line 2, column 9; put all",
        ],
    );
}

#[test]
fn all_mistakes_of_all_files_are_reported() {
    check_files(
        &[
            (
                "a.yaml",
                "domain: ''
descriptors:
  - key: ''
    rate_limit: {unit: eon, requests_per_unit: many}
    descriptors:
      - {key: x, quota_mode: true}
      - {key: x, share_threshold: true}
  - {key: y, rate_limit: {unlimited: true, unit: day, name: n, replaces: [{name: n}]}}
",
            ),
            ("b.yaml", "domain: d"),
            ("c.yaml", "{"),
            ("d.yaml", "domain: d"),
        ],
        &[
            "a.yaml domain @ 1:9",
            "a.yaml descriptors[0].key @ 3:10",
            "a.yaml descriptors[0].rate_limit.unit @ 4:24",
            "a.yaml descriptors[0].rate_limit.requests_per_unit @ 4:48",
            "a.yaml descriptors[0].descriptors[1] @ 7:9",
            "a.yaml descriptors[0].descriptors[1].share_threshold @ 7:35",
            "a.yaml descriptors[1].rate_limit.unit @ 8:50",
            "a.yaml descriptors[1].rate_limit.replaces @ 8:82",
            "c.yaml  @ 1:2 this is not YAML",
            "d.yaml domain @ 1:9 the domain \"d\" is in b.yaml already",
        ],
    );
}

#[test]
fn a_problem_is_one_line() {
    let problems = EnvoyConfig::parse(&[("shop.yaml", "domain: d\ndescriptors: [{key: ''}]")]);
    let told = problems.expect_err("there is a mistake")[0].to_string();
    let expected =
        "shop.yaml: line 2, column 21: descriptors[0].key: the key is empty; write a text";
    assert_eq!(told, expected);
}

/// The second file used to be reported only once the first one was corrected.
#[test]
fn a_domain_that_is_there_twice_is_reported_beside_other_mistakes() {
    let broken = "domain: d\ndescriptors: [{key: k, value: []}]";
    check_files(
        &[("a", broken), ("b", "domain: d\nunit: x")],
        &[
            "a descriptors[0].value @ 2:31 expected text",
            "b unit @ 2:1 there is no such field",
            "b domain @ 1:9 the domain \"d\" is in a already",
        ],
    );
}
