//! `tollgate check`: may this request pass? The exit code says so too.

use std::process::ExitCode;

use tollgate::Timestamp;
use tollgate_api::{CheckResponse, Reason, RuleResult, State};

use super::client::Remote;
use super::request;
use crate::arguments::CheckArguments;
use crate::failure::Failure;
use crate::output::{Mood, Paint, print};
use crate::table::{Column, table};
use crate::terminal::{grouped, lasting, moment, printable, quota, span};

/// The exit code of a refusal.
const REFUSED: u8 = 1;

/// Checks a request and prints the decision. The exit code is 0 for allowed, 1 for refused.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let path = if arguments.peek { "/api/v1/rate-limit/peek" } else { "/api/v1/rate-limit/check" };
    let remote = Remote::for_checks(&arguments.server)?;
    let response = remote.post::<CheckResponse<'_>>(path, &request::check(arguments))?;
    let allowed = response.value.allowed;
    if arguments.server.json {
        print(&response.text)?;
    } else {
        let (word, mood) = match allowed {
            true if arguments.peek => ("not charged", Mood::Good),
            true => ("allowed", Mood::Good),
            false => ("refused", Mood::Bad),
        };
        let word = Paint::of_output().colour(word, mood);
        print(&format!("{word}{}", rest(&response.value)))?;
    }
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// Everything after the first word.
fn rest(response: &CheckResponse<'_>) -> String {
    let mut lines = format!("{}\n", sentence(response));
    lines += &figures(response.rules.as_deref().unwrap_or_default());
    if let Some(id) = &response.decision_id {
        lines += &format!("\ndecision {}\n", printable(id));
    }
    lines
}

/// An empty line and a table of the rules that applied; nothing if none did.
pub(super) fn figures(rules: &[RuleResult<'_>]) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let columns = [
        Column::Text("rule"),
        Column::Text(""),
        Column::Figure("cost"),
        Column::Figure("left"),
        Column::Text("limit"),
        Column::Text("full again"),
    ];
    let rows: Vec<_> = rules.iter().map(row).collect();
    format!("\n{}", table(columns, &rows))
}

/// ` by per_user: 3 of 10 left, full again 2026-11-15 10:00:00 UTC`.
fn sentence(response: &CheckResponse<'_>) -> String {
    let by = response.rule_id.as_ref().map(|rule| format!(" by {}", printable(rule)));
    let mut rules = response.rules.iter().flatten();
    let binding = rules.find(|rule| Some(&rule.rule_id) == response.rule_id.as_ref());
    let mut facts = Vec::new();
    match response.reason {
        _ if response.because.is_some() => {
            facts.extend(response.because.as_deref().map(printable));
        }
        // An older server does not say more.
        Some(Reason::Banned) => facts.push("banned".to_owned()),
        Some(Reason::Denied) => facts.push("not welcome, whatever the limits".to_owned()),
        Some(Reason::StoreUnavailable) => facts.push("the limit cannot be checked".to_owned()),
        _ if response.limit.is_none() && response.degraded.is_some() => {
            facts.push("no limit was checked".to_owned());
        }
        _ if response.limit.is_none() => facts.push("no rule applies".to_owned()),
        _ => {}
    }
    if let (Some(remaining), Some(limit)) = (response.remaining, response.limit) {
        facts.push(format!("{} of {} left", grouped(remaining), grouped(limit)));
    }
    match (response.retry_after.flatten(), response.reason) {
        (Some(seconds), _) => {
            facts.push(format!("try again in {}", span(seconds.saturating_mul(1_000_000))));
        }
        (None, Some(Reason::RateLimited)) => {
            facts.push(never(binding.map(|rule| (rule.cost, rule.limit))));
        }
        (None, _) => {
            let full = binding.map(|rule| format!("full again {}", at_second(full_at(rule))));
            let resets = || response.reset_at.map(|at| format!("resets {}", at_second(at)));
            facts.extend(full.or_else(resets));
        }
    }
    if response.state == State::Warning && response.allowed {
        facts.push("close to the limit".to_owned());
    }
    let delay = response.delay_ms.map(|delay| span(delay.saturating_mul(1_000)));
    facts.extend(delay.map(|delay| format!("to be delayed by {delay}")));
    let degraded = response.degraded.as_deref().map(printable);
    // Rules that fail open or closed count nothing.
    let counted = response.limit.map_or("", |_| "counted ");
    facts.extend(degraded.map(|why| format!("{counted}without the shared store: {why}")));
    format!("{}: {}", by.unwrap_or_default(), facts.join(", "))
}

/// Why waiting does not help, by the cost and the limit if they are known.
pub(super) fn never(figures: Option<(u64, u64)>) -> String {
    match figures {
        Some((cost, limit)) => format!(
            "it costs {} and the limit is {}: it can never pass",
            grouped(cost),
            grouped(limit)
        ),
        None => "it can never pass".to_owned(),
    }
}

fn row(rule: &RuleResult<'_>) -> [String; 6] {
    let result = match (rule.allowed, rule.shadow) {
        (true, _) => "fits",
        (false, false) => "exceeded",
        (false, true) => "exceeded, but only watching",
    };
    [
        rule.rule_id.to_string(),
        result.to_owned(),
        grouped(rule.cost),
        grouped(rule.remaining),
        limit(rule),
        at_second(full_at(rule)),
    ]
}

fn limit(rule: &RuleResult<'_>) -> String {
    let (limit, window) = match rule.quota {
        Some(written) => (written.limit, written.window_seconds),
        None => (rule.limit, rule.window_seconds),
    };
    quota(limit, &lasting(window), rule.limit)
}

