//! `tollgate explain`: whether a request would pass, which rules were considered, which of them apply,
//! and which one binds; or the same of a decision that was made.

use std::process::ExitCode;

use tollgate_api::{
    CheckResponse, CounterFigures, DecisionRecord, ExplainResponse, ListEntry, ListName,
    RecordedKey, RecordedPart, RecordedRequest, RuleExplanation, TierOrigin,
};

use super::check::{figures, never};
use super::client::{Remote, segment};
use super::request::by_request;
use crate::arguments::{ExplainArguments, ServerArguments};
use crate::failure::Failure;
use crate::output::print;
use crate::table::{Column, table};
use crate::terminal::{grouped, printable, quota, span};

/// Where limits are that are no rules.
const ENVOY_LIMITS: &str = "\nThe limits of Envoy's files apply to its calls alone, and are not explained here: \
                            tollgate rules list --envoy, POST /json\n";

/// Prints an explanation. Nothing is charged.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<ExitCode, Failure> {
    if let Some(id) = &arguments.decision {
        return explain_decision(id, &arguments.server);
    }
    let remote = Remote::new(&arguments.server)?;
    let request = by_request(&arguments.request);
    let response = remote.post::<ExplainResponse>("/api/v1/rate-limit/explain", &request)?;
    print(&if arguments.server.json { response.text } else { render(&response.value) })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints why a decision was made.
pub(crate) fn explain_decision(id: &str, server: &ServerArguments) -> Result<ExitCode, Failure> {
    let path = format!("/api/v1/decisions/{}", segment(id));
    let response = Remote::new(server)?.get::<DecisionRecord<'_>>(&path)?;
    print(&if server.json { response.text } else { decided(&response.value) })?;
    Ok(ExitCode::SUCCESS)
}

fn render(response: &ExplainResponse) -> String {
    let mut lines = heading(response);
    let envoy = if response.has_envoy_limits { ENVOY_LIMITS } else { "" };
    if response.rules.is_empty() {
        return lines + "there are no rules\n" + envoy;
    }
    let columns = [
        Column::Text("rule"),
        Column::Text(""),
        Column::Figure("cost"),
        Column::Figure("left"),
        Column::Text("limit"),
        Column::Figure("full again in"),
        Column::Text("key"),
        Column::Text("because"),
    ];
    let rows: Vec<_> = response.rules.iter().map(|rule| row(response, rule)).collect();
    lines += &format!("\n{}{}", table(columns, &rows), store_keys(response));
    lines + envoy
}

/// Where the counters are in Redis, for `tollgate store show`.
fn store_keys(response: &ExplainResponse) -> String {
    let mut keys: Vec<&str> =
        response.figures.iter().filter_map(|figures| figures.store_key.as_deref()).collect();
    keys.sort_unstable();
    keys.dedup();
    match &keys[..] {
        [] => String::new(),
        keys => format!("\ncounters in Redis: {}\n", printable(&keys.join(", "))),
    }
}

/// What is known of a decision that was made.
fn decided(record: &DecisionRecord<'_>) -> String {
    let DecisionRecord { at, because, tier, revision, answer, rules, request, .. } = record;
    let result = if answer.allowed { "allowed" } else { "refused" };
    let tier = tier.as_ref().map_or_else(|| "no tier".to_owned(), |tier| format!("tier {tier}"));
    let told = format!("{result} {at}: {because}");
    let revision = revision.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
    let by = format!("{tier}, revision {revision} of the rules");
    let mut lines = format!("{}\n{}\n", printable(&told), printable(&by));
    if rules.is_empty() && record.revision.is_none() {
        lines += "from the log of decisions, which has only the rule that decided\n";
        lines += &logged_figures(answer);
    }
    for line in request_lines(request) {
        lines += &format!("{}\n", printable(&line));
    }
    lines + &figures(rules)
}

/// The figures of the rule that decided, as the log has them.
fn logged_figures(answer: &CheckResponse<'_>) -> String {
    let CheckResponse { limit, remaining, retry_after, rule_id, .. } = answer;
    let (Some(limit), Some(remaining)) = (limit, remaining) else { return String::new() };
    let rule = rule_id.as_deref().map_or_else(String::new, |rule| format!(" of {rule}"));
    let left = format!("{} of {}{rule} left", grouped(*remaining), grouped(*limit));
    match retry_after {
        Some(Some(seconds)) => {
            format!("{}, to be tried again after {}\n", printable(&left), span(seconds * 1_000_000))
        }
        _ => format!("{}\n", printable(&left)),
    }
}

