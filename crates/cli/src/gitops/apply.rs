//! `tollgate rules apply` and `diff`: compares files with a catalog, shows the difference, and applies it in one
//! transaction.

use std::process::ExitCode;

use http::StatusCode;

use super::arguments::{ApplyArguments, DiffArguments, PolicyFilesArguments};
use super::confirm::confirm;
use super::files::PolicyFiles;
use super::plan::ChangePlan;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::{Paint, print};
use crate::remote::call_error::CallError;
use crate::remote::client::{Fetched, Remote};

/// The exit code of a comparison that found something.
const DIFFERENT: u8 = 1;

/// How often a plan is retried when others change what it does not touch.
const MAX_ATTEMPTS: usize = 5;

/// Shows what would change, asks, and changes it.
pub(crate) fn apply(arguments: &ApplyArguments) -> Result<ExitCode, Failure> {
    let json = arguments.server.json;
    if json && !arguments.yes && !arguments.dry_run {
        return Err(Failure::usage("--json asks no questions: say --yes or --dry-run with it"));
    }
    let session = ApplySession::new(&arguments.files, &arguments.server)?;
    let plan = session.plan()?;
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
    let done = session.write(plan)?;
    print(&if json { done.text } else { done.value.done() })?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what would change. The exit code tells whether anything would.
pub(crate) fn diff(arguments: &DiffArguments) -> Result<ExitCode, Failure> {
    let plan = ApplySession::new(&arguments.files, &arguments.server)?.plan()?;
    let is_same = plan.value.changes.is_empty();
    let rendered = || plan.value.render(Paint::of_output());
    print(&if arguments.server.json { plan.text.clone() } else { rendered() })?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}

/// One run of `apply` or `diff`: the files, and the server they are compared with.
struct ApplySession {
    files: PolicyFiles,
    remote: Remote,
    /// What is sent, in a dry run or not.
    body: String,
    prune: Option<String>,
}

impl ApplySession {
    fn new(files: &PolicyFilesArguments, server: &ServerArguments) -> Result<Self, Failure> {
        let prune = files.prune;
        let files = PolicyFiles::read_valid(&files.paths)?;
        let prune = prune.then(|| files.lists().join(",")).filter(|lists| !lists.is_empty());
        Ok(Self { body: files.to_json(), remote: Remote::new(server)?, files, prune })
    }

    /// What would change now.
    fn plan(&self) -> Result<Fetched<ChangePlan>, Failure> {
        self.put(true, None).map_err(|error| self.failure(error))
    }

    /// Makes the changes of a plan, and no others.
    fn write(&self, plan: Fetched<ChangePlan>) -> Result<Fetched<ChangePlan>, Failure> {
        let mut etag = plan.etag;
        for _ in 0..MAX_ATTEMPTS {
            match self.put(false, etag.as_deref()) {
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
            etag = now.etag;
        }
        Err(Failure::refused(
            "the catalog is being changed all the time; nothing was applied. Run it again.",
        ))
    }

    fn put(&self, is_dry_run: bool, etag: Option<&str>) -> Result<Fetched<ChangePlan>, CallError> {
        let dry_run = is_dry_run.then(|| "dry_run=true".to_owned());
        let prune = self.prune.as_ref().map(|lists| format!("prune={lists}"));
        let query: Vec<String> = dry_run.into_iter().chain(prune).collect();
        let separator = if query.is_empty() { "" } else { "?" };
        let path = format!("/api/v1/policy{separator}{}", query.join("&"));
        self.remote.put(&path, self.body.clone(), etag)
    }

    /// Why the server refuses the files, with the lines it refuses.
    fn failure(&self, error: CallError) -> Failure {
        match error {
            CallError::Refused(refusal) if !refusal.problems.is_empty() => {
                let shown = self.files.show(&refusal.problems);
                Failure::refused(format!("{}\n\n{shown}", refusal.message))
            }
            other => other.into(),
        }
    }
}
