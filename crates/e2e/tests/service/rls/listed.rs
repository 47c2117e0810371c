//! The limits in force: listed, reset, and how their last load ended.

use serde_json::{Value, json};

use super::{ask, start, start_with, write};
use tollgate_e2e::grpc::Client;
use tollgate_e2e::server::{ADMIN_TOKEN, Server, Setup, tollgate};
use tollgate_e2e::until;

const FILE: &str = "
domain: test
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: user, value: root, rate_limit: {unlimited: true, name: all, replaces: [{name: other}]}}
  - key: path
    value: /login
    descriptors:
      - key: ip
        shadow_mode: true
        rate_limit: {unit: minute, requests_per_unit: 5, algorithm: gcra}
";
const LIMITS: &str = "/api/v1/envoy/limits";
const RESET: &str = "/api/v1/rate-limit/reset";

fn limits(server: &Server, query: &str) -> Value {
    let answer = server.get_as_admin(&format!("{LIMITS}{query}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn ids(answer: &Value) -> Vec<&str> {
    let limits = answer["limits"].as_array().expect("limits").iter();
    limits.map(|limit| limit["rule_id"].as_str().expect("an id")).collect()
}

/// What `tollgate rules` prints.
fn rules(server: &Server, arguments: &[&str]) -> String {
    let mut command = tollgate();
    command.args(["rules", "list", "--server", &server.url(""), "--token", ADMIN_TOKEN]);
    let ran = command.args(arguments).output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).expect("a text")
}

#[test]
fn the_limits_of_files_are_listed() {
    let server = start(FILE);
    let file = server.folder().join("ratelimit/test.yaml").display().to_string();
    let all = limits(&server, "");
    let login = "test.path_-login.ip-";
    assert!(ids(&all)[0].starts_with(login), "{all}");
    assert_eq!(ids(&all)[1..], ["test.user", "test.user_root"]);
    let expected = json!({
        "rule_id": ids(&all)[0], "domain": "test",
        "descriptors": [{"key": "path", "value": "/login"}, {"key": "ip"}],
        "requests_per_unit": 5, "unit": "minute", "algorithm": "gcra", "unlimited": false,
        "shadow_mode": true, "quota_mode": false, "file": file, "line": 9,
    });
    assert_eq!(all["limits"][0], expected);
    let expected = json!({
        "rule_id": "test.user_root", "domain": "test",
        "descriptors": [{"key": "user", "value": "root"}], "unlimited": true,
        "shadow_mode": false, "quota_mode": false, "name": "all", "replaces": ["other"],
        "file": file, "line": 5,
    });
    assert_eq!(all["limits"][2], expected);
    assert_eq!(all["load"]["error"], Value::Null, "{all}");
    assert_eq!(all["load"]["loaded_at"], all["load"]["tried_at"]);

    let page = server.get_as_admin(&format!("{LIMITS}?limit=1&domain=test"));
    assert_eq!(ids(&page.json()), [ids(&all)[0]]);
    let link = page.header("link").expect("a next page");
    let next = link.trim_start_matches('<').split('>').next().expect("a path");
    assert_eq!(ids(&server.get_as_admin(next).json()), ["test.user"], "{link}");
    assert_eq!(ids(&limits(&server, "?domain=other")), Vec::<&str>::new());
    assert_eq!(server.get_as_admin(&format!("{LIMITS}?limit=0")).status, 400);

    let table = rules(&server, &["--envoy"]);
    assert!(table.contains("path=/login, ip  5 / minute"), "{table}");
    assert!(table.contains("3 limits from "), "{table}");
    let answer: Value =
        serde_json::from_str(&rules(&server, &["--envoy", "--json"])).expect("JSON");
    assert_eq!(answer, all);
    let without = Server::with_rules("rules: []");
    assert!(rules(&without, &["--envoy"]).contains("reads no files of envoyproxy/ratelimit"));
    assert_eq!(rules(&without, &[]), "0 rules\n");
}

#[test]
fn an_empty_list_of_rules_leads_to_the_limits_of_files() {
    let server = start(FILE);
    let said = rules(&server, &[]);
    assert_eq!(said, "0 rules\nThe limits of Envoy's files: tollgate rules list --envoy\n");
}

/// Both knew nothing of them, and did not say so.
#[test]
fn explain_and_check_lead_to_the_limits_of_files() {
    let server = start(FILE);
    let run = |arguments: &[&str]| {
        let mut command = tollgate();
        command.args(arguments).args(["--server", &server.url("")]);
        let ran = command.output().expect("it runs");
        String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned()
    };
    let explained = run(&["explain", "--user-id", "ann"]);
    assert!(explained.contains("tollgate rules list --envoy, POST /json"), "{explained}");
    let checked = run(&["check", "--rule", "test.user", "ann"]);
    assert!(checked.contains("`test.user` is a limit of a file"), "{checked}");
    assert!(checked.contains("POST /json"), "{checked}");
    let unknown = run(&["check", "--rule", "test.other", "ann"]);
    assert!(unknown.contains("there is no rule `test.other`"), "{unknown}");
}

#[test]
fn a_failed_load_is_seen_until_the_files_are_valid_again() {
    let server = start(FILE);
    let directory = server.folder().join("ratelimit");
    let successful = || server.figure("tollgate_envoy_config_last_reload_successful") > 0.5;
    let loaded_at = || server.figure("tollgate_envoy_config_last_reload_success_timestamp_seconds");
    let first = loaded_at();
    assert!(successful() && first > 1.0e9, "{first}");
    assert_eq!(server.get("/health/ready").json()["envoy_load_failed"], false);

    write(&directory, "test.yaml", &FILE.replace("minute", "fortnight"));
    until("a failed load", || (!successful()).then_some(()));
    assert!((loaded_at() - first).abs() < 1e-9, "the time of the last good load");
    let told = limits(&server, "");
    assert!(told["load"]["error"].as_str().is_some_and(|it| it.contains("fortnight")), "{told}");
    assert_eq!(ids(&told).len(), 3, "the last good limits are in force");
    let ready = server.get("/health/ready");
    assert_eq!((ready.status, &ready.json()["envoy_load_failed"]), (200, &json!(true)));
    let table = rules(&server, &["--envoy"]);
    assert!(table.contains("the last load failed at ") && table.contains("fortnight"), "{table}");

    write(&directory, "test.yaml", FILE);
    until("a good load", || successful().then_some(()));
    assert!(loaded_at() > first);
    assert_eq!(limits(&server, "")["load"]["error"], Value::Null);
}

#[test]
fn a_counter_of_a_file_is_reset() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    for user in ["ann", "bob"] {
        let user = format!("user={user}");
        ask(&mut client, &[&[&user]]);
        assert_eq!(ask(&mut client, &[&[&user]]), "OK, OK 0");
    }
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OVER_LIMIT, OVER_LIMIT 0");
    let descriptor = |user: &str| json!({"entries": [{"key": "user", "value": user}]});
    let reset = |domain: &str, descriptors: &[Value]| {
        let body = json!({"domain": domain, "descriptors": descriptors}).to_string();
        server.post_as_admin(RESET, &body)
    };
    let unlimited = descriptor("root");
    let answer = reset("test", &[descriptor("ann"), descriptor("ann"), unlimited]);
    assert_eq!((answer.status, answer.json()), (200, json!({"counters": 1})), "{answer:?}");
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 1");
    assert_eq!(ask(&mut client, &[&["user=bob"]]), "OVER_LIMIT, OVER_LIMIT 0", "another counter");

    let unknown = reset("other", &[descriptor("ann")]);
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_domain"));
    assert_eq!(reset("test", &[]).status, 400);
    let body = json!({"domain": "test", "descriptors": [descriptor("ann")]}).to_string();
    assert_eq!(server.post(RESET, &body).status, 401);
}

