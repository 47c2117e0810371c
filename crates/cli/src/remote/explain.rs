//! `tollgate explain`: which rules were considered for a request, which of them apply, and which one
//! binds.

use std::process::ExitCode;

use serde_json::Value;

use super::answer::{ExplainAnswer, Figures, Listed, RuleExplained};
use super::client::Client;
use super::layout::{Column, print, printable, table};
use super::request::Question;
use crate::arguments::ExplainArguments;
use crate::failure::Failure;
use crate::terminal::{grouped, span};

/// Asks and prints the explanation. Nothing is charged.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<ExitCode, Failure> {
    let client = Client::new(&arguments.server)?;
    let question = Question::about(&arguments.request).to_json();
    let answer = client.post::<ExplainAnswer>("/api/v1/rate-limit/explain", question, None)?;
    print(&if arguments.server.json { answer.text } else { render(&answer.value) })?;
    Ok(ExitCode::SUCCESS)
}

fn render(answer: &ExplainAnswer) -> String {
    let mut lines = heading(answer);
    if answer.rules.is_empty() {
        return lines + "there are no rules\n";
    }
    let columns = [
        Column::Text("rule"),
        Column::Text(""),
        Column::Figure("cost"),
        Column::Figure("left"),
        Column::Figure("limit"),
        Column::Figure("window"),
        Column::Figure("full again in"),
        Column::Text("key"),
        Column::Text("because"),
    ];
    let rows: Vec<_> = answer.rules.iter().map(|rule| row(answer, rule)).collect();
    lines += &format!("\n{}", table(columns, &rows));
    lines
}

fn heading(answer: &ExplainAnswer) -> String {
    let mut lines = match (&answer.tier, &answer.tier_from) {
        (Some(tier), from) => format!("tier {}, {}\n", printable(tier), origin(from)),
        (None, _) => "no tier\n".to_owned(),
    };
    if let Some(path) = &answer.path {
        lines += &format!("path {}\n", printable(path));
    }
    if let Some(listed) = &answer.listed {
        lines += &format!("{}\n", list_entry(listed));
    }
    lines += &match &answer.binding {
        Some(rule) => format!("{} binds\n", printable(rule)),
        None => "no rule binds\n".to_owned(),
    };
    lines
}

fn origin(from: &Value) -> String {
    match from {
        Value::String(word) if word == "request" => "says the request".to_owned(),
        Value::String(word) if word == "default" => "by default".to_owned(),
        Value::Object(_) => {
            let kind = from.get("directory").and_then(Value::as_str).unwrap_or("the client");
            format!("known by {}", printable(kind))
        }
        other => printable(&other.to_string()),
    }
}

fn list_entry(listed: &Listed) -> String {
    let verdict = match listed.list.as_str() {
        "allow" => "never limited, listed by",
        "deny" => "always refused, listed by",
        other => other,
    };
    let reason = listed.reason.as_deref().map(|reason| format!(": {reason}"));
    let until = listed.expires_at.as_deref().map(|time| format!(", until {time}"));
    let (reason, until) = (reason.unwrap_or_default(), until.unwrap_or_default());
    printable(&format!("{verdict} {}{reason}{until}", listed.by))
}

fn row(answer: &ExplainAnswer, rule: &RuleExplained) -> [String; 9] {
    let verdict = match answer.binding.as_deref() {
        _ if rule.refuses => "refuses",
        _ if !rule.applies => "-",
        Some(binding) if binding == rule.rule_id => "binds",
        _ if rule.log_only => "watches",
        _ => "applies",
    };
    let figures = answer.figures.iter().find(|figures| figures.rule_id == rule.rule_id);
    let of_figures = |show: fn(&Figures) -> String| figures.map(show).unwrap_or_default();
    let key: Vec<String> =
        rule.key.iter().map(|part| format!("{}={}", part.identifier_type, part.value)).collect();
    let because = match &rule.quota.override_by {
        Some(kind) => format!("{}; the limit is an override by {kind}", rule.because),
        None => rule.because.clone(),
    };
    [
        rule.rule_id.clone(),
        verdict.to_owned(),
        if rule.applies { grouped(rule.cost) } else { String::new() },
        of_figures(|figures| grouped(figures.remaining)),
        grouped(rule.quota.capacity),
        span(rule.quota.window_ms.saturating_mul(1_000)),
        of_figures(|figures| span(figures.reset_ms.saturating_mul(1_000))),
        key.join(" "),
        because,
    ]
}

