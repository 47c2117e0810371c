//! Which limit a request meets, sentence by sentence: the tables in `cases`.
//!
//! A block is a sentence after `#`, descriptors as in a file of the domain `d`, and requests after
//! `>`, each with its verdicts and perhaps the counter. `limit: 7` is short for a limit of 7 a day.

use std::collections::HashSet;

use tollgate_import::envoy::{Allowance, DescriptorVerdict, EnvoyConfig};

use crate::envoy::request::{config, in_words, verdicts};

const TABLES: [(&str, &str); 8] = [
    ("depth", include_str!("cases/depth.txt")),
    ("precedence", include_str!("cases/precedence.txt")),
    ("wildcards", include_str!("cases/wildcards.txt")),
    ("names", include_str!("cases/names.txt")),
    ("replaces", include_str!("cases/replaces.txt")),
    ("counters", include_str!("cases/counters.txt")),
    ("limits", include_str!("cases/limits.txt")),
    ("yaml", include_str!("cases/yaml.txt")),
];

/// A sentence with what shows it.
struct Block<'a> {
    sentence: &'a str,
    file: String,
    /// Each with the number of its line.
    rows: Vec<(usize, &'a str)>,
}

fn blocks(table: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::<Block<'_>>::new();
    for (number, line) in table.lines().enumerate() {
        if let Some(sentence) = line.strip_prefix("# ") {
            let file = "domain: d\ndescriptors:\n".to_owned();
            blocks.push(Block { sentence, file, rows: Vec::new() });
            continue;
        }
        let block = blocks.last_mut().expect("a sentence comes first");
        match line.strip_prefix("> ") {
            Some(row) => block.rows.push((number + 1, row)),
            None => block.file += &format!("{}\n", in_full(line)),
        }
    }
    blocks
}

/// A line of descriptors with its limits as a file has them.
fn in_full(line: &str) -> String {
    let Some((before, after)) = line.split_once(" limit: ") else { return line.to_owned() };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = after.split_at(digits);
    let limit = format!("rate_limit: {{unit: day, requests_per_unit: {number}}}");
    format!("{before} {limit}{}", in_full(rest))
}

/// The verdict on each descriptor of a request.
fn outcome(config: &EnvoyConfig, request: &str, with_counter: bool) -> String {
    let verdicts = verdicts(config, "d", request).expect("the domain is there");
    let words = verdicts.iter().map(|verdict| match verdict {
        DescriptorVerdict::Unmatched => "none".to_owned(),
        DescriptorVerdict::Unlimited => "unlimited".to_owned(),
        DescriptorVerdict::Replaced => "replaced".to_owned(),
        DescriptorVerdict::Carried { key } if with_counter => format!("carried @ {}", key.as_str()),
        DescriptorVerdict::Carried { .. } => "carried".to_owned(),
        DescriptorVerdict::Limit { limit, key } => {
            let limit = &config.limits()[*limit];
            let Allowance::Limited { quota, .. } = &limit.allowance else {
                panic!("an unlimited limit counts nothing")
            };
            let watching = if limit.shadow { " watching" } else { "" };
            let counter = if with_counter { format!(" @ {}", key.as_str()) } else { String::new() };
            format!("{}{watching}{counter}", quota.limit)
        }
    });
    words.collect::<Vec<_>>().join(" | ")
}

#[test]
fn every_sentence_holds() {
    let mut wrong = String::new();
    let mut rows = 0;
    for (table, text) in TABLES {
        for Block { sentence, file, rows: cases } in blocks(text) {
            assert!(!cases.is_empty(), "nothing shows that {sentence:?}");
            let config = config(&file);
            let mut asked = HashSet::new();
            for (line, row) in cases {
                let (request, expected) = row.split_once(" => ").expect("a request and verdicts");
                assert!(asked.insert(request), "{table}.txt:{line}: {request} is there twice");
                let found = outcome(&config, request, expected.contains(" @ "));
                if found != expected {
                    wrong += &format!("{table}.txt:{line}: {row}, found {found}\n  {sentence}\n");
                }
                rows += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(rows >= 400, "only {rows} cases were found; do they still begin with `> `?");
}

#[test]
fn a_domain_has_its_own_limits() {
    let config = config("{domain: d, descriptors: [{key: a, rate_limit: {unit: day}}]}");
    for (domain, expected) in [
        ("d", "0"),
        ("e", "no domain"),
        ("", "no domain"),
        ("D", "no domain"),
        ("d ", "no domain"),
        ("d_a", "no domain"),
    ] {
        assert_eq!(in_words(&config, domain, "a=1"), expected, "{domain}");
    }
}

#[test]
fn a_domain_without_limits_is_a_domain() {
    for file in ["domain: d", "{domain: d, descriptors: []}", "{domain: d, descriptors: null}"] {
        assert_eq!(in_words(&config(file), "d", "a=1"), "none", "{file}");
    }
}
