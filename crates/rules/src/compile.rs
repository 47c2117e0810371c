//! From a document to a policy. Every mistake is reported, not only the first.

mod candidate;
mod circle;
pub(crate) mod flaw;
pub(crate) mod group;
pub(crate) mod partial;
pub(crate) mod quota;
pub(crate) mod rule;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_document::{MAX_PROBLEMS, Problem, Severity, more_problems};

use crate::candidate::candidate_id;
use crate::compile::circle::find_circle;
use crate::compile::flaw::Flaw;
use crate::compile::rule::compile_rule;
use crate::directory::lists::List;
use crate::directory::{Directory, DirectoryChange};
use crate::document::PolicyDocument;
use crate::rule::Rule;
use crate::ruleset::{RuleSet, Tiers};
use crate::source::Source;

/// Which bounds are lifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompileOptions {
    /// Accepts a `sliding_window_log` of any limit. For simulations: in a store such a log would
    /// grow without bound.
    pub unbounded_log: bool,
}

/// Compiles what a text says; what could not be read of it is reported as well.
pub(crate) fn compile(
    source: &Source,
    options: CompileOptions,
) -> Result<(RuleSet, Directory), Vec<Problem>> {
    let (rules, directory, problems) = compile_what_is_valid(source, options);
    if problems.is_empty() { Ok((rules, directory)) } else { Err(problems) }
}

/// Compiles the entries that are valid, and reports the others. Only the linter has a use for half a
/// policy.
pub(crate) fn compile_what_is_valid(
    source: &Source,
    options: CompileOptions,
) -> (RuleSet, Directory, Vec<Problem>) {
    let mut compiler = Compiler { source, problems: Vec::new(), found: 0 };
    for problem in source.problems.iter().filter(|problem| problem.severity == Severity::Error) {
        compiler.add(problem.clone());
    }
    let tiers = compiler.tiers();
    let rules = RuleSet::new(compiler.rules(options), tiers);
    compiler.check_tiers(&rules);
    let directory = compiler.directory(&rules);
    (rules, directory, compiler.finish())
}

struct Compiler<'a> {
    source: &'a Source,
    problems: Vec<Problem>,
    /// How many problems there are, those that are not reported included.
    found: usize,
}

impl<'a> Compiler<'a> {
    fn add(&mut self, problem: Problem) {
        self.found += 1;
        if self.found <= MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// True if no more problems are reported, so that compiling can stop.
    fn is_full(&self) -> bool {
        self.found >= MAX_PROBLEMS
    }

    fn report(&mut self, place: &str, flaw: Flaw) {
        if self.is_full() {
            return;
        }
        let flaw = flaw.within(place);
        self.add(self.source.problem(&flaw.field, flaw.message).with_advice(flaw.advice));
    }

    fn finish(mut self) -> Vec<Problem> {
        if self.is_full() && !self.problems.iter().any(|it| *it == more_problems()) {
            self.problems.push(more_problems());
        }
        self.problems
    }

    fn tiers(&mut self) -> Tiers {
        let mut tiers = Tiers::default();
        let mut seen = HashSet::new();
        for (at, document) in self.source.document.tiers.iter().enumerate() {
            let place = format!("tiers[{at}]");
            if document.tier.is_empty() {
                let flaw = Flaw::new("a tier has a name", "write one like `free` or `pro`");
                self.report(&place, flaw.within("tier"));
            } else if !seen.insert(document.tier.as_str()) {
                let message = format!("the tier {} is there twice", document.tier);
                self.report(&place, Flaw::new(message, "remove one of the two").within("tier"));
            }
            let name = Arc::<str>::from(document.tier.as_str());
            if document.default
                && let Some(first) = tiers.default.replace(Arc::clone(&name))
            {
                let message = format!("{first} is the default already");
                let advice =
                    "clients without a tier are in the default one, so there can be only one";
                self.report(&place, Flaw::new(message, advice).within("default"));
            }
            tiers.names.push(name);
        }
        // What could not be read is reported; naming it elsewhere is not another mistake.
        tiers.names.extend(self.source.unread_tiers().map(Arc::from));
        tiers
    }

    /// The rules in the order of reports.
    fn rules(&mut self, options: CompileOptions) -> Vec<Rule> {
        let mut rules = Vec::new();
        let mut first = HashMap::new();
        for (at, document) in self.source.document.rules.iter().enumerate() {
            if self.is_full() {
                break;
            }
            let place = format!("rules[{at}]");
            if first.insert(document.rule_id.as_str(), at).is_some() {
                let message = format!("the rule_id {} is there twice", document.rule_id);
                let advice = "counters are kept by rule_id; give each rule its own";
                self.report(&place, Flaw::new(message, advice).within("rule_id"));
                continue;
            }
            match compile_rule(document, options) {
                // A candidate follows its rule, also once they are sorted.
                Ok((rule, candidate)) => {
                    rules.push((at, rule));
                    rules.extend(candidate.map(|candidate| (at, candidate)));
                }
                Err(flaws) => flaws.into_iter().for_each(|flaw| self.report(&place, flaw)),
            }
        }
        rules.sort_by_cached_key(|(at, rule)| {
            (Reverse(rule.priority), Reverse(rule.conditions.specificity()), *at)
        });
        self.link(&mut rules);
        rules.into_iter().map(|(_, rule)| rule).collect()
    }

    /// Turns the ids that rules replace into places.
    fn link(&mut self, rules: &mut [(usize, Rule)]) {
        let places =
            rules.iter().enumerate().map(|(place, (_, rule))| (Arc::clone(&rule.id), place));
        let places = places.collect::<HashMap<_, _>>();
        let known = self.all_rule_ids();
        for (at, rule) in rules.iter_mut().filter(|(_, rule)| !rule.is_candidate()) {
            let mut replaces = Vec::new();
            for (item, id) in self.source.document.rules[*at].replaces.iter().enumerate() {
                let place = format!("rules[{at}].replaces[{item}]");
                match places.get(id.as_str()) {
                    _ if **id == *rule.id => {
                        let advice = "to switch the rule off, write enabled: false";
                        self.report(&place, Flaw::new("a rule cannot replace itself", advice));
                    }
                    Some(replaced) => {
                        replaces.push(*replaced);
                        replaces.extend(places.get(candidate_id(id).as_str()));
                    }
                    None if known.contains(id.as_str()) => {}
                    None => self.report(&place, no_such_rule(id)),
                }
            }
            rule.replaces = replaces.into();
        }
        self.refuse_circle(rules);
    }

    fn refuse_circle(&mut self, rules: &[(usize, Rule)]) {
        let replaces = rules.iter().map(|(_, rule)| &*rule.replaces).collect::<Vec<_>>();
        let Some(circle) = find_circle(&replaces) else { return };
        let circle = circle.into_iter().map(|place| &rules[place]).collect::<Vec<_>>();
        let ids = circle.iter().map(|(_, rule)| &*rule.id).collect::<Vec<_>>().join(", ");
        let first = circle.iter().map(|(at, _)| *at).min().unwrap_or_default();
        let message = format!("{ids} replace each other: where all match, none would apply");
        let advice = "let the narrower rule replace the wider one, not the other way round as well";
        self.report(&format!("rules[{first}].replaces"), Flaw::new(message, advice));
    }

    /// The ids of all rules, those included that are reported as wrong.
    fn all_rule_ids(&self) -> HashSet<&'a str> {
        let read = self.source.document.rules.iter().map(|rule| rule.rule_id.as_str());
        read.chain(self.source.unread_rules()).collect()
    }

