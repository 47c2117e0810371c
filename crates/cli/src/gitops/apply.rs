//! `tollgate rules apply` and `diff`: compares files with a catalog, shows the difference, and applies it in one
//! transaction.

use std::process::ExitCode;

use super::arguments::{ApplyArguments, DiffArguments, PolicyFilesArguments};
use super::confirm::confirm;
use super::files::PolicyFiles;
use super::history::diff_revisions;
use super::plan::ChangePlan;
use super::planned_write::PlannedCall;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::{Paint, print};
use crate::remote::call_error::CallError;
use crate::remote::client::{Fetched, Remote};

/// The exit code of a comparison that found something.
pub(super) const DIFFERENT: u8 = 1;

/// Shows what would change, asks, and changes it.
pub(crate) fn apply(arguments: &ApplyArguments) -> Result<ExitCode, Failure> {
    let json = arguments.server.json;
    if json && !arguments.consent.yes && !arguments.consent.dry_run {
        return Err(Failure::usage("--json asks no questions: say --yes or --dry-run with it"));
    }
    let session = ApplySession::new(&arguments.files, &arguments.server)?;
    let plan = session.plan()?;
    if !json {
        print(&plan.value.render(Paint::of_output()))?;
    }
    if arguments.consent.dry_run || plan.value.changes.is_empty() {
        if json {
            print(&plan.text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.consent.yes {
        confirm("Apply?")?;
    }
    let done = session.write(plan)?;
    print(&if json { done.text } else { done.value.done() })?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what would change, or what differs between two revisions. The exit code tells whether anything does.
pub(crate) fn diff(arguments: &DiffArguments) -> Result<ExitCode, Failure> {
    if let [from, rest @ ..] = &arguments.revisions[..] {
        return diff_revisions(*from, rest.first().copied(), &arguments.server);
    }
    let files = PolicyFilesArguments { paths: arguments.paths.clone(), prune: arguments.prune };
    let plan = ApplySession::new(&files, &arguments.server)?.plan()?;
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
}

impl PlannedCall for ApplySession {
    fn send(&self, is_dry_run: bool, etag: Option<&str>) -> Result<Fetched<ChangePlan>, CallError> {
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
