//! `tollgate rules list` and `get`: the rules that a server has in force.

use std::process::ExitCode;

use serde::Deserialize;
use tollgate::rules::{AlgorithmName, parse_window};

use super::client::{Remote, segment};
use super::envoy_limits;
use super::fields::RawFields;
use super::list::FullList;
use crate::arguments::{GetRuleArguments, ListRulesArguments};
use crate::failure::Failure;
use crate::output::print;
use crate::table::{Column, table};
use crate::terminal::{count, lasting, quota, span};

const RULES: &str = "/api/v1/rules";

/// A rule in a line. What a document leaves out has its default.
#[derive(Debug, Deserialize)]
struct RuleRow {
    rule_id: String,
    limit: u64,
    window_seconds: Option<f64>,
    window: Option<String>,
    time_zone: Option<String>,
    algorithm: Option<String>,
    burst: Option<u64>,
    candidate: Option<TriedQuota>,
    identifier_type: OneOrManyText,
    action: Option<String>,
    enabled: Option<bool>,
}

/// The limit that is tried beside that of a rule. What it leaves out is as the rule has it.
#[derive(Debug, Deserialize)]
struct TriedQuota {
    limit: Option<u64>,
    window_seconds: Option<f64>,
    window: Option<String>,
    algorithm: Option<String>,
    burst: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrManyText {
    One(String),
    Many(Vec<String>),
}

/// Prints all rules, one a line.
pub(crate) fn list(arguments: &ListRulesArguments) -> Result<ExitCode, Failure> {
    let (remote, as_json) = (Remote::new(&arguments.server)?, arguments.server.json);
    if arguments.envoy {
        print(&envoy_limits::list(&remote, as_json)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let list = FullList::read(&remote, RULES, "rules")?;
    if as_json {
        print(&list.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rules = list.rows()?;
    let hint = if rules.is_empty() { envoy_limits::hint(&remote) } else { None };
    print(&(render(&rules) + &hint.unwrap_or_default()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one rule, one field a line.
pub(crate) fn get(arguments: &GetRuleArguments) -> Result<ExitCode, Failure> {
    let path = format!("{RULES}/{}", segment(&arguments.rule_id));
    let response = Remote::new(&arguments.server)?.get::<RawFields>(&path)?;
    print(&if arguments.server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

fn render(rules: &[RuleRow]) -> String {
    let columns = [
        Column::Text("rule"),
        Column::Text("limit"),
        Column::Text("algorithm"),
        Column::Text("counted by"),
        Column::Text("beyond the limit"),
    ];
    let rows: Vec<_> = rules.iter().map(row).collect();
    let summary = format!("{}\n", count(rules.len() as u64, "rule"));
    if rows.is_empty() { summary } else { format!("{}\n{summary}", table(columns, &rows)) }
}

fn row(rule: &RuleRow) -> [String; 5] {
    let window_of = |window: Option<&str>, seconds: Option<f64>| match (window, seconds) {
        (Some(window), _) => match (parse_window(window), &rule.time_zone) {
            (Ok(window), _) => span(window.get()),
            (Err(_), Some(zone)) => format!("{} ({zone})", window.trim_start_matches("1 ")),
            (Err(_), None) => window.to_owned(),
        },
        (None, seconds) => seconds.map(lasting).unwrap_or_default(),
    };
    let window = window_of(rule.window.as_deref(), rule.window_seconds);
    let mut limit = quota(rule.limit, &window, rule.burst.unwrap_or(rule.limit));
    if let Some(TriedQuota { limit: tried, window_seconds, window: text, algorithm, burst }) =
        &rule.candidate
    {
        let own = window_of(text.as_deref(), *window_seconds);
        let tried = tried.unwrap_or(rule.limit);
        let kept = rule.burst.filter(|_| algorithm.is_none());
        let burst = burst.or(kept).unwrap_or(tried);
        let of = quota(tried, if own.is_empty() { &window } else { &own }, burst);
        let by = algorithm.as_ref().map(|it| format!(" {it}")).unwrap_or_default();
        limit += &format!("; candidate {of}{by}");
    }
    let action = match (rule.enabled, rule.action.as_deref()) {
        (Some(false), _) => "switched off",
        (_, action) => action.unwrap_or("reject"),
    };
    let counted_by = match &rule.identifier_type {
        OneOrManyText::One(one) => one.clone(),
        OneOrManyText::Many(many) => many.join(", "),
    };
    [
        rule.rule_id.clone(),
        limit,
        rule.algorithm.clone().unwrap_or_else(|| AlgorithmName::default().0.name().to_owned()),
        counted_by,
        action.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use tollgate::rules::Source;

    use super::*;

    const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 1000, window_seconds: 0.5, identifier_type: user_id}
  - {rule_id: old, limit: 5, window: 1h30m, identifier_type: [tenant, ip], algorithm: gcra, burst: 9, enabled: false}
  - {rule_id: watch, limit: 5, window_seconds: 60, identifier_type: global, action: log_only}
";
    const MONTHLY: &str = "
rules:
  - {rule_id: plan, limit: 10000, window: 1 month, time_zone: Europe/Berlin, algorithm: fixed_window, identifier_type: tenant}
";

    #[test]
    fn a_rule_is_a_line() {
        let check = |policy: &str, expected: &str| {
            let document = Source::parse(policy).document;
            let answer = serde_json::to_string(&document.rules).expect("JSON");
            let rules: Vec<RuleRow> = serde_json::from_str(&answer).expect("an answer");
            assert_eq!(render(&rules), expected);
        };
        check(
            POLICY,
            " rule      limit                    algorithm               counted by  beyond the limit
 per_user  1,000 / 500 ms           sliding_window_counter  user_id     reject
 old       5 / 1 h 30 min, burst 9  gcra                    tenant, ip  switched off
 watch     5 / 1 min                sliding_window_counter  global      log_only

3 rules
",
        );
        check(
            MONTHLY,
            " rule  limit                           algorithm     counted by  beyond the limit
 plan  10,000 / month (Europe/Berlin)  fixed_window  tenant      reject

1 rule
",
        );
        check(
            "rules: [{rule_id: api, limit: 1000, window: 1m, identifier_type: ip, candidate: {limit: 800}}]",
            " rule  limit                                 algorithm               counted by  beyond the limit
 api   1,000 / 1 min; candidate 800 / 1 min  sliding_window_counter  ip          reject

1 rule
",
        );
        check("rules: []", "0 rules\n");
    }

    #[test]
    fn a_field_is_a_line() {
        let document = Source::parse(POLICY).document;
        let answer = serde_json::to_string(&document.rules[1]).expect("JSON");
        let answer: RawFields = serde_json::from_str(&answer).expect("an answer");
        let expected = " field            value
 rule_id          old
 limit            5
 window           1h30m
 algorithm        gcra
 burst            9
 identifier_type  [\"tenant\",\"ip\"]
 enabled          false
";
        assert_eq!(answer.render(), expected);
    }
}
