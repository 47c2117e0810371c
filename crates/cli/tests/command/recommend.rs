//! `tollgate recommend`: the policy refuses what it promised, lints clean, and says why.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::tollgate;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/access.log");

/// The log of a real web site; see the README beside it.
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/access-2015.log.gz");

/// A log in which few clients make most of the requests, one of them in bursts, and another tries logins.
fn skewed() -> String {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut log = String::new();
    for i in 0..6_000_u64 {
        let (minute, second) = (i / 120, i / 2 % 60);
        let client = 1 + random(200) * random(200) / 200;
        let (method, path) = match random(20) {
            0..8 => ("GET", format!("/api/items/{}", random(500))),
            8..14 => ("GET", format!("/static/file-{}.png", random(60))),
            14..16 => ("GET", "/favicon.ico".to_owned()),
            16..18 => ("GET", "/".to_owned()),
            18 => ("POST", "/api/orders".to_owned()),
            _ => ("POST", "/login".to_owned()),
        };
        log += &format!(
            "192.0.2.{client} - - [15/Nov/2026:10:{minute:02}:{second:02} +0000] \"{method} {path} HTTP/1.1\" 200 5\n"
        );
        if i % 1_000 < 100 {
            log += &format!(
                "203.0.113.5 - - [15/Nov/2026:10:{minute:02}:{second:02} +0000] \"GET /api/items/7 HTTP/1.1\" 200 5\n"
            );
        }
        if i % 1_000 < 40 {
            log += &format!(
                "198.51.100.9 - - [15/Nov/2026:10:{minute:02}:{second:02} +0000] \"POST /login HTTP/1.1\" 401 5\n"
            );
        }
    }
    log
}

/// Proposes a policy, and compares what it promises with what a simulation shows.
fn check(arguments: &[&str], input: &str, log: &str, most: f64) -> (Value, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.yaml");
    let path = file.to_str().expect("a path");
    let ran = tollgate(&[&["recommend", "--json", "-o", path], arguments, &[input]].concat(), log);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let promised: Value = serde_json::from_str(&ran.stdout).expect("an object");
    let policy = fs::read_to_string(&file).expect("a policy");

    let ran = tollgate(&["rules", "lint", "--strict", path], "");
    assert_eq!(ran.code, 0, "{policy}\n{}", ran.stdout);

    let ran = tollgate(&["simulate", "--json", "--rules", path, input], log);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let decisions: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a decision")).collect();
    let refused = decisions.iter().filter(|decision| decision["allowed"] == false).count();
    assert_eq!(promised["requests"], decisions.len(), "{policy}");
    assert_eq!(promised["refused"], refused, "{policy}");
    let ran = tollgate(&["simulate", "--rules", path, input], log);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for (shown, name) in [
        ("requests", "requests"),
        ("refused", "refused"),
        ("clients", "clients"),
        ("clients refused", "clients_refused"),
    ] {
        assert_eq!(promised[name], figure(&ran.stdout, shown), "{name}: {policy}\n{}", ran.stdout);
    }
    for rule in promised["rules"].as_array().expect("rules") {
        let id = rule["rule_id"].as_str().expect("an id");
        assert_eq!(rule["requests"], figure(&ran.stdout, id), "{policy}\n{}", ran.stdout);
    }
    let share = 100.0 * refused as f64 / decisions.len() as f64;
    assert!(share <= most, "{share} % of requests refused, {most} % promised:\n{policy}");
    // The exit code of a build says the same.
    let more = format!("refused > {most}%");
    let ran = tollgate(&["simulate", "--fail-if", &more, "--rules", path, input], log);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (promised, policy)
}

/// A figure of the table of a simulation, by the words before it.
fn figure(report: &str, name: &str) -> u64 {
    let lines = report.lines().filter_map(|line| line.strip_prefix(' ')?.strip_prefix(name));
    let mut values = lines.filter_map(|rest| {
        let value = rest.strip_prefix(' ')?.split_whitespace().next()?;
        value.replace(',', "").parse().ok()
    });
    values.next().unwrap_or_else(|| panic!("no {name} in {report}"))
}

fn rule<'a>(promised: &'a Value, id: &str) -> &'a Value {
    let mut rules = promised["rules"].as_array().expect("rules").iter();
    rules.find(|rule| rule["rule_id"] == id).unwrap_or_else(|| panic!("{id} of {promised}"))
}

#[test]
fn the_policy_refuses_the_share_that_it_promised() {
    for (headroom, refused, most) in [
        ("20%", "0.1%", 0.1),
        ("0%", "0%", 0.0),
        ("0", "1%", 1.0),
        ("0%", "10%", 10.0),
        ("100%", "2.5%", 2.5),
    ] {
        let arguments = ["--headroom", headroom, "--refuse-at-most", refused];
        check(&arguments, EXAMPLE, "", most);
        check(&arguments, "-", &skewed(), most);
    }
    for window in ["1s", "10s", "1h"] {
        check(&["--window", window, "--refuse-at-most", "1%"], "-", &skewed(), 1.0);
    }
}

