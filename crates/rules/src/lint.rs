//! Policies that are valid and yet hardly what their author means: one function per suspicion.

mod candidate;
mod figures;
mod hot_key;
mod reach;
mod records;
mod risk;
mod small;

use std::collections::HashSet;

use tollgate_document::{MAX_PROBLEMS, Problem};

use crate::compile::flaw::Flaw;
use crate::compile::{CompileOptions, compile_what_is_valid};
use crate::document::{OverrideDocument, PolicyDocument, RuleDocument};
use crate::identifier::Identifier;
use crate::matching::glob::Glob;
use crate::policy::Policy;
use crate::rule::Rule;
use crate::ruleset::RuleSet;
use crate::source::Source;

/// Where a policy is going to run, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LintContext {
    /// How many nodes share the work.
    pub nodes: Option<u32>,
    /// Whether trusted proxies are configured, which report client addresses. Rules that count by
    /// address are suspect only where it is known that there are none.
    pub trusted_proxies: Option<bool>,
    /// Whether counters are kept in Redis.
    pub redis: bool,
}

/// Looks for what is allowed but hardly meant. `policy` is what `source` compiled to.
#[must_use]
pub fn lint(source: &Source, policy: &Policy, context: &LintContext) -> Vec<Problem> {
    warnings(&LintView { source, rules: policy.rules(), context: *context })
}

/// Everything that is wrong with a document, then everything that is doubtful in its valid entries.
#[must_use]
pub fn inspect(source: &Source, context: &LintContext) -> Vec<Problem> {
    let (rules, _, mut problems) = compile_what_is_valid(source, CompileOptions::default());
    problems.extend(warnings(&LintView { source, rules: &rules, context: *context }));
    problems
}

fn warnings(view: &LintView<'_>) -> Vec<Problem> {
    let (view, source) = (*view, view.source);
    let mut seen = HashSet::new();
    // A second rule of the same id is an error, and was not compiled.
    let documents = source.document.rules.iter().enumerate();
    let documents = documents.filter(move |(_, document)| seen.insert(&*document.rule_id));
    let rules = documents.flat_map(|(at, document)| {
        let flaws = view.rules.find(&document.rule_id).filter(|rule| rule.enabled).map(|rule| {
            let suspect = Suspect { rule, document };
            RULE_CHECKS.iter().filter_map(move |check| check(&view, suspect))
        });
        flaws.into_iter().flatten().map(move |flaw| flaw.within(&format!("rules[{at}]")))
    });
    let overrides = source.document.overrides.iter().enumerate().flat_map(|(at, document)| {
        let flaws = OVERRIDE_CHECKS.iter().filter_map(move |check| check(&view, document));
        flaws.map(move |flaw| flaw.within(&format!("overrides[{at}]")))
    });
    let blacklist = source.document.blacklist.iter().enumerate().filter_map(|(at, document)| {
        let flaw = risk::one_address_of_many(document)?;
        Some(flaw.within(&format!("blacklist[{at}]")))
    });
    let into_warning = |flaw: Flaw| {
        source.problem(&flaw.field, flaw.message).with_advice(flaw.advice).into_warning()
    };
    rules.chain(overrides).chain(blacklist).map(into_warning).collect()
}

/// Why an override never applies: its rule does not count by its identifier. Policies may have such overrides, which the
/// linter warns of; new ones are not accepted.
#[must_use]
pub fn never_applies(document: &OverrideDocument, rules: &RuleSet) -> Option<Problem> {
    let flaw = reach::foreign_identifier(rules, document)?;
    Some(Problem::new(&flaw.field, flaw.message).with_advice(flaw.advice))
}

/// What of a policy cannot be counted in Redis. `policy` is what `source` compiled to.
#[must_use]
pub fn uncountable_in_redis(source: &Source, policy: &Policy) -> Vec<Problem> {
    let context = LintContext { redis: true, ..LintContext::default() };
    let view = LintView { source, rules: policy.rules(), context };
    let rules = source.document.rules.iter().enumerate().filter_map(|(at, document)| {
        let rule = view.rules.find(&document.rule_id)?;
        let flaw = figures::beyond_redis(&view, Suspect { rule, document })?;
        Some(flaw.within(&format!("rules[{at}]")))
    });
    let without_place = records::without_place(view.rules, &source.document.rules);
    let without_place =
        without_place.into_iter().map(|(at, flaw)| flaw.within(&format!("rules[{at}]")));
    let overrides = source.document.overrides.iter().enumerate().filter_map(|(at, document)| {
        let flaw = figures::override_beyond_redis(&view, document)?;
        Some(flaw.within(&format!("overrides[{at}]")))
    });
    let into_problem =
        |flaw: Flaw| source.problem(&flaw.field, flaw.message).with_advice(flaw.advice);
    rules.chain(without_place).chain(overrides).map(into_problem).take(MAX_PROBLEMS).collect()
}

