//! `tollgate rules apply` and `diff`: what files say is compared with what a catalog says, shown, and
//! put in its place in one transaction.

use std::process::ExitCode;

use http::StatusCode;

use super::arguments::{ApplyArguments, DiffArguments, PolicyFilesArguments};
use super::confirm::confirm;
use super::files::PolicyFiles;
use super::plan::Plan;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::remote::client::{Answer, Client};
use crate::remote::layout::{Paint, print};
use crate::remote::refusal::CallError;

/// The exit code of a comparison that found something.
const DIFFERENT: u8 = 1;

/// How often a plan is tried again when others change what it does not touch.
const TRIES: usize = 5;

/// Shows what would change, asks, and changes it.
pub(crate) fn apply(arguments: &ApplyArguments) -> Result<ExitCode, Failure> {
    let json = arguments.server.json;
    if json && !arguments.yes && !arguments.dry_run {
        return Err(Failure::usage("--json asks no questions: say --yes or --dry-run with it"));
    }
    let desk = Desk::new(&arguments.files, &arguments.server)?;
    let plan = desk.plan()?;
    if !json {
        print(&plan.value.render(Paint::of_output()))?;
    }
    if arguments.dry_run || plan.value.changes.is_empty() {
        if json {
            print(&plan.text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes {
        confirm("Apply?")?;
    }
    let done = desk.write(plan)?;
    print(&if json { done.text } else { done.value.done() })?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what would change. The exit code tells whether anything would.
pub(crate) fn diff(arguments: &DiffArguments) -> Result<ExitCode, Failure> {
    let plan = Desk::new(&arguments.files, &arguments.server)?.plan()?;
    let is_same = plan.value.changes.is_empty();
    let rendered = || plan.value.render(Paint::of_output());
    print(&if arguments.server.json { plan.text.clone() } else { rendered() })?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}

/// Files on the one side, a server on the other.
struct Desk {
    files: PolicyFiles,
    client: Client,
    /// What is sent, whether it is only a trial or not.
    body: String,
    prune: Option<String>,
}

impl Desk {
    fn new(files: &PolicyFilesArguments, server: &ServerArguments) -> Result<Self, Failure> {
        let prune = files.prune;
        let files = PolicyFiles::read(&files.paths)?;
        let prune = prune.then(|| files.lists().join(",")).filter(|lists| !lists.is_empty());
        Ok(Self { body: files.to_json(), client: Client::new(server)?, files, prune })
    }

    /// What would change now.
    fn plan(&self) -> Result<Answer<Plan>, Failure> {
        self.put(true, None).map_err(|error| self.failure(error))
    }

    /// Makes the changes of a plan, and no others.
    fn write(&self, plan: Answer<Plan>) -> Result<Answer<Plan>, Failure> {
        let mut tag = plan.tag;
        for _ in 0..TRIES {
            match self.put(false, tag) {
                Ok(done) => return Ok(done),
                Err(CallError::Refused(refusal))
                    if refusal.status == StatusCode::PRECONDITION_FAILED => {}
                Err(CallError::Failed(Failure::Usage(why))) => {
                    let advice = "see with `tollgate rules diff` whether it was applied";
                    return Err(Failure::usage(format!("{why}; {advice}")));
                }
                Err(error) => return Err(self.failure(error)),
            }
            let now = self.plan()?;
            if !now.value.is_like(&plan.value) {
                return Err(Failure::refused(
                    "the catalog was changed meanwhile, and the plan is another one now; nothing was \
                     applied. Run it again to see the new plan.",
                ));
            }
            tag = now.tag;
        }
        Err(Failure::refused(
            "the catalog is being changed all the time; nothing was applied. Run it again.",
        ))
    }

    fn put(&self, is_trial: bool, tag: Option<String>) -> Result<Answer<Plan>, CallError> {
        let trial = is_trial.then(|| "dry_run=true".to_owned());
        let prune = self.prune.as_ref().map(|lists| format!("prune={lists}"));
        let query: Vec<String> = trial.into_iter().chain(prune).collect();
        let separator = if query.is_empty() { "" } else { "?" };
        let path = format!("/api/v1/policy{separator}{}", query.join("&"));
        self.client.put(&path, self.body.clone(), tag.map(|tag| ("if-match", tag)))
    }

    /// Why the server did not take the files, with the lines that it did not like.
    fn failure(&self, error: CallError) -> Failure {
        match error {
            CallError::Refused(refusal) if !refusal.flaws.is_empty() => {
                let shown = self.files.show(&refusal.flaws);
                Failure::refused(format!("{}\n\n{shown}", refusal.told))
            }
            other => other.into(),
        }
    }
}