/// An older server has no `full_at`; its `reset_at` has that meaning.
fn full_at(rule: &RuleResult<'_>) -> u64 {
    rule.full_at.unwrap_or(rule.reset_at)
}

fn at_second(seconds: u64) -> String {
    moment(Timestamp::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(response: &str, expected: &str) {
        let response: CheckResponse<'_> = serde_json::from_str(response).expect("a response");
        assert_eq!(rest(&response), expected);
    }

    #[test]
    fn the_decision_in_a_sentence() {
        check(
            r#"{"allowed":true,"limit":1000,"remaining":999,"reset_at":1431857103,"rule_id":"api","state":"normal","decision_id":"d1"}"#,
            " by api: 999 of 1,000 left, resets 2015-05-17 10:05:03 UTC\n\ndecision d1\n",
        );
        check(
            r#"{"allowed":true,"limit":null,"remaining":null,"reset_at":null,"rule_id":null,"state":"normal"}"#,
            ": no rule applies\n",
        );
        check(
            r#"{"allowed":true,"limit":10,"remaining":1,"reset_at":1431857103,"rule_id":"api","state":"warning","delay_ms":120,"degraded":"timeout"}"#,
            " by api: 1 of 10 left, resets 2015-05-17 10:05:03 UTC, close to the limit, \
             to be delayed by 120 ms, counted without the shared store: timeout\n",
        );
        check(
            r#"{"allowed":false,"limit":10,"remaining":0,"reset_at":1431857103,"rule_id":"api","state":"warning","retry_after":60,"reason":"rate_limited"}"#,
            " by api: 0 of 10 left, try again in 1 min\n",
        );
        check(
            r#"{"allowed":false,"limit":10,"remaining":10,"reset_at":1431857103,"rule_id":"api","state":"normal","retry_after":null,"reason":"rate_limited"}"#,
            " by api: 10 of 10 left, it can never pass\n",
        );
        check(
            r#"{"allowed":false,"limit":5,"remaining":5,"reset_at":1431857103,"rule_id":"api","state":"normal","retry_after":null,"reason":"rate_limited",
                "rules":[{"rule_id":"api","allowed":false,"limit":5,"remaining":5,"window_seconds":60.0,"cost":6,"reset_at":1431857103,"state":"normal"}]}"#,
            " by api: 5 of 5 left, it costs 6 and the limit is 5: it can never pass

 rule            cost  left  limit      full again
 api   exceeded     6     5  5 / 1 min  2015-05-17 10:05:03 UTC
",
        );
        check(
            r#"{"allowed":false,"limit":null,"remaining":null,"reset_at":null,"rule_id":null,"state":"normal","retry_after":null,"reason":"denied"}"#,
            ": not welcome, whatever the limits\n",
        );
        let decided = |rest: &str, expected: &str| {
            let figures = r#""limit":null,"remaining":null,"reset_at":null,"state":"normal""#;
            check(&format!("{{{figures},{rest}}}"), expected);
        };
        decided(
            r#""allowed":false,"rule_id":"per_user","retry_after":600,"reason":"banned","because":"banned until 2026-11-15T10:00:00Z""#,
            " by per_user: banned until 2026-11-15T10:00:00Z, try again in 10 min\n",
        );
        decided(
            r#""allowed":false,"rule_id":"per_user","retry_after":600,"reason":"banned""#,
            " by per_user: banned, try again in 10 min\n",
        );
        decided(
            r#""allowed":true,"rule_id":null,"because":"the client is whitelisted""#,
            ": the client is whitelisted\n",
        );
        decided(
            r#""allowed":false,"rule_id":"keys","retry_after":null,"reason":"denied","because":"it has no api_key""#,
            " by keys: it has no api_key\n",
        );
        check(
            r#"{"allowed":false,"limit":null,"remaining":null,"reset_at":null,"rule_id":"api","state":"normal","retry_after":5,"reason":"store_unavailable"}"#,
            " by api: the limit cannot be checked, try again in 5 s\n",
        );
        decided(
            r#""allowed":false,"rule_id":"login","retry_after":5,"reason":"store_unavailable","degraded":"unavailable""#,
            " by login: the limit cannot be checked, try again in 5 s, without the shared store: unavailable\n",
        );
        decided(
            r#""allowed":true,"rule_id":null,"degraded":"timeout""#,
            ": no limit was checked, without the shared store: timeout\n",
        );
    }

    #[test]
    fn a_line_for_each_rule() {
        check(
            r#"{"allowed":true,"limit":10,"remaining":9,"reset_at":1431857103,"rule_id":"api","state":"normal","rules":[
                {"rule_id":"api","allowed":true,"limit":10,"remaining":9,"window_seconds":5,"quota":{"limit":2,"window_seconds":1},"cost":1,"reset_at":1431857100,"full_at":1431857103,"state":"normal"},
                {"rule_id":"\u001b[31mwatch","allowed":false,"shadow":true,"limit":1,"remaining":0,"window_seconds":0.25,"cost":2,"reset_at":1431857103,"state":"warning"}]}"#,
            " by api: 9 of 10 left, full again 2015-05-17 10:05:03 UTC

 rule                                     cost  left  limit              full again
 api         fits                            1     9  2 / 1 s, burst 10  2015-05-17 10:05:03 UTC
 \u{fffd}[31mwatch  exceeded, but only watching     2     0  1 / 250 ms         2015-05-17 10:05:03 UTC
",
        );
    }
}