/// What of these rules, all of which administrators of one tenant wrote, takes the place in Redis that is left to
/// operators. `policy` has them.
#[must_use]
pub fn beyond_tenant_in_redis(rules: Vec<RuleDocument>, policy: &Policy) -> Vec<Problem> {
    let source = Source::from_document(PolicyDocument { rules, ..PolicyDocument::default() });
    let flaws = records::beyond_tenant(policy.rules(), &source.document.rules);
    let flaws = flaws.into_iter().map(|(at, flaw)| flaw.within(&format!("rules[{at}]")));
    let into_problem =
        |flaw: Flaw| source.problem(&flaw.field, flaw.message).with_advice(flaw.advice);
    flaws.map(into_problem).take(MAX_PROBLEMS).collect()
}

/// The overrides in force that cannot be counted in Redis, by their rules.
#[must_use]
pub fn overrides_uncountable_in_redis(policy: &Policy) -> Vec<Problem> {
    let exceptions = policy.directory().exceptions();
    let flaws = exceptions.filter_map(|exception| {
        let flaw = figures::exception_beyond_redis(policy.rules(), exception)?;
        let place = format!("override of {}", exception.rule_id);
        Some(Problem::new(&place, flaw.message).with_advice(flaw.advice))
    });
    flaws.take(MAX_PROBLEMS).collect()
}

/// What every check can see.
#[derive(Clone, Copy)]
struct LintView<'a> {
    source: &'a Source,
    rules: &'a RuleSet,
    context: LintContext,
}

/// A rule, as compiled and as written.
#[derive(Clone, Copy)]
struct Suspect<'a> {
    rule: &'a Rule,
    document: &'a RuleDocument,
}

const RULE_CHECKS: [fn(&LintView<'_>, Suspect<'_>) -> Option<Flaw>; 18] = [
    reach::replaced_everywhere,
    reach::blocked_by_another,
    reach::matches_nothing,
    reach::undeclared_tier,
    reach::misspelt_method,
    reach::replaced_by_a_watcher,
    figures::above_its_parent,
    figures::never_denies,
    figures::beyond_redis,
    small::coarse_counter,
    small::burst_below_limit,
    small::cost_above_capacity,
    hot_key::one_counter_for_all,
    risk::address_of_a_proxy,
    risk::open_login,
    risk::misdirected_penalty,
    risk::fleet_of_fallbacks,
    candidate::without_effect,
];

const OVERRIDE_CHECKS: [fn(&LintView<'_>, &OverrideDocument) -> Option<Flaw>; 2] =
    [reach::override_without_client, figures::override_beyond_redis];

impl LintView<'_> {
    /// The rules that are switched on, without candidates.
    fn enabled(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.enabled && !rule.is_candidate())
    }

    /// The candidate of a rule.
    fn candidate(&self, rule: &Rule) -> Option<&Rule> {
        Some(self.rules.candidate_at(self.rules.index_of(&rule.id)?)?.1)
    }

    /// Whether one rule takes the place of another.
    fn replaces(&self, rule: &Rule, other: &Rule) -> bool {
        self.rules.index_of(&other.id).is_some_and(|at| rule.replaces.contains(&at))
    }

    /// Whether a rule can be pushed aside by any other.
    fn is_replaced_anywhere(&self, rule: &Rule) -> bool {
        self.enabled().any(|other| self.replaces(other, rule))
    }
}

/// Whether the first rule provably applies to every request that the second one applies to, unless
/// it is replaced.
fn applies_wherever(wide: &Rule, narrow: &Rule) -> bool {
    let same_pattern = wide.key_pattern == narrow.key_pattern
        && wide.identifiers.first() == narrow.identifiers.first();
    let always_there = |identifier: &Identifier| {
        matches!(identifier, Identifier::Global | Identifier::Endpoint)
            || narrow.identifiers.contains(identifier)
    };
    wide.conditions.covers(&narrow.conditions)
        && (wide.key_pattern == Glob::Any || same_pattern)
        && wide.identifiers.iter().all(always_there)
}
