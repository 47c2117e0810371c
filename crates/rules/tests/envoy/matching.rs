//! Which limit a request meets, sentence by sentence.

use crate::request::{config, in_words};

/// Checks requests, each with the limits that its descriptors meet.
#[track_caller]
fn check(file: &str, cases: &[(&str, &str)]) {
    let config = config(file);
    for (request, expected) in cases {
        assert_eq!(in_words(&config, "d", request), *expected, "{request} by\n{file}");
    }
}

#[test]
fn a_domain_has_its_own_limits() {
    let config = config("{domain: d, descriptors: [{key: a, rate_limit: {unit: day}}]}");
    for (domain, expected) in [
        ("d", "0"),
        ("e", "no domain"),
        ("", "no domain"),
        ("D", "no domain"),
        ("d_a", "no domain"),
    ] {
        assert_eq!(in_words(&config, domain, "a=1"), expected, "{domain}");
    }
}

#[test]
fn a_domain_without_limits_is_a_domain() {
    for file in ["domain: d", "{domain: d, descriptors: []}", "{domain: d, descriptors: null}"] {
        check(file, &[("a=1", "none"), ("", "none"), ("a=1 | b=2", "none | none")]);
    }
}

const LEVELS: &str = "
domain: d
descriptors:
  - key: key1
    value: value1
    rate_limit: {unit: second, requests_per_unit: 1}
    descriptors:
      - key: sub1
        rate_limit: {unit: second, requests_per_unit: 2}
      - key: sub1
        value: special
        rate_limit: {unit: second, requests_per_unit: 3}
  - key: key2
    rate_limit: {unit: minute, requests_per_unit: 4}
  - key: key2
    value: value2
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: key2
    value: value3
  - key: key3
    descriptors:
      - key: sub3
        descriptors:
          - key: sub33
            rate_limit: {unit: hour, requests_per_unit: 6}
  - key: key4
    rate_limit: {unit: hour, requests_per_unit: 7}
    descriptors:
      - {key: sub4, value: x}
";

#[test]
fn the_depth_must_be_the_same() {
    check(
        LEVELS,
        &[
            ("", "none"),
            ("key1=value1", "1"),
            ("key1=value1,sub1=x", "2"),
            ("key1=value1,sub1=special", "3"),
            ("key1=value1,sub1=x,more=1", "none"),
            ("key1=value1,other=x", "none"),
            ("key1=other", "none"),
            ("key1=other,sub1=x", "none"),
            ("sub1=x", "none"),
            ("sub1=x,key1=value1", "none"),
            ("key3=a", "none"),
            ("key3=a,sub3=b", "none"),
            ("key3=a,sub3=b,sub33=c", "6"),
            ("key3=a,sub3=b,sub33=c,sub333=d", "none"),
            ("key4=a", "7"),
            ("key4=a,sub4=x", "none"),
            ("key4=a,sub4=y", "none"),
        ],
    );
}

#[test]
fn the_value_goes_before_the_key_alone() {
    check(
        LEVELS,
        &[
            ("key2=other", "4"),
            ("key2=", "4"),
            ("key2=value2", "5"),
            ("key2=value22", "4"),
            ("key2=VALUE2", "4"),
            ("KEY2=value2", "none"),
            ("key2=value2,more=1", "none"),
        ],
    );
}

#[test]
fn there_is_no_way_back_from_a_node_without_a_limit() {
    check(LEVELS, &[("key2=value3", "none"), ("key2=value3,x=y", "none")]);
    check(
        "domain: d
descriptors:
  - key: a
    descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]
  - {key: a, value: x}
  - {key: a, value: y*}
  - key: a
    value: z
    descriptors: [{key: c, rate_limit: {unit: day, requests_per_unit: 2}}]
",
        &[
            ("a=1,b=1", "1"),
            ("a=x,b=1", "none"),
            ("a=y,b=1", "none"),
            ("a=yy,b=1", "none"),
            ("a=z,b=1", "none"),
            ("a=z,c=1", "2"),
            ("a=1,c=1", "none"),
        ],
    );
}

#[test]
fn key_and_value_are_one_name() {
    check(
        "domain: d
descriptors:
  - {key: a_b, value: c, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: a, value: d_e, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: f_, rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: g, value: _h, rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: i, value: 'j*', rate_limit: {unit: day, requests_per_unit: 5}}
",
        &[
            ("a_b=c", "1"),
            ("a=b_c", "1"),
            ("a_b_c=", "1"),
            ("a=d_e", "2"),
            ("a_d=e", "2"),
            // A key alone is looked up among the names as well.
            ("a_b_c=anything", "1"),
            ("a_d_e=anything", "2"),
            ("a=c", "none"),
            ("f=", "3"),
            ("f_=x", "3"),
            ("f=x", "none"),
            ("g=_h", "4"),
            ("g_=h", "4"),
            ("g=h", "none"),
            ("i=j1", "5"),
            ("i_j=1", "5"),
            ("i_j1=x", "5"),
        ],
    );
}

