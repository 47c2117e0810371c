//! A rule as text: YAML that people edit, and what the linter says about it.

use tollgate::rules::document::RuleDocument;
use tollgate::rules::{
    Format, LintContext, PolicyDocument, Problem as Flaw, Severity, Source, inspect, to_yaml,
};
use tollgate_dashboard::model::{Finding, FindingKind};
use tollgate_document::{position_of, read_as, segments};

/// How many findings a page shows.
const MAX_FINDINGS: usize = 50;
const RULES: &str = "rules";

/// A rule as it was edited: the document if it could be read, and everything that is wrong with it.
#[derive(Debug)]
pub(super) struct CheckedRule {
    pub(super) rule: Option<RuleDocument>,
    pub(super) findings: Vec<Finding>,
}

impl CheckedRule {
    /// Whether it could be saved, as far as is known here.
    pub(super) fn is_valid(&self) -> bool {
        self.rule.is_some() && !self.findings.iter().any(|it| it.kind == FindingKind::Error)
    }
}

/// A rule as YAML, as people write it.
pub(super) fn yaml_of(rule: &RuleDocument) -> String {
    // Texts and numbers always serialise.
    to_yaml(rule).unwrap_or_default()
}

/// Reads an edited rule, and looks at it beside the other entries of the policy.
pub(super) fn check(yaml: &str, others: &PolicyDocument, context: &LintContext) -> CheckedRule {
    let source = Source::parse_item_as(yaml, RULES, Format::Yaml);
    let rule = source.document.rules.first().cloned();
    let Some(rule) = rule.filter(|_| source.problems.is_empty()) else {
        let findings = source.problems.iter().map(|flaw| finding(flaw, 0, yaml));
        return CheckedRule { rule: None, findings: findings.take(MAX_FINDINGS).collect() };
    };
    let mut document = others.clone();
    let place = document.rules.iter().position(|other| other.rule_id == rule.rule_id);
    let place = place.unwrap_or_else(|| {
        document.rules.push(rule.clone());
        document.rules.len() - 1
    });
    if let Some(other) = document.rules.get_mut(place) {
        other.clone_from(&rule);
    }
    let flaws = inspect(&Source::from_document(document), context);
    let own = format!("{RULES}[{place}]");
    let is_own = |flaw: &&Flaw| {
        flaw.rule.as_deref() == Some(&rule.rule_id)
            || flaw.path.strip_prefix(&own).is_some_and(|it| it.is_empty() || it.starts_with('.'))
    };
    let findings = flaws.iter().filter(is_own).map(|flaw| finding(flaw, place, yaml));
    CheckedRule { findings: findings.take(MAX_FINDINGS).collect(), rule: Some(rule) }
}

/// What the linter found, with its place in the text of the rule.
fn finding(flaw: &Flaw, place: usize, yaml: &str) -> Finding {
    let prefix = format!("{RULES}[{place}]");
    let field = flaw.path.strip_prefix(&prefix).unwrap_or(&flaw.path).trim_start_matches('.');
    let found = || {
        let root = read_as(yaml, Format::Yaml).ok()?;
        position_of(&root, &segments(field))
    };
    Finding {
        kind: match flaw.severity {
            Severity::Error => FindingKind::Error,
            Severity::Warning => FindingKind::Advice,
        },
        field: field.to_owned(),
        line: flaw.position.or_else(found).map(|position| u64::from(position.line)),
        message: flaw.message.clone(),
        advice: flaw.advice.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: LintContext = LintContext { nodes: None, trusted_proxies: None, redis: false };

    fn checked(yaml: &str) -> CheckedRule {
        let others = "rules: [{rule_id: other, limit: 1, window: 1m, identifier_type: ip}]";
        check(yaml, &Source::parse(others).document, &CONTEXT)
    }

    #[test]
    fn problems_have_the_line_of_the_text() {
        let broken = checked("rule_id: a\nlimit: many\nwindow: 1m\nidentifier_type: ip\n");
        assert!(!broken.is_valid());
        let first = &broken.findings[0];
        assert_eq!((first.kind, &*first.field, first.line), (FindingKind::Error, "limit", Some(2)));
        let unknown =
            checked("rule_id: a\nlimit: 1\nwindow: 1m\nidentifier_type: ip\nreplaces: [x]\n");
        assert!(!unknown.is_valid());
        let first = &unknown.findings[0];
        assert_eq!((&*first.field, first.line), ("replaces[0]", Some(5)), "{first:?}");
        let no_yaml = checked("a: b: c");
        assert!(!no_yaml.is_valid() && no_yaml.findings[0].line == Some(1));
        assert!(!checked("").is_valid());
        assert!(!checked("[1, 2]").is_valid());
    }

    #[test]
    fn a_rule_is_looked_at_beside_the_others() {
        let valid =
            checked("rule_id: a\nlimit: 5\nwindow: 1m\nidentifier_type: ip\nreplaces: [other]\n");
        assert!(valid.is_valid(), "{:?}", valid.findings);
        let replaced = checked("rule_id: other\nlimit: 5\nwindow: 1m\nidentifier_type: ip\n");
        assert!(replaced.is_valid(), "{:?}", replaced.findings);
        let rule = replaced.rule.expect("a rule");
        assert_eq!(yaml_of(&rule), "rule_id: other\nlimit: 5\nwindow: 1m\nidentifier_type: ip\n");
    }
}
