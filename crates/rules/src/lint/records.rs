//! Redis keeps all counters of a client in one record: those of rules that count by the same identifiers. So they must
//! not be too many, and their tags must differ. Candidates have counters too, and so have penalties, in a record beside.

use std::collections::HashMap;

use tollgate_core::RuleTag;

use super::Flaw;
use crate::document::{Consistency, RuleDocument};
use crate::identifier::Identifier;
use crate::plan::facts::EVERYTHING;
use crate::rule::Rule;
use crate::ruleset::RuleSet;

/// How many rules by the same identifiers may be those that administrators of a tenant write. The others are left to
/// operators, whose rules for a tenant are in the same records.
const MAX_TENANT_RULES: usize = RuleTag::MAX_RULES / 4 * 3;

/// The rules whose counters do not fit into records, each with its index in the document.
pub(super) fn without_place(rules: &RuleSet, documents: &[RuleDocument]) -> Vec<(usize, Flaw)> {
    beyond(RuleTag::MAX_RULES, rules, documents)
}

/// Those of these rules, which administrators of one tenant wrote, that take the place of operators.
pub(super) fn beyond_tenant(rules: &RuleSet, documents: &[RuleDocument]) -> Vec<(usize, Flaw)> {
    beyond(MAX_TENANT_RULES, rules, documents)
}

fn beyond(max: usize, rules: &RuleSet, documents: &[RuleDocument]) -> Vec<(usize, Flaw)> {
    let mut groups: HashMap<u64, Group<'_>> = HashMap::new();
    let with_candidate = |(at, document): (usize, &RuleDocument)| {
        let place = rules.index_of(&document.rule_id);
        let candidate = place.and_then(|place| rules.candidate_at(place)).map(|(_, it)| it);
        let rule = place.and_then(|place| rules.get(place));
        rule.into_iter().chain(candidate).map(move |rule| (at, rule))
    };
    let shared = documents.iter().enumerate().flat_map(with_candidate);
    let shared = shared.filter(|(_, rule)| rule.consistency == Consistency::Strict);
    let flaws = shared.filter_map(|(at, rule)| {
        let requests = groups.entry(rule.group).or_default().add(rule, &rule.id, max);
        if let Err(conflict) = requests {
            return Some((at, of_requests(rule, conflict)));
        }
        // The counter of a penalty has another name, so that two may have one tag although their rules have not.
        let penalty = rule.penalty.as_deref()?;
        let refusals = groups.entry(penalty.group).or_default();
        let refusals = refusals.add(rule, &penalty.counter, max);
        Some((at, of_refusals(rule, refusals.err()?)))
    });
    flaws.collect()
}

/// Counters that are in one record if they are of one client.
#[derive(Default)]
struct Group<'a> {
    rules: HashMap<RuleTag, &'a Rule>,
    /// How many count by each endpoint. Those of different endpoints are in different records.
    by_endpoint: HashMap<&'a str, usize>,
}

/// Why a counter cannot be in a record.
#[derive(Clone, Copy)]
enum Conflict<'a> {
    SameTag(&'a Rule),
    /// There are as many as there may be.
    TooMany(usize),
}

