//! Rules and overrides that apply to fewer requests than they seem to, or to none.

use tollgate_core::Mode;

use super::{LintView, Suspect, applies_wherever};
use crate::compile::flaw::Flaw;
use crate::directory::client::parse_identifiers;
use crate::document::OverrideDocument;
use crate::identifier::Identifier;
use crate::matching::glob::Glob;
use crate::matching::method::standard_method_like;
use crate::matching::steps::Steps;
use crate::plan::facts::EVERYTHING;
use crate::rule::Rule;
use crate::ruleset::RuleSet;

/// Another rule matches everything this one does and takes its place.
pub(super) fn replaced_everywhere(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let other =
        view.enabled().find(|other| view.replaces(other, rule) && applies_wherever(other, rule))?;
    Some(Flaw::new(
        format!("the rule never applies: {} replaces it on every request it matches", other.id),
        "narrow the other rule, or remove this one",
    ))
}

/// Another rule refuses everything this one could count.
pub(super) fn blocked_by_another(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let blocks = |other: &&Rule| {
        other.id != rule.id
            && other.quota.limit == 0
            && other.mode == Mode::Enforce
            && !other.costs.can_be_free()
            && !view.is_replaced_anywhere(other)
            && applies_wherever(other, rule)
    };
    let other = view.enabled().filter(|_| rule.quota.limit > 0).find(blocks)?;
    Some(Flaw::new(
        format!(
            "the rule never counts: {} has a limit of 0 and blocks every such request",
            other.id
        ),
        "name the blocking rule in `replaces` where requests are to pass, or remove this one",
    ))
}

/// The value a rule matches against is known beforehand, and does not match.
pub(super) fn matches_nothing(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let first = rule.identifiers.first()?;
    let values = known_values(first, rule);
    if !values.is_empty() && !values.iter().any(|value| matches(&rule.key_pattern, value)) {
        let message =
            format!("the rule never applies: its {first} is always {}", values.join(" or "));
        return Some(
            Flaw::new(message, "write `*`, or count by something else").within("key_pattern"),
        );
    }
    let contradicted = rule.conditions.attributes.iter().find(|(identifier, globs)| {
        let values = known_values(identifier, rule);
        !values.is_empty()
            && !values
                .iter()
                .any(|value| globs.matches(value, &mut Steps::unlimited()) == Some(true))
    });
    let (identifier, _) = contradicted?;
    let message =
        format!("the rule never applies: it belongs to a {identifier} that does not match");
    Some(Flaw::new(message, "remove the condition").within("applies_to.attributes"))
}

fn matches(glob: &Glob, value: &str) -> bool {
    glob.matches(value, &mut Steps::unlimited()) == Some(true)
}

/// The only values an identifier can have where a rule applies; empty if that is not known.
fn known_values<'a>(identifier: &Identifier, rule: &'a Rule) -> Vec<&'a str> {
    match (identifier, &*rule.conditions.endpoints) {
        (Identifier::Tenant, _) => rule.tenant.as_deref().into_iter().collect(),
        (Identifier::Global, _) | (Identifier::Endpoint, []) => vec![EVERYTHING],
        (Identifier::Endpoint, endpoints) => endpoints.iter().map(|one| &*one.text).collect(),
        _ => Vec::new(),
    }
}

/// No tier is declared, and no client is in this one.
pub(super) fn undeclared_tier(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let document = &view.source.document;
    if !document.tiers.is_empty() || view.source.unread_tiers().next().is_some() {
        return None;
    }
    let is_given = |tier: &String| document.clients.iter().any(|client| client.tier == *tier);
    let tiers = &suspect.document.applies_to.user_tiers;
    let (at, tier) = tiers.iter().enumerate().find(|(_, tier)| !is_given(tier))?;
    Some(
        Flaw::new(
            format!("no client is in tier {tier} unless requests say so themselves"),
            format!("declare it, `tiers: [{{tier: {tier}}}]`, so that a misspelt tier is found"),
        )
        .within(&format!("applies_to.user_tiers[{at}]")),
    )
}

/// A method that looks like a standard one with a typo.
pub(super) fn misspelt_method(_: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let methods = &suspect.document.applies_to.methods;
    methods.iter().enumerate().find_map(|(at, method)| {
        let meant = standard_method_like(method)?;
        let message = format!("no request has the method {method}");
        let flaw = Flaw::new(message, format!("did you mean {meant}?"));
        Some(flaw.within(&format!("applies_to.methods[{at}]")))
    })
}

/// A rule that only watches, but takes the place of one that enforces.
pub(super) fn replaced_by_a_watcher(view: &LintView<'_>, suspect: Suspect<'_>) -> Option<Flaw> {
    let rule = suspect.rule;
    let mut replaced = rule.replaces.iter().filter_map(|at| view.rules.get(*at));
    let enforced = replaced
        .find(|other| rule.mode == Mode::Shadow && other.mode == Mode::Enforce && other.enabled)?;
    Some(
        Flaw::new(
            format!("where this rule watches, {} is not enforced", enforced.id),
            "leave `replaces` out until the rule is enforced",
        )
        .within("replaces"),
    )
}

/// An override by something the rule does not count by.
pub(super) fn override_without_client(
    view: &LintView<'_>,
    document: &OverrideDocument,
) -> Option<Flaw> {
    foreign_identifier(view.rules, document)
}

pub(super) fn foreign_identifier(rules: &RuleSet, document: &OverrideDocument) -> Option<Flaw> {
    let rule = rules.find(&document.rule_id)?;
    let kinds = parse_identifiers(&document.identifier_type).ok()?;
    let other = kinds.iter().find(|kind| !rule.identifiers.contains(kind))?;
    Some(
        Flaw::new(
            format!("the override never applies: {} does not count by {other}", rule.id),
            "name the client by an identifier that is part of the rule's key",
        )
        .within("identifier_type"),
    )
}
