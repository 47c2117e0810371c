//! `tollgate top --once`: the figures as text and as JSON, for those who may see them.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tollgate_e2e::server::Server;
use tollgate_e2e::until;

use crate::{check, start, top};

/// The exit code, and both outputs.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.stdin(Stdio::null()).output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
    (output.status.code().expect("a code"), text(output.stdout), text(output.stderr))
}

pub(crate) fn json_of(command: &mut Command) -> Value {
    let (code, printed, errors) = run(command);
    assert_eq!(code, 0, "{errors}");
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// The sum of all metrics of a family with this label.
fn metric(server: &Server, name: &str, label: &str) -> u64 {
    let text = server.get("/metrics").text();
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let values = lines.filter(|line| line.contains(label)).map(|line| {
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("{line}")) as u64
    });
    values.sum()
}

#[test]
fn figures_are_those_of_the_metrics() {
    let server = start();
    check(&server, "eve", None, 7);
    check(&server, "ann", None, 2);
    check(&server, "wile", Some("acme"), 3);
    // The last second is in the history a second later.
    let figures = until("figures of the last second", || {
        Some(json_of(&mut top(&server, "--once --json")))
            .filter(|it| !it["check_seconds"].is_null())
    });
    let total = |outcome: &str| metric(&server, "tollgate_requests_total", outcome);
    let totals = &figures["totals"];
    assert_eq!(totals["requests"], total(""), "{figures}");
    for outcome in ["allowed", "refused", "denied", "throttled", "unlimited", "error"] {
        assert_eq!(totals[outcome], total(&format!("outcome=\"{outcome}\"")), "{figures}");
    }
    assert_eq!((&totals["requests"], &totals["refused"]), (&json!(12), &json!(6)));
    let sum = |list: &str| -> u64 {
        let top = figures[list]["top"].as_array().expect("a list");
        top.iter().filter_map(|entry| entry["count"].as_u64()).sum()
    };
    assert_eq!((sum("busiest"), sum("refused")), (total(""), total("outcome=\"refused\"")));
    let entry = json!({"name": "eve", "rule_id": "search", "count": 5});
    assert_eq!(figures["refused"]["top"][0], entry);
    assert_eq!(figures["would_refuse"]["top"].as_array().map(Vec::len), Some(3), "{figures}");
    assert_eq!((&figures["by"], &figures["window_seconds"]), (&json!("client"), &json!(60)));
    assert_eq!((&figures["store"], &figures["nodes"][0]["this"]), (&json!("memory"), &json!(true)));
    for name in ["requests_per_second", "refused_per_second", "uptime_seconds", "revision"] {
        assert!(figures[name].is_number(), "{name}: {figures}");
    }
    let quantiles = &figures["check_seconds"];
    assert!(quantiles["p50"].as_f64() <= quantiles["p99"].as_f64(), "{figures}");

    let (code, text, _) = run(&mut top(&server, "--once"));
    assert_eq!(code, 0);
    for part in ["up for ", "1 node, store memory", "requests/s ", "checks p50 ", "eve", "acme"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(text.contains("\nmost refused (by client, the last 1 min)\n count  name"), "{text}");
    assert!(text.contains("\nwould be refused by shadow rules (by client"), "{text}");
    let few = json_of(&mut top(&server, "--once --json --limit 1 --by rule --window 300"));
    assert_eq!(few["busiest"]["top"].as_array().map(Vec::len), Some(1));
    assert_eq!((&few["by"], &few["window_seconds"]), (&json!("rule"), &json!(300)));
}

#[test]
fn a_tenant_admin_sees_its_tenant_only() {
    let server = start();
    check(&server, "hank", Some("globex"), 5);
    check(&server, "mallory", None, 5);
    check(&server, "wile", Some("acme"), 5);
    let body = json!({"role": "tenant-admin", "tenant": "acme"}).to_string();
    let made = server.post_as_admin("/api/v1/tokens", &body).json();
    let token = made["token"].as_str().expect("a token");
    let own = |words: &str| {
        let mut command = top(&server, words);
        command.env("TOLLGATE_TOKEN", token);
        command
    };
    let figures = json_of(&mut own("--once --json"));
    assert_eq!(figures["refused"]["top"][0]["name"], "wile", "{figures}");
    for hidden in ["totals", "bans", "nodes", "store", "check_seconds"] {
        assert!(figures[hidden].is_null(), "{hidden}: {figures}");
    }
    let (code, text, _) = run(&mut own("--once"));
    assert!(code == 0 && text.contains("decisions/s ") && text.contains("wile"), "{text}");
    for other in ["hank", "globex", "mallory"] {
        assert!(!text.contains(other) && !figures.to_string().contains(other), "{text}");
    }
    let terminal = crate::terminal::Terminal::run(&own(""), (80, 24));
    let shown = terminal.until_shows(&["decisions/s", "wile"]);
    assert!(!shown.contains("mallory") && !shown.contains("requests/s"), "{shown}");
}

#[test]
fn wrong_usage_is_explained() {
    let server = start();
    let check = |command: &mut Command, code: i32, part: &str| {
        let (ended, printed, errors) = run(command);
        assert_eq!(ended, code, "{printed}{errors}");
        assert!(printed.is_empty() && errors.contains(part), "no {part:?} in {errors}");
    };
    check(
        &mut top(&server, ""),
        2,
        "this is no terminal: run it in one, or print everything once with --once",
    );
    check(&mut top(&server, "--json"), 2, "--json needs --once");
    check(&mut top(&server, "--once --interval 1ms"), 2, "write a time from 500ms to 1h");
    check(&mut top(&server, "--once --window 301"), 2, "1..=300");
    check(&mut top(&server, "--once --by color"), 2, "possible values: client, rule, endpoint");
    check(top(&server, "--once").env("TOLLGATE_TOKEN", "hush"), 1, "(wrong_token)");
    check(top(&server, "--once").env("TOLLGATE_SERVER", "http://127.0.0.1:1"), 2, "cannot reach");
    // In a terminal, a server that is not there ends the command, and nothing is left on the screen.
    for (name, value, code, part) in [
        ("TOLLGATE_SERVER", "http://127.0.0.1:1", 2, "cannot reach"),
        ("TOLLGATE_TOKEN", "hush", 1, "(wrong_token)"),
        ("NO_COLOR", "1", 0, "ended 0"),
    ] {
        let mut command = top(&server, if name == "NO_COLOR" { "--once" } else { "" });
        command.env(name, value);
        let shown = crate::terminal::Terminal::run(&command, (80, 24)).until_restored(code);
        assert!(shown.contains(part), "{shown}");
    }
}

/// JSON that is read by people on a terminal does nothing to it, and has the same value.
#[test]
fn json_does_nothing_to_the_terminal() {
    const HOSTILE: &str = "a\u{9b}2J\u{202e}\u{7f}b";
    let server = start();
    check(&server, HOSTILE, None, 3);
    let (code, printed, errors) = run(&mut top(&server, "--once --json"));
    assert_eq!(code, 0, "{errors}");
    assert!(printed.contains(r"a\u009b2J\u202e\u007fb"), "{printed}");
    assert!(!printed.trim_end().chars().any(|c| c.is_control() || c == '\u{202e}'), "{printed}");
    let figures: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(figures["refused"]["top"][0]["name"], HOSTILE);
}
