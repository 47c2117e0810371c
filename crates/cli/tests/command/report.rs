//! `tollgate simulate --report`: one file, whole, harmless, with the figures of the simulation.

use std::fs;
use std::path::Path;

use super::{Ran, log, tollgate};

/// Texts that would do something if they were not escaped.
const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>",
    "\\\"><img src=x onerror=alert(2)>",
    "/\\u202efdp.exe\\u200b",
    "'--></style><h1>",
];

fn report(arguments: &[&str], input: &str, file: &Path) -> (Ran, String) {
    let path = file.to_str().expect("a path");
    let ran = tollgate(&[&["simulate", "--report", path], arguments].concat(), input);
    let html = fs::read_to_string(file).unwrap_or_default();
    (ran, html)
}

/// Every tag that is opened is closed, in order, and no attribute runs a script.
fn check_markup(html: &str) {
    let (_, body) = html.split_once("</style>").expect("a style");
    let mut open: Vec<&str> = vec!["html", "head"];
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).expect("a name");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{tag}");
        assert!(!["script", "img", "link", "iframe", "object"].contains(&name), "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_report_is_one_file_with_the_figures_of_the_simulation() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.html");
    let rule = ["--rule", r#"{"limit":10,"window":"1m"}"#, "-"];
    let (ran, html) = report(&rule, &log(), &file);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_markup(&html);
    let same = tollgate(&[&["simulate"], &rule[..]].concat(), &log());
    assert_eq!(ran.stdout, same.stdout, "the report is in addition");
    // 34 requests; the greedy client made 30, of which 20 were refused.
    for part in [
        "<b>34</b>",
        "58.82 %",
        "20 of 34",
        "2026-11-15 10:00:00 UTC to 2026-11-15 10:00:59 UTC",
        "192.0.2.1",
        "/api/items",
        "10 / 1 min · ip · sliding_window_counter",
        "Left out 1 line that could not be read.",
        "Six algorithms, the same limits",
        "Sliding counter against the exact log",
        "prefers-color-scheme:dark",
    ] {
        assert!(html.contains(part), "{part}");
    }
    for algorithm in ["fixed_window", "sliding_window_log", "token_bucket", "leaky_bucket", "gcra"]
    {
        assert!(html.contains(algorithm), "{algorithm}");
    }
    let style = html.split("<style>").nth(1).expect("a style");
    let outside = ["http:", "https:", "//", "url(", "@import", "src=", "href="];
    for part in outside {
        assert!(!style.contains(part), "nothing is fetched: {part}");
    }
    let names: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "nothing else is left");
}

#[test]
fn texts_of_the_traffic_are_harmless() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.html");
    let mut trace = String::new();
    for (i, text) in HOSTILE.iter().enumerate() {
        for t_ms in 0..3 {
            let t_ms = t_ms * 1_000 + i;
            trace += &format!("{{\"t_ms\":{t_ms},\"key\":\"{text}\",\"endpoint\":\"/{text}\"}}\n");
        }
    }
    trace += "{\"t_ms\":9,\"kee\":\"<script>alert(3)</script>\u{1b}[31m\"}\n";
    let (ran, html) = report(&["--rule", r#"{"limit":1,"window":"1h"}"#, "-"], &trace, &file);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_markup(&html);
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "the client is listed");
    assert!(html.contains("\\u{202e}fdp.exe\\u{200b}"), "bidi characters are seen");
    let is_harmless =
        |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}' || c == '\u{200b}');
    assert!(html.chars().all(is_harmless));

    let line = |path: &str, agent: &str| {
        format!(
            "192.0.2.1 - - [15/Nov/2026:10:00:00 +0000] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"{agent}\"\n"
        )
    };
    let log = line("/<svg/onload=alert(4)>", "<script>alert(5)</script>").repeat(5);
    let (ran, html) = report(&["--rule", r#"{"limit":1,"window":"1h"}"#, "-"], &log, &file);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_markup(&html);
    assert!(html.contains("&lt;script&gt;alert(5)"), "the user agent is listed");
    assert!(html.contains("too short for a chart"), "all requests came at once");
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_traffic_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let rule = ["--rule", r#"{"limit":10,"window":"1m"}"#, "no-such.log"];
    let missing = folder.path().join("no/such/out.html");
    let (ran, _) = report(&rule, "", &missing);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("create the folder first"), "{}", ran.stderr);
    let (ran, _) = report(&rule, "", folder.path());
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("name a file, not a folder"), "{}", ran.stderr);
    let in_file = folder.path().join("file");
    fs::write(&in_file, "a").expect("written");
    let (ran, _) = report(&rule, "", &in_file.join("out.html"));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("is not a folder"), "{}", ran.stderr);
}

#[test]
fn an_earlier_report_stays_until_the_new_one_is_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("out.html");
    fs::write(&file, "earlier").expect("written");
    let (ran, html) = report(&["--rule", r#"{"limit":10,"window":"1m"}"#, "-"], "rubbish\n", &file);
    assert_eq!((ran.code, html.as_str()), (2, "earlier"), "{}", ran.stderr);
    let (ran, html) = report(&["--rule", r#"{"limit":10,"window":"1m"}"#, "-"], &log(), &file);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(html.starts_with("<!doctype html>"));
}

#[test]
fn clients_that_shadow_rules_and_candidates_would_refuse_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, rules) = (folder.path().join("out.html"), folder.path().join("rules.yaml"));
    let policy = "rules:
  - {rule_id: watch, limit: 25, window: 1m, identifier_type: ip, action: log_only}
  - {rule_id: a, limit: 100, window: 1m, identifier_type: ip, candidate: {limit: 10}}
";
    fs::write(&rules, policy).expect("written");
    let rules = ["--rules", rules.to_str().expect("a path"), "-"];
    // The greedy client made 30 of 34 requests within a minute; none is refused.
    let (ran, html) = report(&rules, &log(), &file);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    let words = words.join(" ");
    let table = "client would be refused by requests exceeded share \
                 192.0.2.1 a~candidate 30 20 66.67 % 192.0.2.1 watch 30 5 16.67 %";
    assert!(words.contains(table), "{}", ran.stdout);
    check_markup(&html);
    assert!(html.contains("Clients that rules would refuse if they were in force"), "{html}");
    assert!(html.contains("<b>a~candidate</b></td>"), "{html}");

    let ran = tollgate(&[&["simulate", "--top", "1"], &rules[..]].concat(), &log());
    assert!(ran.stdout.contains("66.67 %") && !ran.stdout.contains("16.67 %"), "{}", ran.stdout);
    let ran = tollgate(&[&["simulate", "--json"], &rules[..]].concat(), &log());
    let lines: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let hit = |rule: &str| {
        let is_hit = |line: &&serde_json::Value| {
            let rules = line["would_be_refused_by"].as_array();
            line["client"] == "192.0.2.1" && rules.is_some_and(|it| it.iter().any(|it| it == rule))
        };
        lines.iter().filter(is_hit).count()
    };
    assert_eq!((hit("a~candidate"), hit("watch")), (20, 5), "{}", ran.stdout);
    assert_eq!(lines.iter().filter(|line| line["client"].is_null()).count(), 14);
}