/// Traffic that was not made for this test: crawlers, feed readers, and people who load a page with its files.
#[test]
fn the_policy_of_a_real_access_log_refuses_the_share_that_it_promised() {
    for (headroom, refused, window, most) in [
        ("0%", "5%", "1m", 5.0),
        ("0%", "0%", "1m", 0.0),
        ("20%", "1%", "1h", 1.0),
        ("20%", "1%", "1s", 1.0),
        ("20%", "1%", "24h", 1.0),
    ] {
        let arguments = ["--headroom", headroom, "--refuse-at-most", refused, "--window", window];
        let (promised, policy) = check(&arguments, REAL, "", most);
        assert_eq!(promised["requests"], 10_000);
        assert_eq!(promised["clients"], 1_753, "{policy}");
        let rules = promised["rules"].as_array().expect("rules");
        assert_eq!(rules[0]["rule_id"], "per_address", "{policy}");
        // No client needs more than the lowest limit of its requests of an endpoint within a second.
        let endpoints = rules.iter().filter(|rule| rule["endpoint"].is_string());
        assert_eq!(endpoints.count() > 0, window != "1s", "{policy}");
    }
}

/// The figures in docs/simulate.md.
#[test]
fn the_figures_of_a_real_access_log_are_those_of_the_document() {
    for (most, limit, refused, clients_refused) in
        [("0.1%", 130, 0, 0), ("1%", 88, 20, 1), ("5%", 47, 165, 6)]
    {
        let share = most.trim_end_matches('%').parse().expect("a number");
        let (promised, policy) = check(&["--refuse-at-most", most], REAL, "", share);
        let figures = (&promised["refused"], &promised["clients_refused"]);
        assert_eq!(figures, (&refused.into(), &clients_refused.into()), "{policy}");
        assert_eq!(rule(&promised, "per_address")["limit"], limit, "{policy}");
    }
}

#[test]
fn limits_have_the_headroom_that_was_asked_for() {
    let (promised, policy) = check(&["--headroom", "50%"], "-", &skewed(), 0.1);
    for rule in promised["rules"].as_array().expect("rules") {
        let (limit, needed) = (rule["limit"].as_u64().unwrap(), rule["needed"].as_u64().unwrap());
        assert!(limit * 2 >= needed * 3, "{rule}");
        assert!(limit < needed * 2 || limit == 10, "{rule}");
        assert!(rule["busiest"].as_u64().unwrap() >= needed, "{rule}");
    }
    assert_eq!(rule(&promised, "per_address")["identifier_type"], "ip");
    let login = rule(&promised, "post_login");
    assert_eq!(login["endpoint"], "/login");
    assert_eq!(login["methods"], serde_json::json!(["POST"]));
    assert!(!policy.contains("favicon"), "files get no limits: {policy}");
    assert!(policy.contains("Headroom 50 %"), "{policy}");
    assert!(policy.contains("by the busiest client"), "{policy}");
}

#[test]
fn a_higher_share_gives_lower_limits() {
    let (none, _) = check(&["--refuse-at-most", "0%"], "-", &skewed(), 0.0);
    let (some, _) = check(&["--refuse-at-most", "5%"], "-", &skewed(), 5.0);
    let limit = |promised: &Value| rule(promised, "per_address")["limit"].as_u64().unwrap();
    assert!(limit(&some) < limit(&none), "{some} {none}");
    assert!(some["clients_refused"].as_u64() > none["clients_refused"].as_u64());
}

#[test]
fn classes_of_clients_have_their_own_limits() {
    let mut trace = String::new();
    for i in 0..2_000 {
        let t_ms = i * 50;
        trace += &match i % 4 {
            0 => format!(
                "{{\"t_ms\":{t_ms},\"user_id\":\"free-{}\",\"tier\":\"free\",\"ip\":\"192.0.2.1\"}}\n",
                i % 40
            ),
            1 => format!(
                "{{\"t_ms\":{t_ms},\"user_id\":\"pro-{}\",\"tier\":\"pro\",\"ip\":\"192.0.2.1\"}}\n",
                i % 8
            ),
            2 => format!("{{\"t_ms\":{t_ms},\"api_key\":\"key-{}\"}}\n", i % 12),
            _ => format!("{{\"t_ms\":{t_ms},\"ip\":\"198.51.100.{}\"}}\n", i % 80),
        };
    }
    let (promised, policy) = check(&[], "-", &trace, 0.1);
    let free = rule(&promised, "per_user_free");
    let pro = rule(&promised, "per_user_pro");
    assert_eq!((&free["tier"], &pro["tier"]), (&"free".into(), &"pro".into()));
    assert!(free["limit"].as_u64() < pro["limit"].as_u64(), "{policy}");
    // Requests with a user or a key are not those of an address, too.
    assert_eq!(rule(&promised, "per_address")["requests"], 500, "{policy}");
    assert_eq!(rule(&promised, "per_api_key")["requests"], 500, "{policy}");
    assert!(!policy.contains("key-"), "API keys are secrets: {policy}");
}

