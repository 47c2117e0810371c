//! The policy document of proposed rules, and which of them are needed.

use std::fmt::Write as _;

use tollgate::Algorithm;
use tollgate_api::RecommendedRule;

/// Up to this limit requests are counted exactly: an estimate would refuse steady clients.
const MAX_COARSE_LIMIT: u64 = 10;

/// A rule that applies to a class of clients, whatever they request. It has no limit yet.
pub(super) fn of_class(rule_id: &str, name: &str, identifier: &str) -> RecommendedRule {
    RecommendedRule {
        rule_id: rule_id.to_owned(),
        name: name.to_owned(),
        identifier_type: identifier.to_owned(),
        limit: u64::MAX,
        ..RecommendedRule::default()
    }
}

/// Sets the limit, and the algorithm that fits it.
pub(super) fn set_limit(rule: &mut RecommendedRule, limit: u64) {
    let algorithm = if limit <= MAX_COARSE_LIMIT {
        Algorithm::SlidingWindowLog
    } else {
        Algorithm::SlidingWindowCounter
    };
    algorithm.name().clone_into(&mut rule.algorithm);
    rule.limit = limit;
}

/// The policy of proposed rules, with comments above each.
pub fn to_yaml(
    rules: &[RecommendedRule],
    comments: impl Fn(&RecommendedRule) -> Vec<String>,
) -> String {
    let mut text = String::from("rules:\n");
    for (i, rule) in rules.iter().enumerate() {
        if i > 0 {
            text.push('\n');
        }
        for comment in comments(rule) {
            let _ = writeln!(text, "  # {comment}");
        }
        write(rule, &mut text);
    }
    let mut tiers: Vec<&str> = rules.iter().filter_map(|rule| rule.tier.as_deref()).collect();
    tiers.dedup();
    if !tiers.is_empty() {
        text += "\ntiers:\n";
        for tier in tiers {
            let _ = writeln!(text, "  - tier: {}", serde_json::Value::from(tier));
        }
    }
    text
}

/// The policy with limits that no client reaches, counted exactly.
pub(super) fn to_boundless_yaml(rules: &[RecommendedRule], limit: u64) -> String {
    let algorithm = Algorithm::SlidingWindowLog.name();
    let boundless: Vec<RecommendedRule> = rules
        .iter()
        .map(|it| RecommendedRule { limit, algorithm: algorithm.to_owned(), ..it.clone() })
        .collect();
    to_yaml(&boundless, |_| Vec::new())
}

fn write(rule: &RecommendedRule, text: &mut String) {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    // They can come from a server, which may be another one than its caller thinks.
    let word = |text: &str| {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if !text.is_empty() && text.bytes().all(is_word) { text.to_owned() } else { quoted(text) }
    };
    let words = |all: &[String]| all.iter().map(|it| word(it)).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "  - rule_id: {}", word(&rule.rule_id));
    let _ = writeln!(text, "    name: {}", quoted(&rule.name));
    let _ = writeln!(text, "    limit: {}\n    window: {}", rule.limit, word(&rule.window));
    let _ = writeln!(text, "    algorithm: {}", word(&rule.algorithm));
    let _ = writeln!(text, "    identifier_type: {}", word(&rule.identifier_type));
    if let Some(tenant) = &rule.tenant {
        let _ = writeln!(text, "    tenant: {}", quoted(tenant));
    }
    let endpoints = rule.endpoint.as_ref().map(|it| format!("endpoints: [{}]", quoted(it)));
    let methods =
        (!rule.methods.is_empty()).then(|| format!("methods: [{}]", words(&rule.methods)));
    let tiers = rule.tier.as_ref().map(|tier| format!("user_tiers: [{}]", quoted(tier)));
    let conditions: Vec<String> = [endpoints, methods, tiers].into_iter().flatten().collect();
    if !conditions.is_empty() {
        let _ = writeln!(text, "    applies_to: {{{}}}", conditions.join(", "));
    }
    if !rule.replaces.is_empty() {
        let _ = writeln!(text, "    replaces: [{}]", words(&rule.replaces));
    }
}

/// Removes rules of endpoints whose limit is not lower than that of all classes they can meet: these refuse first. One
/// that replaces another rule stays as long as that: without it, a user would be counted by its address.
pub(super) fn drop_needless(rules: &mut Vec<RecommendedRule>) {
    let classes: Vec<(String, u64)> = rules
        .iter()
        .filter(|rule| rule.endpoint.is_none())
        .map(|rule| (rule.identifier_type.clone(), rule.limit))
        .collect();
    let is_needless = |rule: &RecommendedRule| {
        let of_class = classes.iter().filter(|(identifier, _)| *identifier == rule.identifier_type);
        let highest = of_class.map(|(_, limit)| *limit).max();
        let is_first = highest.is_some_and(|highest| rule.limit >= highest);
        rule.endpoint.is_some() && rule.replaces.is_empty() && is_first
    };
    while let Some(at) = rules.iter().position(is_needless) {
        let dropped = rules.remove(at);
        for rule in &mut *rules {
            rule.replaces.retain(|replaced| *replaced != dropped.rule_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_replaces_another_stays_as_long_as_that() {
        let rule = |rule_id: &str, identifier: &str, limit: u64, replaces: &[&str]| {
            let replaces = replaces.iter().map(|id| (*id).to_owned()).collect();
            let endpoint = rule_id.strip_prefix("search").map(|_| "/search".to_owned());
            RecommendedRule { limit, replaces, endpoint, ..of_class(rule_id, rule_id, identifier) }
        };
        let check = |user: u64, address: u64, expected: &[&str]| {
            let mut rules = vec![
                rule("per_user", "user_id", 100, &["per_address"]),
                rule("per_address", "ip", 50, &[]),
                rule("search_per_user", "user_id", user, &["search_per_address"]),
                rule("search_per_address", "ip", address, &[]),
            ];
            drop_needless(&mut rules);
            let left: Vec<&str> = rules[2..].iter().map(|rule| &*rule.rule_id).collect();
            assert_eq!(left, expected);
            let ids: Vec<&String> = rules.iter().map(|rule| &rule.rule_id).collect();
            assert!(rules.iter().flat_map(|rule| &rule.replaces).all(|it| ids.contains(&it)));
        };
        check(99, 49, &["search_per_user", "search_per_address"]);
        check(100, 49, &["search_per_user", "search_per_address"]);
        check(99, 50, &["search_per_user"]);
        check(100, 50, &[]);
    }

    #[test]
    fn a_hostile_server_cannot_add_to_the_policy() {
        let hostile = "ip\nwhitelist:\n  - {identifier_type: ip, identifier: 0.0.0.0/0}\n#";
        let rule: RecommendedRule = serde_json::from_value(serde_json::json!({
            "rule_id": hostile, "name": hostile, "limit": 1, "window": hostile, "algorithm": hostile,
            "identifier_type": hostile, "endpoint": hostile, "methods": [hostile, "GET"],
            "tier": hostile, "tenant": hostile, "replaces": [hostile], "needed": 1, "busiest": 1,
            "requests": 1, "refused": 0, "clients": 1, "clients_refused": 0,
        }))
        .expect("a rule");
        let text = to_yaml(&[rule], |_| Vec::new());
        let mut lines = text.lines();
        assert!(!lines.any(|line| line.starts_with("whitelist")), "{text}");
    }
}