/// What was recorded of the request, and what each rule counted it by.
fn request_lines(request: &RecordedRequest) -> Vec<String> {
    let RecordedRequest { node, method, endpoint, identifiers, keys } = request;
    let mut lines = Vec::new();
    let words = [method.as_deref(), endpoint.as_deref()];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    let who: Vec<String> = identifiers.iter().map(|(kind, it)| format!("{kind} {it}")).collect();
    let parts = [words.join(" "), who.join(", ")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if !parts.is_empty() {
        lines.push(format!("request {}", parts.join(" of ")));
    }
    for RecordedKey { rule_id, key } in keys {
        let part = |it: &RecordedPart| match &it.value {
            Some(value) => format!("{} {value}", it.identifier_type),
            None => it.identifier_type.clone(),
        };
        let key: Vec<String> = key.iter().map(part).collect();
        lines.push(format!("{rule_id} counts by {}", key.join(", ")));
    }
    lines.extend(node.as_ref().map(|node| format!("decided by node {node}")));
    lines
}

fn heading(response: &ExplainResponse) -> String {
    let mut lines = format!("{}\n", verdict(response));
    lines += &match (&response.tier, &response.tier_from) {
        (Some(tier), from) => format!("tier {}, {}\n", printable(tier), origin(from)),
        (None, _) => "no tier\n".to_owned(),
    };
    if let Some(path) = &response.path {
        lines += &format!("path {}\n", printable(path));
    }
    if let Some(listed) = &response.listed {
        lines += &format!("{}\n", list_entry(listed));
    }
    lines + &of_this_node(response.degraded.as_deref())
}

/// Whether the request would pass, in a sentence.
fn verdict(response: &ExplainResponse) -> String {
    let binding = response.binding.as_deref();
    if response.would_pass {
        let binding = binding.map_or_else(|| "no rule".to_owned(), printable);
        return format!("would pass; {binding} binds");
    }
    let Some(rule) = response.rules.iter().find(|rule| binding == Some(&*rule.rule_id)) else {
        let by = response.rules.iter().find(|rule| rule.refuses && response.listed.is_none());
        if by.is_none() && response.listed.is_none() {
            return "would be refused: no rule applies, and unmatched is deny".to_owned();
        }
        let by = by.map(|rule| format!(" by {}", printable(&rule.rule_id)));
        return format!("would be refused{}, whatever the limits", by.unwrap_or_default());
    };
    if response.store_unavailable {
        return format!(
            "would be refused by {}: the store is away, and the rule fails closed",
            printable(&rule.rule_id)
        );
    }
    let then = match response.retry_ms {
        // In whole seconds, as in a response to a check.
        Some(millis) => {
            let seconds = millis.div_ceil(1_000).max(1);
            format!("try again in {}", span(seconds.saturating_mul(1_000_000)))
        }
        None => never(Some((rule.cost, rule.quota.capacity))),
    };
    format!("would be refused by {}, {then}", printable(&rule.rule_id))
}

/// Whose figures they are while the shared store is away.
pub(crate) fn of_this_node(degraded: Option<&str>) -> String {
    degraded.map_or_else(String::new, |why| {
        format!(
            "without the shared store ({}): what is left is counted by this node alone; beyond it, up to fallback_factor times the limit passes on each node\n",
            printable(why)
        )
    })
}

fn origin(from: &TierOrigin) -> String {
    match from {
        TierOrigin::Directory(kind) => format!("known by {}", printable(kind)),
        TierOrigin::Request => "says the request".to_owned(),
        TierOrigin::Default => "by default".to_owned(),
        _ => "for a reason that this version does not know".to_owned(),
    }
}

fn list_entry(listed: &ListEntry) -> String {
    let effect = match listed.list {
        ListName::Allow => "never limited, listed by",
        ListName::Deny => "always refused, listed by",
    };
    let reason = listed.reason.as_deref().map(|reason| format!(": {reason}"));
    let until = listed.expires_at.as_deref().map(|time| format!(", until {time}"));
    let (reason, until) = (reason.unwrap_or_default(), until.unwrap_or_default());
    printable(&format!("{effect} {}{reason}{until}", listed.by))
}

fn row(response: &ExplainResponse, rule: &RuleExplanation) -> [String; 8] {
    let figures = response.figures.iter().find(|figures| figures.rule_id == rule.rule_id);
    let verdict = match response.binding.as_deref() {
        _ if rule.refuses => "refuses",
        _ if figures.is_some_and(|figures| figures.exceeded) => {
            if rule.log_only {
                "exceeded, but only watching"
            } else {
                "exceeded"
            }
        }
        _ if !rule.applies => "-",
        Some(binding) if binding == rule.rule_id => "binds",
        _ if rule.log_only => "watches",
        _ => "applies",
    };
    let of_figures = |show: fn(&CounterFigures) -> String| figures.map(show).unwrap_or_default();
    let key: Vec<String> =
        rule.key.iter().map(|part| format!("{}={}", part.identifier_type, part.value)).collect();
    let length = || span(rule.quota.window_ms.saturating_mul(1_000));
    let window = rule.quota.calendar.clone().unwrap_or_else(length);
    let mut because = rule.because.clone();
    if let Some(kind) = &rule.quota.override_by {
        because += &format!("; the limit is an override by {kind}");
    }
    if let Some(from) = &rule.quota.limit_from {
        because += &format!("; the limit is from {from}");
    }
    for (what, time) in [
        (" since", &rule.quota.override_starts_at),
        (" until", &rule.quota.override_expires_at),
        ("; an override begins", &rule.quota.next_override_at),
    ] {
        because += &time.as_ref().map(|time| format!("{what} {time}")).unwrap_or_default();
    }
    [
        rule.rule_id.clone(),
        verdict.to_owned(),
        if rule.applies { grouped(rule.cost) } else { String::new() },
        of_figures(|figures| grouped(figures.remaining)),
        quota(rule.quota.limit, &window, rule.quota.capacity),
        of_figures(|figures| span(figures.reset_ms.saturating_mul(1_000))),
        key.join(" "),
        because,
    ]
}

#[cfg(test)]
mod tests {
    use tollgate::{Attribute, Limiter, ManualClock, MemoryStore, Policy, Request, Timestamp};

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

    fn check(request: &Request<'_>, expected: &str) {
        assert_eq!(shown(request), expected);
    }

    /// What is shown of a limiter's own explanation.
    fn shown(request: &Request<'_>) -> String {
        shown_under(POLICY, request)
    }

    fn shown_under(policy: &str, request: &Request<'_>) -> String {
        let limiter = Limiter::builder()
            .policy(Policy::from_text(policy).expect("a valid policy"))
            .store(MemoryStore::with_bytes(0))
            .clock(ManualClock::at(Timestamp::from_secs(1_700_006_400)))
            .build();
        assert!(limiter.check(&Request::new().user_id("olga")).now().is_allowed());
        let explained = limiter.explain(request).now();
        let text = serde_json::to_string(&explained).expect("JSON");
        let response: ExplainResponse = serde_json::from_str(&text).expect("an explanation");
        assert_eq!(serde_json::to_string(&response).expect("JSON"), text);
        render(&response)
    }

    #[test]
    fn the_calendar_and_the_claim_of_a_limit_are_named() {
        let policy = "rules: [{rule_id: plan, limit: 10, window: 1 month, time_zone: Europe/Berlin, \
                      algorithm: fixed_window, identifier_type: user_id, limit_from: {claim: quota, ceiling: 50}}]";
        let request = Request::new().user_id("olga").with(Attribute::Claim("quota"), "70");
        let told = shown_under(policy, &request);
        assert!(told.contains("50 / month (Europe/Berlin)  "), "{told}");
        assert!(told.contains("; the limit is from the ceiling of claim:quota"), "{told}");
    }

    #[test]
    fn every_rule_is_shown_with_its_reason() {
        check(
            &Request::new().user_id("olga").method("GET").path("/home").cost(2),
            "\
would pass; user binds
tier free, by default
path /home

 rule                                  cost  left  limit        full again in  key           because
 keyed    -                                        5 / 1 min                                 the path is `/home`, which is none of its endpoints
 posts    -                                        5 / 1 min                                 the method is `GET`, not POST
 address  -                                        100 / 1 min                               the request has no ip
 user     binds                           2     3  4 / 1 h                1 h  user_id=olga  it applies to every request; the limit is an override by user_id
 watch    exceeded, but only watching     2     0  1 / 500 ms          500 ms  user_id=olga  it applies to every request
",
        );
        check(
            &Request::new().ip("192.0.2.7").tier("pro").method("GET").path("/keyed"),
            "\
would be refused, whatever the limits
tier pro, says the request
path /keyed
always refused, listed by 192.0.2.0/24: abuse, until 2030-01-01T00:00:00Z

 rule              cost  left  limit        full again in  key           because
 keyed    refuses     1        5 / 1 min                                 the request has no api_key, and the rule refuses such requests
 posts    -                    5 / 1 min                                 the method is `GET`, not POST
 address  applies     1        100 / 1 min                 ip=192.0.2.7  it applies to every request
 user     -                    1,000 / 1 h                               the request has no user_id
 watch    -                    1 / 500 ms                                the request has no user_id
",
        );
    }

    /// Earlier versions named the rule that binds, but not whether the request would pass.
    #[test]
    fn the_first_line_says_whether_the_request_would_pass() {
        let check = |request: &Request<'_>, expected: &str| {
            let shown = shown(request);
            assert_eq!(shown.lines().next(), Some(expected), "{shown}");
        };
        let olga = || Request::new().user_id("olga");
        check(&olga().cost(3), "would pass; user binds");
        check(&olga().cost(4), "would be refused by user, try again in 1 h");
        let never = "it costs 5 and the limit is 4: it can never pass";
        check(&olga().cost(5), &format!("would be refused by user, {never}"));
        check(&Request::new(), "would pass; no rule binds");
        let keyed = Request::new().path("/keyed");
        check(&keyed, "would be refused by keyed, whatever the limits");
        let banned = Request::new().ip("192.0.2.7").path("/keyed");
        check(&banned, "would be refused, whatever the limits");
    }

    #[test]
    fn a_decision_that_was_made() {
        let answer = r#"{"decision_id":"d1","at":"2026-11-15T06:43:13Z","because":"rule user was exceeded and binds","tier":null,"revision":2,
            "answer":{"allowed":false,"limit":4,"remaining":0,"reset_at":1431857103,"rule_id":"user","state":"normal","decision_id":"d1","retry_after":60,"reason":"rate_limited"},
            "rules":[{"rule_id":"user","allowed":false,"limit":4,"remaining":0,"window_seconds":3600.0,"cost":1,"reset_at":1431857103,"retry_after":60,"state":"normal"}],
            "node":"1f00dbee","method":"GET","endpoint":"/x","identifiers":{"ip":"192.0.2.7","user_id":"olga"},
            "keys":[{"rule_id":"user","key":[{"identifier_type":"user_id","value":"olga"}]},
                    {"rule_id":"pages","key":[{"identifier_type":"endpoint"}]}]}"#;
        let answer: DecisionRecord<'_> = serde_json::from_str(answer).expect("an answer");
        assert_eq!(
            decided(&answer),
            "\
refused 2026-11-15T06:43:13Z: rule user was exceeded and binds
no tier, revision 2 of the rules
request GET /x of ip 192.0.2.7, user_id olga
user counts by user_id olga
pages counts by endpoint
decided by node 1f00dbee

 rule            cost  left  limit    full again
 user  exceeded     1     0  4 / 1 h  2015-05-17 10:05:03 UTC
"
        );
    }

    /// They were in the JSON alone.
    #[test]
    fn figures_from_the_log_are_printed() {
        let answer = r#"{"allowed": false, "limit": 5, "remaining": 0, "rule_id": "five",
                         "retry_after": 54, "state": "normal"}"#;
        let answer: CheckResponse<'_> = serde_json::from_str(answer).expect("a response");
        assert_eq!(logged_figures(&answer), "0 of 5 of five left, to be tried again after 54 s\n");
    }
}