/// A trace in which a few users search often, addresses less often, and one key hardly ever; all users come from one address.
fn searches() -> String {
    let mut trace = String::new();
    for i in 0..3_000_u64 {
        let (t_ms, second) = (i * 100, i / 10);
        let (path, client) = match i % 10 {
            7 if i < 200 => ("/search", "\"api_key\":\"rare\"".to_owned()),
            at @ 0..=5 => {
                let path = if at < 3 { "/search" } else { "/other" };
                (path, format!("\"user_id\":\"u{}\",\"ip\":\"192.0.2.1\"", second % 4))
            }
            at => {
                let path = if at < 8 { "/search" } else { "/other" };
                (path, format!("\"ip\":\"198.51.100.{}\"", second % 6))
            }
        };
        trace +=
            &format!("{{\"t_ms\":{t_ms},\"method\":\"GET\",\"endpoint\":\"{path}\",{client}}}\n");
    }
    trace
}

/// An endpoint got a rule for its most frequent class only: others were limited by nothing there, or by the address.
#[test]
fn an_endpoint_has_a_rule_for_each_class_of_its_clients() {
    for (headroom, refused, most) in [("0%", "0%", 0.0), ("20%", "0.1%", 0.1), ("0%", "10%", 10.0)]
    {
        let arguments = ["--headroom", headroom, "--refuse-at-most", refused];
        let (promised, policy) = check(&arguments, "-", &searches(), most);
        let user = rule(&promised, "search_per_user");
        let address = rule(&promised, "search_per_address");
        assert_eq!(
            (&user["identifier_type"], &address["identifier_type"]),
            (&"user_id".into(), &"ip".into())
        );
        assert_eq!(
            (&user["endpoint"], &address["endpoint"]),
            (&"/search".into(), &"/search".into())
        );
        // Users are not counted by the address that all of them come from.
        assert_eq!(user["replaces"], serde_json::json!(["search_per_address"]), "{policy}");
        let by_address = address["requests"].as_u64().expect("a number");
        assert_eq!(by_address, 580, "{policy}");
        assert!(address["limit"].as_u64() < user["limit"].as_u64(), "{policy}");
        // Twenty requests of a key say nothing.
        let rules = promised["rules"].as_array().expect("rules").iter();
        let mut keys = rules.filter(|rule| rule["identifier_type"] == "api_key");
        assert!(keys.next().is_none(), "{policy}");
    }
}

#[test]
fn names_of_the_traffic_cannot_break_the_policy() {
    let mut log = String::new();
    for i in 0..400 {
        let path =
            ["/a%22b:%20%23c/{x}/*", "/%E2%80%AE/..%2f", "/-/'x'/&amp;", "/$(id)/`id`"][i % 4];
        let second = i / 10;
        log += &format!(
            "192.0.2.{} - - [15/Nov/2026:10:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5\n",
            i % 7
        );
    }
    let (_, policy) = check(&["--refuse-at-most", "20%"], "-", &log, 20.0);
    assert!(policy.is_ascii(), "{policy}");
}

#[test]
fn the_table_says_what_each_rule_touches() {
    let ran = tollgate(&["recommend", "--refuse-at-most", "5%", EXAMPLE], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in
        ["headroom 20 %, at most 5 % of requests refused", "per_address", "busiest", "replayed: "]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let yaml = tollgate(&["recommend", "--yaml", EXAMPLE], "");
    assert!(yaml.stdout.starts_with("# Proposed by tollgate recommend"), "{}", yaml.stdout);
}

#[test]
fn what_cannot_be_used_is_reported() {
    let check = |arguments: &[&str], input: &str, said: &str| {
        let ran = tollgate(&[&["recommend"], arguments].concat(), input);
        assert_eq!(ran.code, 2, "{arguments:?}");
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    };
    check(&["--headroom", "many", "-"], "", "write a share from 0% to 1000%");
    check(&["--refuse-at-most", "101%", "-"], "", "write a share from 0% to 100%");
    check(&["--window", "1 month", "-"], "", "write it like 10s, 1m or 1h");
    check(&["-o", "/no/such/policy.yaml", EXAMPLE], "", "create the folder first");
    check(&["no-such.log"], "", "no-such.log");
    check(
        &["-"],
        "host.example - - [15/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n",
        "nothing to count by",
    );
    assert!(Path::new(EXAMPLE).exists());
}