#[cfg(test)]
mod tests {
    use tollgate::{Limiter, ManualClock, MemoryStore, Policy, Request, Timestamp};

    use super::*;

    const POLICY: &str = "
tiers: [{tier: free, default: true}, {tier: pro}]
rules:
  - {rule_id: address, limit: 100, window: 1m, identifier_type: ip, algorithm: fixed_window}
  - {rule_id: user, limit: 1000, window: 1h, identifier_type: user_id, algorithm: fixed_window}
  - {rule_id: watch, limit: 1, window: 500ms, identifier_type: user_id, algorithm: fixed_window, action: log_only}
  - {rule_id: posts, limit: 5, window: 1m, identifier_type: user_id, applies_to: {methods: [POST]}}
  - {rule_id: keyed, limit: 5, window: 1m, identifier_type: api_key, on_missing: deny, applies_to: {endpoints: [/keyed]}}
overrides: [{identifier_type: user_id, identifier: olga, rule_id: user, limit: 4}]
blacklist: [{identifier_type: ip, identifier: 192.0.2.0/24, reason: abuse, expires_at: '2030-01-01T00:00:00Z'}]
";

    /// Compares what is shown of a limiter's own explanation.
    fn check(request: &Request<'_>, expected: &str) {
        let limiter = Limiter::builder()
            .policy(Policy::from_text(POLICY).expect("a sound policy"))
            .store(MemoryStore::with_bytes(0))
            .clock(ManualClock::at(Timestamp::from_secs(1_700_006_400)))
            .build();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert!(limiter.check_now(&Request::new().user_id("olga")).is_allowed());
        let explained = runtime.block_on(limiter.explain(request));
        let answer = serde_json::to_string(&explained).expect("JSON");
        let answer: ExplainAnswer = serde_json::from_str(&answer).expect("an answer");
        assert_eq!(render(&answer), expected);
    }

    #[test]
    fn every_rule_is_shown_with_its_reason() {
        check(
            &Request::new().user_id("olga").method("GET").path("/home").cost(2),
            "\
tier free, by default
path /home
user binds

 rule              cost  left  limit     window  full again in  key           because
 keyed    -                        5  1 min 0 s                               the path is `/home`, which is none of its endpoints
 posts    -                        5  1 min 0 s                               the method is `GET`, not POST
 address  -                      100  1 min 0 s                               the request has no ip
 user     binds       2     3      4  1 h 0 min      1 h 0 min  user_id=olga  it asks for nothing in particular; the limit is an override by user_id
 watch    watches     2     0      1     500 ms         500 ms  user_id=olga  it asks for nothing in particular
",
        );
        check(
            &Request::new().ip("192.0.2.7").tier("pro").method("GET").path("/keyed"),
            "\
tier pro, says the request
path /keyed
always refused, listed by 192.0.2.0/24: abuse, until 2030-01-01T00:00:00Z
no rule binds

 rule              cost  left  limit     window  full again in  key           because
 keyed    refuses     1            5  1 min 0 s                               the request has no api_key, and the rule refuses such requests
 posts    -                        5  1 min 0 s                               the method is `GET`, not POST
 address  applies     1          100  1 min 0 s                 ip=192.0.2.7  it asks for nothing in particular
 user     -                    1,000  1 h 0 min                               the request has no user_id
 watch    -                        1     500 ms                               the request has no user_id
",
        );
    }
}
