//! Every way to one limit: depths, kinds of nodes on the way, and what stands beside it at the end.

use std::fmt::Write as _;

use crate::envoy::request::{config, in_words};

/// Values of requests, and the kinds of node they can arrive at, the first choice first.
const VALUES: [(&str, &[&str]); 7] = [
    ("exact", &["exact", "wildcard", "any"]),
    ("exactly", &["wildcard", "any"]),
    ("ex", &["wildcard", "any"]),
    ("Exact", &["any"]),
    ("inexact", &["any"]),
    ("other", &["any"]),
    ("", &["any"]),
];

/// The kinds of node, as they are written in a file, and the limit that names each.
const KINDS: [(&str, &str, u32); 3] =
    [("exact", "value: exact, ", 1), ("wildcard", "value: \"ex*\", ", 2), ("any", "", 3)];

/// Ways down to the last level: one node per level, and a value that leads there.
const WAYS: [&[(&str, &str)]; 9] = [
    &[],
    &[("", "1")],
    &[("", "")],
    &[("value: one, ", "one")],
    &[("value: \"o*\", ", "one")],
    &[("value: \"*e\", ", "one"), ("", "2")],
    &[("value: one, ", "one"), ("value: \"t*o\", ", "two")],
    &[("", "1"), ("value: two, ", "two"), ("", "3")],
    &[("value: \"*\", ", "1"), ("value: \"**\", ", ""), ("value: \"*\", ", "*"), ("", "4")],
];

/// A file with these kinds of node at the end of the way.
fn file(way: &[(&str, &str)], kinds: &[&(&str, &str, u32)]) -> String {
    let mut file = "{domain: d, descriptors: [".to_owned();
    for (level, (value, _)) in way.iter().enumerate() {
        let _ = write!(file, "{{key: way{level}, {value}descriptors: [");
    }
    for (_, value, limit) in kinds {
        let rate_limit = format!("{{unit: day, requests_per_unit: {limit}}}");
        let _ = write!(file, "{{key: end, {value}rate_limit: {rate_limit}}}, ");
    }
    file + &"]}".repeat(way.len()) + "]}"
}

/// The entries that lead down the way.
fn request(way: &[(&str, &str)]) -> String {
    way.iter().enumerate().fold(String::new(), |mut request, (level, (_, value))| {
        let _ = write!(request, "way{level}={value},");
        request
    })
}

#[test]
fn every_kind_of_node_at_every_depth() {
    let mut checked = 0;
    for way in WAYS {
        // Each choice of kinds, forwards and backwards: their order in the file makes no difference.
        for (choice, backwards) in (1..8).flat_map(|choice| [(choice, false), (choice, true)]) {
            let mut kinds = (0..3).filter(|at| choice & (1 << at) != 0).map(|at| &KINDS[at]);
            let mut kinds = kinds.by_ref().collect::<Vec<_>>();
            if backwards {
                kinds.reverse();
            }
            let text = file(way, &kinds);
            let config = config(&text);
            for (value, preferred) in VALUES {
                let arrived = preferred.iter().find_map(|name| {
                    kinds.iter().find(|(kind, ..)| kind == name).map(|(_, _, limit)| *limit)
                });
                let expected = arrived.map_or("none".to_owned(), |limit| limit.to_string());
                let request = format!("{}end={value}", request(way));
                assert_eq!(in_words(&config, "d", &request), expected, "{request} by {text}");

                let deeper = format!("{request},more=1");
                assert_eq!(in_words(&config, "d", &deeper), "none", "{deeper} by {text}");
                let elsewhere = format!("x={value},{request}");
                assert_eq!(in_words(&config, "d", &elsewhere), "none", "{elsewhere} by {text}");
                checked += 3;
            }
            assert_eq!(in_words(&config, "d", &request(way)), "none", "too short by {text}");
        }
    }
    assert_eq!(checked, WAYS.len() * 14 * VALUES.len() * 3, "every combination");
}
