//! Files with scenarios, the policies that they are for, and everything that is wrong with them.

use std::path::Path;

use tollgate::{Micros, Policy, Problem};
use tollgate_document::{Decode as _, Scope, read};

use super::document::{Scenario, ScenarioDocument, Step, StepTime};
use crate::failure::Failure;
use crate::policy_file::{PolicyText, read_text};
use crate::terminal::count;

/// Scenarios, and the policy that they are for.
pub(super) struct ScenarioFile {
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) scenarios: Vec<Scenario>,
}

impl ScenarioFile {
    /// Reads a file; `-` is standard input. `rules` is used instead of the policy that it names.
    pub(super) fn read(path: &str, rules: Option<&str>) -> Result<Self, Failure> {
        let (name, text) = read_text(path)?;
        let unusable = |problems: &[Problem]| {
            let shown: Vec<String> =
                problems.iter().map(|problem| problem.render(name, &text)).collect();
            let found = count(problems.len() as u64, "problem");
            Failure::usage(format!("{name} cannot be used: {found}\n\n{}", shown.join("\n")))
        };
        let root = read(&text).map_err(|problem| unusable(&[problem]))?;
        let mut scope = Scope::default();
        let document = ScenarioDocument::decode(&root, &mut scope);
        let (problems, _) = scope.finish();
        let Some(document) = document.filter(|_| problems.is_empty()) else {
            return Err(unusable(&problems));
        };
        let policy = match (rules, &document.policy) {
            (Some(rules), _) => PolicyText::read(rules)?,
            (None, Some(policy)) => PolicyText::read(&beside(path, policy))?,
            (None, None) => {
                let missing = Problem::new("policy", "the file names no policy")
                    .with_advice("add policy: FILE, or use --rules FILE")
                    .at(root.position);
                return Err(unusable(&[missing]));
            }
        };
        let compiled = Policy::compile(&policy.source).map_err(|it| policy.unusable(&it))?;
        let ids: Vec<&str> = compiled.rules().iter().map(|rule| &*rule.id).collect();
        let problems: Vec<Problem> = document
            .scenarios
            .iter()
            .enumerate()
            .flat_map(|(index, scenario)| problems_of(index, scenario, &ids))
            .collect();
        if !problems.is_empty() {
            return Err(unusable(&problems));
        }
        let name = name.to_owned();
        Ok(Self { name, policy: compiled, scenarios: document.scenarios })
    }
}

/// A path that a file names: from the folder of that file.
fn beside(file: &str, path: &str) -> String {
    let folder = Path::new(file).parent().filter(|_| file != "-");
    folder.map_or_else(|| path.to_owned(), |folder| folder.join(path).display().to_string())
}

/// Rules that the policy does not have, and times that go back.
fn problems_of(index: usize, scenario: &Scenario, ids: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut now = Micros::ZERO;
    for (i, step) in scenario.steps.iter().enumerate() {
        let path = |field: &str| format!("scenarios[{index}].steps[{i}].{field}");
        if let StepTime::At(at) = step.time
            && at < now
        {
            let message = "this is before the last request of the step above";
            let advice = "write steps in the order of their times";
            let problem = Problem::new(path("at"), message).with_advice(advice);
            problems.push(problem.at(step.position));
        }
        now = end_of(step, now);
        let unknown = step.expect.as_ref().and_then(|expect| expect.unknown_rule(ids));
        problems.extend(unknown.map(|problem| {
            let path = path(&format!("expect.{}", problem.path));
            Problem { path, ..problem }
        }));
    }
    problems
}

/// When the last request of a step is made, from the beginning of the scenario.
fn end_of(step: &Step, before: Micros) -> Micros {
    let begin = match step.time {
        StepTime::At(at) => at,
        StepTime::After(after) => before.plus(after),
    };
    begin.plus(Micros::new(step.every.get().saturating_mul(step.times - 1)))
}
