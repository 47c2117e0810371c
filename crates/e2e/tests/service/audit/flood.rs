//! A flood of refusals: requests get responses as before, and decisions that the log drops are counted.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{DECISIONS, outcomes, records, rule, start};
use tollgate_e2e::server::CHECK;
use tollgate_e2e::until;

/// How many refusals one request of the flood asks for.
const BATCH: usize = 20;

/// The figure of a line like `requests: 7 total, 7 succeeded`, by the word behind it.
fn figure(report: &str, line: &str, word: &str) -> u64 {
    let line = report.lines().find(|candidate| candidate.starts_with(line));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    let place = words.iter().position(|candidate| candidate.trim_end_matches(',') == word);
    let figure = place.and_then(|place| words[place - 1].parse().ok());
    figure.unwrap_or_else(|| panic!("no {word} in {report}"))
}

#[test]
fn a_flood_is_answered_and_every_refusal_is_written_or_counted_as_lost() {
    let server =
        start("{sample_allowed: 0, rows_per_second: 4000}", &json!({"rules": [rule("r", 0)]}));
    let check = json!({"identifiers": {"user_id": "ann"}, "endpoint": "/orders"});
    let body = server.folder().join("body.json");
    // Several clients, because one may write only a tenth of what the log takes.
    let of = |user: usize| json!({"identifiers": {"user_id": format!("u{user}")}, "endpoint": "/orders"});
    let checks: Vec<_> = (0..BATCH).map(of).collect();
    fs::write(&body, json!({ "checks": checks }).to_string()).expect("written");
    let program = Path::new("/usr/bin/h2load");
    assert!(program.exists(), "{} is missing: scripts/test installs it", program.display());
    let output = Command::new(program)
        .args([
            "--h1",
            "--clients",
            "8",
            "--threads",
            "1",
            "--duration",
            "2",
            "--warm-up-time",
            "0",
        ])
        .args(["--header", "content-type: application/json", "--data"])
        .arg(&body)
        .arg(server.url("/api/v1/rate-limit/check/batch"))
        .output()
        .expect("h2load runs");
    let report = String::from_utf8_lossy(&output.stdout);
    let failed = figure(&report, "requests:", "failed") + figure(&report, "requests:", "errored");
    assert_eq!(failed, 0, "{report}");
    // Requests that were cut off at the end may have been checked as well, and may still be: so the
    // metrics are polled until they do not change.
    let mut before = 0;
    let [written, lost, failed] = until("an end of writing", || {
        let outcomes = outcomes(&server);
        let refused =
            server.figure("tollgate_decisions_total{rule_id=\"r\",outcome=\"refused\"}") as u64;
        let is_same = refused == std::mem::replace(&mut before, refused);
        (is_same && outcomes.iter().sum::<u64>() == refused).then_some(outcomes)
    });
    assert_eq!(failed, 0);
    assert!(written > 4_000 && lost > 0, "written {written}, lost {lost}: no flood\n{report}");
    // The flood has ended, and the log has room again.
    assert_eq!(server.post(CHECK, &check.to_string()).status, 200);
    until("one more", || (outcomes(&server)[0] > written).then_some(()));
    assert_eq!(outcomes(&server)[1], lost);
}

/// A client that floods takes only its share of the log.
#[test]
fn a_flood_of_one_client_leaves_room_for_the_refusals_of_others() {
    let server =
        start("{sample_allowed: 0, rows_per_second: 200}", &json!({"rules": [rule("r", 0)]}));
    let check = |user: &str| json!({"identifiers": {"user_id": user}, "endpoint": "/orders"});
    let flood = json!({"checks": vec![check("mallory"); 1_000]}).to_string();
    for _ in 0..12 {
        assert_eq!(server.post("/api/v1/rate-limit/check/batch", &flood).status, 200);
    }
    for user in 0..50 {
        let body = check(&format!("u{user}")).to_string();
        assert_eq!(server.post(CHECK, &body).status, 200);
    }
    until("the refusals of others", || {
        let found = records(&server, &format!("{DECISIONS}?client=u49"));
        (found.len() == 1).then_some(())
    });
    let of_others = records(&server, &format!("{DECISIONS}?limit=1000"));
    let of_others = of_others.iter().filter(|record| record["client"] != "mallory").count();
    assert_eq!(of_others, 50, "none of them is lost");
}