impl<'a> Group<'a> {
    fn add(&mut self, rule: &'a Rule, counter: &str, max: usize) -> Result<(), Conflict<'a>> {
        let tag = RuleTag::of(counter);
        if let Some(other) = self.rules.get(&tag) {
            return Err(Conflict::SameTag(other));
        }
        let endpoints = endpoints(rule);
        let count = |endpoint: &&str| self.by_endpoint.get(endpoint).copied().unwrap_or_default();
        if endpoints.iter().any(|endpoint| count(endpoint) >= max) {
            return Err(Conflict::TooMany(max));
        }
        self.rules.insert(tag, rule);
        for endpoint in endpoints {
            *self.by_endpoint.entry(endpoint).or_default() += 1;
        }
        Ok(())
    }
}

/// What a rule counts by as its endpoint: one of its patterns, as it is written in a counter's key.
fn endpoints(rule: &Rule) -> Vec<&str> {
    let patterns = &rule.conditions.endpoints;
    if !rule.identifiers.contains(&Identifier::Endpoint) || patterns.is_empty() {
        return vec![EVERYTHING];
    }
    let mut texts: Vec<&str> = patterns.iter().map(|pattern| &*pattern.text).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

fn of_requests(rule: &Rule, conflict: Conflict<'_>) -> Flaw {
    match conflict {
        Conflict::SameTag(other) => same_tag(format!(
            "in Redis the counters of {} would be those of {}: both ids have the same hash",
            rule.id, other.id
        )),
        Conflict::TooMany(max) => {
            let field = if rule.is_candidate() { "candidate" } else { "identifier_type" };
            let message = format!(
                "Redis keeps the counters of at most {max} rules that count by the same identifiers{}, \
                 candidates included",
                if max == MAX_TENANT_RULES {
                    " and that administrators of one tenant wrote"
                } else {
                    ""
                }
            );
            let advice = "count some of them by a further identifier, use consistency: local, or keep \
                          counters in PostgreSQL";
            Flaw::new(message, advice).within(field)
        }
    }
}

fn of_refusals(rule: &Rule, conflict: Conflict<'_>) -> Flaw {
    match conflict {
        Conflict::SameTag(other) => same_tag(format!(
            "in Redis the refusals by {} would count towards bans by {}: the counters of both penalties have \
             the same hash",
            rule.id, other.id
        )),
        // There are no more penalties than rules.
        Conflict::TooMany(max) => of_requests(rule, Conflict::TooMany(max)),
    }
}

fn same_tag(message: String) -> Flaw {
    Flaw::new(message, "change one of the ids").within("rule_id")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Write as _;

    use super::*;
    use crate::candidate::candidate_id;
    use crate::{Policy, Source, uncountable_in_redis};

    #[test]
    fn candidates_are_counted_too() {
        let ids = |count: usize| (0..count).map(|it| format!("rule-{it}")).collect::<Vec<_>>();
        let tried = "identifier_type: user_id, candidate: {limit: 0}";
        assert_eq!(problems(&ids(32), tried), [""; 0]);
        let found = problems(&ids(33), tried);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("rule rule-32, candidate: "), "{found:?}");
    }

    fn rule(id: &str, fields: &str) -> String {
        format!("{{rule_id: {id}, limit: 1, window: 1m, {fields}}}")
    }

    /// The problems of rules with these ids that all count by the same identifier.
    fn problems(ids: &[String], counted_by: &str) -> Vec<String> {
        problems_of(ids.iter().map(|id| rule(id, counted_by)))
    }

    fn problems_of(rules: impl Iterator<Item = String>) -> Vec<String> {
        let mut text = "rules:\n".to_owned();
        for rule in rules {
            writeln!(text, "  - {rule}").expect("a string");
        }
        let source = Source::parse(&text);
        let policy = Policy::compile(&source).expect("a policy");
        uncountable_in_redis(&source, &policy).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn at_most_64_rules_count_by_the_same_identifiers() {
        let ids = |count: usize| (0..count).map(|it| format!("rule-{it}")).collect::<Vec<_>>();
        let by_user = "identifier_type: user_id";
        assert_eq!(problems(&ids(64), by_user), [""; 0]);
        let found = problems(&ids(66), by_user);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("at most 64 rules that count by the same identifiers"),
            "{found:?}"
        );
        assert_eq!(problems(&ids(66), "identifier_type: user_id, consistency: local"), [""; 0]);
        let penalty = "penalty: {after: 5, within_seconds: 60, ban_seconds: 60}";
        let found = problems(&ids(66), &format!("{by_user}, {penalty}"));
        assert_eq!(found.len(), 2, "each is reported once: {found:?}");
    }

    /// All rules by endpoint were exempt, although those of one endpoint share a record.
    #[test]
    fn at_most_64_rules_count_by_one_endpoint() {
        let by_endpoint = |number: usize, endpoints: &str| {
            let endpoint = "identifier_type: [user_id, endpoint]";
            rule(&format!("rule-{number}"), &format!("{endpoint}, applies_to: {{{endpoints}}}"))
        };
        let check = |endpoints: &[&str], expected: usize| {
            let rule = |number: usize| by_endpoint(number, endpoints[number % endpoints.len()]);
            let found = problems_of((0..66).map(rule));
            assert_eq!(found.len(), expected, "{endpoints:?}: {found:?}");
        };
        check(&["endpoints: [/a]"], 2);
        check(&["endpoints: [/a]", "endpoints: [/a/]"], 2);
        check(&["endpoints: [/a]", "endpoints: [/b, /a, /c]"], 2);
        check(&[""], 2);
        check(&["endpoints: [/a]", "endpoints: [/b]"], 0);
        check(&["endpoints: [/a]", "endpoints: ['/a/*']"], 0);
        check(&["endpoints: [/a]", ""], 0);
    }

    /// Two numbers whose ids have one tag, although the rules of these numbers have two.
    fn numbers_with_one_tag(id: impl Fn(u32) -> String) -> (u32, u32) {
        let mut known: HashMap<RuleTag, u32> = HashMap::new();
        let tag = |number: u32| RuleTag::of(&format!("rule-{number}"));
        (0..)
            .find_map(|number| {
                let other = known.insert(RuleTag::of(&id(number)), number)?;
                (tag(number) != tag(other)).then_some((other, number))
            })
            .expect("two ids with one tag")
    }

    #[test]
    fn rules_whose_counters_would_be_one_are_refused() {
        let id = |number: u32| format!("rule-{number}");
        let mut known: HashMap<RuleTag, u32> = HashMap::new();
        let found = (0..).find_map(|it| Some((known.insert(RuleTag::of(&id(it)), it)?, it)));
        let (one, other) = found.map(|(one, other)| (id(one), id(other))).expect("two ids");
        let found = problems(&[one.clone(), other.clone()], "identifier_type: user_id");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains(&one) && found[0].contains("change one of the ids"), "{found:?}");
        assert_eq!(problems(&[one], "identifier_type: user_id"), [""; 0]);
    }

