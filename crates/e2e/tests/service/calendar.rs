//! Quotas per day and month of the calendar, as clients see them.

use serde_json::Value;

use tollgate_e2e::server::{Server, Setup};

const RULES: &str = "
rules:
  - {rule_id: daily, limit: 50, window: 1 day, time_zone: UTC, algorithm: fixed_window, identifier_type: user_id}
  - {rule_id: monthly, limit: 60, window: 1 month, time_zone: America/Sao_Paulo, algorithm: fixed_window,
     identifier_type: user_id}
";
const BODY: &str = r#"{"identifiers":{"user_id":"ann"}}"#;
const DAY: u64 = 86_400;

fn start() -> Server {
    Server::start(&Setup { rules: Some(RULES), ..Setup::default() })
}

#[test]
fn a_check_reports_when_the_calendar_resets_it() {
    let server = start();
    let answer = server.post("/api/v1/rate-limit/check", BODY);
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    let rule = |id: &str| {
        let rules = told["rules"].as_array().expect("rules");
        rules.iter().find(|rule| rule["rule_id"] == id).expect("the rule").clone()
    };
    let number = |value: &Value| value.as_u64().expect("a number");
    let (daily, monthly) = (rule("daily"), rule("monthly"));
    assert_eq!(number(&daily["reset_at"]) % DAY, 0, "midnight: {daily}");
    assert_eq!(daily["window_seconds"], 86_400);
    // São Paulo has been three hours behind UTC since 2019.
    assert_eq!(number(&monthly["reset_at"]) % DAY, 3 * 3_600, "midnight there: {monthly}");
    let length = monthly["window_seconds"].as_f64().expect("a number") / 86_400.0;
    assert!([28.0, 29.0, 30.0, 31.0].contains(&length), "{monthly}");
    let explained = server.post("/api/v1/rate-limit/explain", BODY);
    let quotas = explained.json()["rules"].clone();
    assert_eq!(quotas[0]["quota"]["calendar"], "day (UTC)", "{quotas}");
    assert_eq!(quotas[1]["quota"]["calendar"], "month (America/Sao_Paulo)", "{quotas}");
}

#[test]
fn header_fields_tell_the_window_of_the_calendar() {
    let server = start();
    let answer = server.post("/api/v1/rate-limit/check", BODY);
    let policy = answer.header("ratelimit-policy").expect("the field").to_owned();
    assert!(policy.contains("\"daily\";q=50;w=86400"), "{policy}");
    let reset = answer.header("x-ratelimit-reset").expect("the field");
    assert_eq!(reset.parse::<u64>().expect("a time") % DAY, 0, "{answer:?}");
}
