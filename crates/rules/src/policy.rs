//! A policy: rules and directory together, so that a request sees one version of both.

use std::hash::BuildHasher;
use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_document::Problem;

use crate::attributes::Attributes;
use crate::compile::{self, CompileOptions};
use crate::directory::Directory;
use crate::explain::{self, ExplainScope, Explanation};
use crate::matching::path::PathCase;
use crate::plan::Plan;
use crate::plan::planner::Planner;
use crate::ruleset::RuleSet;
use crate::source::Source;

/// A compiled policy. Cloning it is cheap; changing it means making another one.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Arc<RuleSet>,
    directory: Arc<Directory>,
    revision: Revision,
    path_case: PathCase,
}

/// Which version of which catalog a policy is. A larger number is newer within an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Revision {
    /// Set when a catalog is created, so that two catalogs are never confused.
    pub epoch: u64,
    /// Counts the changes.
    pub number: u64,
}

impl Policy {
    /// Compiles a document.
    ///
    /// # Errors
    /// Everything that is wrong with it, from its text to its meaning.
    pub fn compile(source: &Source) -> Result<Self, Vec<Problem>> {
        Self::compile_with(source, &CompileOptions::default())
    }

    /// Compiles a document under other than the usual bounds.
    ///
    /// # Errors
    /// Everything that is wrong with it, from its text to its meaning.
    pub fn compile_with(source: &Source, options: &CompileOptions) -> Result<Self, Vec<Problem>> {
        let (rules, directory) = compile::compile(source, *options)?;
        Ok(Self {
            rules: Arc::new(rules),
            directory: Arc::new(directory),
            revision: Revision::default(),
            path_case: PathCase::default(),
        })
    }

    /// Reads and compiles a text, YAML or JSON.
    ///
    /// # Errors
    /// Everything that is wrong with it, from its text to its meaning.
    pub fn from_text(text: &str) -> Result<Self, Vec<Problem>> {
        Self::compile(&Source::parse(text))
    }

    /// The same policy under another revision.
    #[must_use]
    pub fn with_revision(self, revision: Revision) -> Self {
        Self { revision, ..self }
    }

    /// The same policy, with paths matched in this way.
    #[must_use]
    pub fn with_path_case(self, path_case: PathCase) -> Self {
        Self { path_case, ..self }
    }

    /// Whether capital letters in paths matter.
    #[must_use]
    pub fn path_case(&self) -> PathCase {
        self.path_case
    }

    /// The same rules with another directory.
    #[must_use]
    pub fn with_directory(&self, directory: Directory) -> Self {
        Self { directory: Arc::new(directory), ..self.clone() }
    }

    /// Which version this is.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether this is another policy with the very same rules: then only clients can differ.
    #[must_use]
    pub fn shares_rules_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules)
    }

    /// The rules.
    #[must_use]
    #[inline]
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// What is known of single clients.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Finds every rule that applies to a request and what it charges.
    ///
    /// Several subjects are several views of one request; each is charged with its own cost, and
    /// where they meet on a counter the costs add up. `hasher` computes the fingerprints of keys
    /// and should be secret.
    #[must_use]
    pub fn plan(
        &self,
        subjects: &[&dyn Attributes],
        now: Timestamp,
        hasher: &impl BuildHasher,
    ) -> Plan {
        let mut plan = Plan::default();
        self.plan_into(&mut plan, subjects, now, hasher);
        plan
    }

    /// [`Policy::plan`] into an empty plan that already stands where it is to stay.
    #[inline]
    pub fn plan_into(
        &self,
        plan: &mut Plan,
        subjects: &[&dyn Attributes],
        now: Timestamp,
        hasher: &impl BuildHasher,
    ) {
        self.planner(now, hasher).plan(subjects, plan);
    }

    /// Plans for one rule alone, whatever its conditions: the caller knows which rule it means.
    /// Lists and overrides count. The plan has no line if the rule is switched off or the request
    /// lacks an identifier. `None`: there is no such rule.
    #[must_use]
    pub fn plan_rule(
        &self,
        rule_id: &str,
        subject: &dyn Attributes,
        now: Timestamp,
        hasher: &impl BuildHasher,
    ) -> Option<Plan> {
        let mut plan = Plan::default();
        self.plan_rule_into(&mut plan, rule_id, subject, now, hasher)?;
        Some(plan)
    }

    /// [`Policy::plan_rule`] into an empty plan that already stands where it is to stay.
    pub fn plan_rule_into(
        &self,
        plan: &mut Plan,
        rule_id: &str,
        subject: &dyn Attributes,
        now: Timestamp,
        hasher: &impl BuildHasher,
    ) -> Option<()> {
        let at = self.rules.index_of(rule_id)?;
        self.planner(now, hasher).plan_rule(at, self.rules.get(at)?, subject, plan);
        Some(())
    }

    /// Says of every rule whether it applies to a request, and why.
    #[must_use]
    pub fn explain(&self, subject: &dyn Attributes, now: Timestamp) -> Explanation {
        self.explain_within(subject, now, ExplainScope::All)
    }

    /// Explains only the rules within `scope`.
    #[must_use]
    pub fn explain_within(
        &self,
        subject: &dyn Attributes,
        now: Timestamp,
        scope: ExplainScope,
    ) -> Explanation {
        explain::explain(self, subject, now, scope)
    }

    fn planner<'a, H: BuildHasher>(&'a self, now: Timestamp, hasher: &'a H) -> Planner<'a, H> {
        let (rules, directory) = (&*self.rules, &*self.directory);
        Planner { rules, directory, path_case: self.path_case, now, hasher }
    }
}