/// The log names the counter, not only the rule.
#[test]
fn a_reset_is_in_the_audit_log() {
    let arguments = ["--catalog", "sqlite:tollgate.db"];
    let server = start_with(FILE, &Setup { arguments: &arguments, ..Setup::default() });
    let mut client = Client::of(&server);
    ask(&mut client, &[&["user=ann"]]);
    let entries = json!([{"key": "user", "value": "ann"}]);
    let body = json!({"domain": "test", "descriptors": [{"entries": entries}]});
    assert_eq!(server.post_as_admin(RESET, &body.to_string()).status, 200);
    let record = until("the reset in the log", || {
        let log = server.get_as_admin("/api/v1/audit?kind=counters").json();
        Some(log["records"][0].clone()).filter(Value::is_object)
    });
    assert_eq!(record["entry"], r#"["test.user","user","ann"]"#, "{record}");
    assert_eq!(
        (&record["was"]["remaining"], &record["becomes"]["remaining"]),
        (&json!(1), &json!(2))
    );
}

/// Each limit of a file used to be nine series, also if no request ever met it.
#[test]
fn limits_that_were_never_used_are_not_in_the_metrics() {
    let server = start(FILE);
    let mut client = Client::of(&server);
    ask(&mut client, &[&["user=ann"]]);
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("{rule_id=\"test.user\",outcome=\"allowed\"} 1"), "{metrics}");
    assert!(!metrics.contains("test.path"), "{metrics}");
    let stats = server.get_as_admin("/api/v1/stats").text();
    assert!(stats.contains("test.path"), "every limit is in the statistics: {stats}");
}