    /// The ids have different tags, and the counters of their penalties have one: refusals by one rule counted towards
    /// bans by the other.
    #[test]
    fn penalties_whose_counters_would_be_one_are_refused() {
        let ids = ["rule-1223".to_owned(), "rule-1733".to_owned()];
        let [one, other] = [0, 1].map(|it| format!("{}!penalty", ids[it]));
        assert_ne!(RuleTag::of(&ids[0]), RuleTag::of(&ids[1]));
        assert_eq!(RuleTag::of(&one), RuleTag::of(&other));
        let by_user = "identifier_type: user_id";
        let penalty = "penalty: {after: 5, within_seconds: 60, ban_seconds: 60}";
        let with_penalty = format!("{by_user}, {penalty}");
        let found = problems(&ids, &with_penalty);
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = "the refusals by rule-1733 would count towards bans by rule-1223";
        assert!(found[0].contains(expected), "{found:?}");
        assert!(found[0].contains("change one of the ids"), "{found:?}");
        assert_eq!(problems(&ids, by_user), [""; 0]);
        assert_eq!(problems(&ids, &format!("{with_penalty}, consistency: local")), [""; 0]);
        // Only one of them has a penalty, or they count by other identifiers.
        let [one, other] = [&ids[0], &ids[1]];
        let mixed = [rule(one, &with_penalty), rule(other, by_user)];
        assert_eq!(problems_of(mixed.into_iter()), [""; 0]);
        let by_address = format!("identifier_type: ip, {penalty}");
        let apart = [rule(one, &with_penalty), rule(other, &by_address)];
        assert_eq!(problems_of(apart.into_iter()), [""; 0]);
    }

    #[test]
    fn candidates_whose_counters_would_be_one_are_refused() {
        let (one, other) = numbers_with_one_tag(|it| candidate_id(&format!("rule-{it}")));
        let ids = [one, other].map(|number| format!("rule-{number}"));
        let tried = "identifier_type: user_id, candidate: {limit: 0}";
        let found = problems(&ids, tried);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(&candidate_id(&ids[0])), "{found:?}");
        assert_eq!(problems(&ids, "identifier_type: user_id"), [""; 0]);
    }
}
