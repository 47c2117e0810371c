//! Redis keeps all counters of a client in one record: those of rules that count by the same identifiers. So they must
//! not be too many, and their tags must differ. Candidates have counters too.

use std::collections::HashMap;

use tollgate_core::RuleTag;

use super::Flaw;
use crate::document::{Consistency, RuleDocument};
use crate::identifier::Identifier;
use crate::ruleset::{Rule, RuleSet};

/// The rules whose counters do not fit into records, each with its index in the document.
pub(super) fn without_place(rules: &RuleSet, documents: &[RuleDocument]) -> Vec<(usize, Flaw)> {
    let mut groups: HashMap<(&[Identifier], Option<&str>), Vec<&Rule>> = HashMap::new();
    let mut found = Vec::new();
    let with_candidate = |(at, document): (usize, &RuleDocument)| {
        let place = rules.index_of(&document.rule_id);
        let candidate = place.and_then(|place| rules.candidate_at(place)).map(|(_, it)| it);
        let rule = place.and_then(|place| rules.get(place));
        rule.into_iter().chain(candidate).map(move |rule| (at, rule))
    };
    for (at, rule) in documents.iter().enumerate().flat_map(with_candidate) {
        if rule.consistency != Consistency::Strict {
            continue;
        }
        // Rules for different endpoints are about different subjects if they count by those.
        let is_crowded = !rule.identifiers.contains(&Identifier::Endpoint);
        let group = groups.entry((&rule.identifiers, rule.tenant.as_deref())).or_default();
        let tag = RuleTag::of(&rule.id);
        if let Some(other) = group.iter().find(|other| RuleTag::of(&other.id) == tag) {
            let message = format!(
                "in Redis the counters of {} would be those of {}: both ids have the same hash",
                rule.id, other.id
            );
            found.push((at, Flaw::new(message, "change one of the ids").within("rule_id")));
        } else if is_crowded && group.len() == RuleTag::MAX_RULES {
            let message = format!(
                "Redis keeps the counters of at most {} rules that count by the same identifiers, \
                 candidates included",
                RuleTag::MAX_RULES
            );
            let advice = "count some of them by a further identifier, use consistency: local, or keep \
                          counters in PostgreSQL";
            let field = if rule.is_candidate() { "candidate" } else { "identifier_type" };
            found.push((at, Flaw::new(message, advice).within(field)));
        } else {
            group.push(rule);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Write as _;

    use super::*;
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

    /// The problems of rules with these ids that all count by the same identifier.
    fn problems(ids: &[String], counted_by: &str) -> Vec<String> {
        let mut text = "rules:\n".to_owned();
        for id in ids {
            let rule = format!("{{rule_id: {id}, limit: 1, window: 1m, {counted_by}}}");
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
        assert_eq!(
            problems(&ids(66), "identifier_type: endpoint, applies_to: {endpoints: [/a]}"),
            [""; 0]
        );
        assert_eq!(problems(&ids(66), "identifier_type: user_id, consistency: local"), [""; 0]);
    }

    #[test]
    fn rules_whose_counters_would_be_one_are_refused() {
        let mut known: HashMap<RuleTag, String> = HashMap::new();
        let (one, other) = (0..)
            .find_map(|number| {
                let id = format!("rule-{number}");
                known.insert(RuleTag::of(&id), id.clone()).map(|other| (other, id))
            })
            .expect("two ids with one tag");
        let found = problems(&[one.clone(), other.clone()], "identifier_type: user_id");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains(&one) && found[0].contains("change one of the ids"), "{found:?}");
        assert_eq!(problems(&[one], "identifier_type: user_id"), [""; 0]);
    }
}
