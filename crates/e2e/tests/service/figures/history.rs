//! How requests ended over the last minutes, by seconds.

use serde_json::{Value, json};
use tollgate_e2e::until;

use super::{check, read, rule, start, sum};

#[test]
fn the_history_adds_up_to_the_metrics() {
    let server = start("", &json!([rule("few", 3)]));
    check(&server, None, &[("ann", 10), ("bob", 2)]);
    check(&server, None, &[("ann", 5)]);
    let history = until("whole seconds with all requests", || {
        let history = read(&server, "/api/v1/history?range=5m");
        (sum(&history["node"]["refused"]) == 12).then_some(history)
    });
    let node = &history["node"];
    assert_eq!(sum(&node["allowed"]), 5, "{history}");
    let refused = server.figure(r#"tollgate_requests_total{entry="http",outcome="refused"}"#);
    assert!((refused - 12.0).abs() < 0.5, "{refused}");
    assert_eq!(node["step_seconds"], 1);
    let lists = ["allowed", "refused", "denied", "throttled", "unlimited", "error", "degraded"];
    let points = node["allowed"].as_array().map(Vec::len);
    for list in lists {
        assert_eq!(node[list].as_array().map(Vec::len), points, "{list}");
    }
    for durations in ["check_seconds", "store_seconds"] {
        for quantile in ["p50", "p95", "p99"] {
            let list = node[durations][quantile].as_array().expect("a list");
            assert_eq!(Some(list.len()), points);
            // Of counters in memory, one settlement in sixteen is timed.
            let is_timed = durations == "store_seconds" || list.iter().any(Value::is_f64);
            assert!(is_timed, "{durations} {quantile}: {list:?}");
        }
    }
    let revisions = history["revisions"].as_array().expect("a list");
    let last = revisions.last().expect("a revision");
    assert_eq!(
        (&last["revision"], &last["rules"]),
        (&read(&server, "/api/v1/stats")["revision"], &json!(1))
    );
}

#[test]
fn the_history_of_a_rule_has_its_refusals() {
    let server = start("", &json!([rule("few", 3), rule("unused", 3)]));
    check(&server, None, &[("ann", 10)]);
    // Rules have steps of ten seconds, of which the one that is not over is left out.
    let rules = until("a step of ten seconds", || {
        let history = read(&server, "/api/v1/history?range=5m");
        history["rules"].as_array().filter(|rules| !rules.is_empty()).cloned()
    });
    let [few, unused] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!((&few["rule_id"], &unused["rule_id"]), (&json!("few"), &json!("unused")));
    assert_eq!((sum(&few["allowed"]), sum(&few["refused"])), (3, 7), "{few}");
    assert_eq!((few["step_seconds"].as_u64(), sum(&few["would_refuse"])), (Some(10), 0));
}

#[test]
fn ranges_that_are_not_kept_are_refused() {
    let server = start("", &json!([rule("few", 3)]));
    assert_eq!(read(&server, "/api/v1/history")["range_seconds"], 3_600);
    for query in ["range=25h", "range=x", "range=", "range=1m&range=2m", "from=1"] {
        let answer = server.get_as_admin(&format!("/api/v1/history?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_query"), "{query}");
    }
}