#[test]
fn a_star_stands_for_any_text() {
    // For each value of a descriptor the values of requests that match it, and those that do not.
    for (value, matching, others) in [
        ("x*", &["x", "xy", "x_y", "x*", "x y", "xé"][..], &["", "y", "yx", "X"][..]),
        ("*x", &["x", "yx", "_x", "*x"], &["", "xy", "y"]),
        ("*", &["", "x", "*", "x_y", "/a/b?c"], &[]),
        ("**", &["", "x"], &[]),
        ("x*y", &["xy", "x1y", "xyxy", "x*y"], &["", "x", "y", "xyz", "axy"]),
        ("x*y*z", &["xyz", "x1y2z", "xyyzz", "xyzyz"], &["xz", "xzy", "xy", "xyz1"]),
        ("*x*", &["x", "1x2", "xx"], &["", "y"]),
        ("*x*x*", &["xx", "1x2x3"], &["x", ""]),
        ("/api/*/users", &["/api/1/users", "/api//users", "/api/a/b/users"], &["/api/users"]),
        ("x?*", &["x?", "x?y"], &["xy", "xyz"]),
        ("[x]*", &["[x]", "[x]y"], &["x", "xy"]),
        ("x.*", &["x.", "x.y"], &["xy", "x"]),
        ("\\*", &["\\", "\\x"], &["*", "x"]),
    ] {
        let quoted = serde_json::to_string(value).expect("a text");
        let file = format!(
            "domain: d\ndescriptors:\n  - {{key: k, value: {quoted}, rate_limit: {{unit: day}}}}"
        );
        let config = config(&file);
        for text in matching {
            assert_eq!(in_words(&config, "d", &format!("k={text}")), "0", "{value}: {text:?}");
        }
        for text in others {
            assert_eq!(in_words(&config, "d", &format!("k={text}")), "none", "{value}: {text:?}");
        }
    }
}

#[test]
fn a_star_may_stand_in_the_key() {
    check(
        "domain: d
descriptors:
  - {key: 'a*', rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: '*b', value: c, rate_limit: {unit: day, requests_per_unit: 2}}
",
        &[
            ("a=1", "1"),
            ("abc=", "1"),
            ("a*=1", "1"),
            ("b=c", "2"),
            ("xb=c", "2"),
            ("x=b_c", "2"),
            ("xb=d", "none"),
            ("ab=c", "1"),
        ],
    );
}

#[test]
fn the_first_wildcard_in_the_file_that_matches_is_taken() {
    check(
        "domain: d
descriptors:
  - {key: k, value: 'long*', rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: k, value: 'l*', rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: k, value: 'longer*', rate_limit: {unit: day, requests_per_unit: 3}}
  - {key: k, value: '*er', rate_limit: {unit: day, requests_per_unit: 4}}
  - {key: k, value: longest, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: k, rate_limit: {unit: day, requests_per_unit: 6}}
",
        &[
            ("k=long", "1"),
            ("k=longer", "1"),
            ("k=longer still", "1"),
            ("k=longest", "5"),
            ("k=l", "2"),
            ("k=lower", "2"),
            ("k=upper", "4"),
            ("k=upper case", "6"),
            ("k=", "6"),
            // The very name of a wildcard is a name like any other.
            ("k=longer*", "3"),
            ("k=*er", "4"),
        ],
    );
}

#[test]
fn a_replaced_limit_does_not_count() {
    check(
        "domain: d
descriptors:
  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, name: one}}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 2, name: two, replaces: [{name: one}]}}
  - {key: c, rate_limit: {unit: day, requests_per_unit: 3, replaces: [{name: two}, {name: one}]}}
  - {key: e, rate_limit: {unlimited: true, name: four, replaces: [{name: one}]}}
  - {key: f, rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: four}]}}
  - {key: g, rate_limit: {unit: day, requests_per_unit: 6, name: x, replaces: [{name: y}]}}
  - {key: h, rate_limit: {unit: day, requests_per_unit: 7, name: y, replaces: [{name: x}]}}
  - {key: i, rate_limit: {unit: day, requests_per_unit: 8, replaces: [{name: nobody}]}}
  - {key: j, rate_limit: {unit: day, requests_per_unit: 9, name: one}}
  - {key: l}
",
        &[
            ("a=1", "1"),
            ("a=1 | b=1", "replaced | 2"),
            ("b=1 | a=1", "2 | replaced"),
            ("a=1 | a=2 | b=1", "replaced | replaced | 2"),
            // Whether a limit is replaced itself makes no difference to what it replaces.
            ("a=1 | b=1 | c=1", "replaced | replaced | 3"),
            ("a=1 | e=1", "replaced | unlimited"),
            // What is unlimited stays so.
            ("e=1 | f=1", "unlimited | 5"),
            ("g=1 | h=1", "replaced | replaced"),
            ("a=1 | i=1", "1 | 8"),
            // One name may be that of several limits.
            ("a=1 | j=1 | b=1", "replaced | replaced | 2"),
            // What does not match replaces nothing.
            ("a=1 | b=1,more=1", "1 | none"),
            ("a=1 | l=1", "1 | none"),
            // A descriptor that carries its limit neither replaces nor is replaced.
            ("a=1 | !b=1", "1 | carried"),
            ("!a=1 | b=1", "carried | 2"),
            ("!l=1 | !", "carried | carried"),
        ],
    );
}

#[test]
fn each_descriptor_is_judged_in_its_place() {
    check(
        LEVELS,
        &[
            ("key2=a | key2=value2 | none=1 | key1=value1", "4 | 5 | none | 1"),
            ("key2=a | key2=a", "4 | 4"),
            (" | key2=a", "none | 4"),
        ],
    );
}