    fn check_tiers(&mut self, rules: &RuleSet) {
        for (at, rule) in self.source.document.rules.iter().enumerate() {
            for (item, tier) in rule.applies_to.user_tiers.iter().enumerate() {
                if let Err(flaw) = rules.tier(tier) {
                    self.report(&format!("rules[{at}].applies_to.user_tiers[{item}]"), flaw);
                }
            }
        }
    }

    fn directory(&mut self, rules: &RuleSet) -> Directory {
        let source = self.source;
        let PolicyDocument { clients, overrides, whitelist, blacklist, .. } = &source.document;
        let known = self.all_rule_ids();
        let is_broken = |id: &str| rules.find(id).is_none() && known.contains(id);
        let overrides = overrides.iter().enumerate();
        let sound = overrides.filter(|(_, exception)| !is_broken(&exception.rule_id));
        let changes = [
            self.changes("clients", clients.iter().enumerate(), |one| {
                DirectoryChange::parse_tier(one, rules)
            }),
            self.changes("overrides", sound, |one| DirectoryChange::parse_exception(one, rules)),
            self.changes("whitelist", whitelist.iter().enumerate(), |one| {
                DirectoryChange::parse_list(List::Allow, one)
            }),
            self.changes("blacklist", blacklist.iter().enumerate(), |one| {
                DirectoryChange::parse_list(List::Deny, one)
            }),
        ];
        Directory::default().apply(changes.into_iter().flatten())
    }

    /// What the items of one list change. Two of them must not say different things.
    fn changes<'b, T: 'b>(
        &mut self,
        list: &str,
        items: impl Iterator<Item = (usize, &'b T)>,
        parse: impl Fn(&T) -> Result<DirectoryChange, Flaw>,
    ) -> Vec<DirectoryChange> {
        let mut changes = Vec::new();
        let mut places = Vec::new();
        for (at, item) in items {
            if self.is_full() {
                break;
            }
            match parse(item) {
                Ok(change) => {
                    changes.push(change);
                    places.push(at);
                }
                Err(flaw) => self.report(&format!("{list}[{at}]"), flaw),
            }
        }
        let mut seen = HashSet::with_capacity(changes.len());
        let repeated = changes.iter().map(|change| !seen.insert(change.target()));
        for (at, _) in places.iter().zip(repeated).filter(|(_, is_repeated)| *is_repeated) {
            let flaw = Flaw::new("an earlier entry is for the same client", "keep one of them");
            self.report(&format!("{list}[{at}]"), flaw);
        }
        drop(seen);
        changes
    }
}

pub(crate) fn no_such_rule(id: &str) -> Flaw {
    Flaw::new(format!("there is no rule `{id}`"), "name the rule_id of a rule in this policy")
}
