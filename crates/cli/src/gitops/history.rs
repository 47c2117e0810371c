//! `tollgate rules history`, `show`, `diff A B` and `rollback`: the policy as it was, and the way back.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::apply::DIFFERENT;
use super::arguments::{HistoryArguments, RollbackArguments, ShowArguments};
use super::confirm::confirm;
use super::export::write_policy;
use super::plan::{ChangePlan, PlannedChange};
use super::planned_write::PlannedCall;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::{Paint, print};
use crate::remote::call_error::CallError;
use crate::remote::client::{Fetched, Remote};
use crate::table::{Column, table};
use crate::terminal::{count, named_actor};

const REVISIONS: &str = "/api/v1/policy/revisions";

#[derive(Deserialize)]
struct History {
    revisions: Vec<HistoryRow>,
}

/// A revision in a line.
#[derive(Deserialize)]
struct HistoryRow {
    revision: u64,
    at: String,
    actor: String,
    actor_name: Option<String>,
    role: String,
    note: Option<String>,
    summary: String,
}

/// What differs between two revisions.
#[derive(Deserialize)]
struct RevisionDiff {
    from: u64,
    to: u64,
    changes: Vec<PlannedChange>,
}

/// Lists the last revisions of the policy, one a line.
pub(crate) fn history(arguments: &HistoryArguments) -> Result<ExitCode, Failure> {
    let path = format!("{REVISIONS}?limit={}", arguments.limit);
    let response = Remote::new(&arguments.server)?.get::<History>(&path)?;
    print(&if arguments.server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the policy of a revision, or writes it into a file.
pub(crate) fn show(arguments: &ShowArguments) -> Result<ExitCode, Failure> {
    let path = format!("{REVISIONS}/{}", arguments.revision);
    let response = Remote::new(&arguments.export.server)?.get::<Box<RawValue>>(&path)?;
    write_policy(response, &arguments.export)
}

/// Shows what differs between two revisions; without a second one, what changed since the first.
pub(super) fn diff_revisions(
    from: u64,
    to: Option<u64>,
    server: &ServerArguments,
) -> Result<ExitCode, Failure> {
    let to = to.map(|to| format!("?to={to}")).unwrap_or_default();
    let response =
        Remote::new(server)?.get::<RevisionDiff>(&format!("{REVISIONS}/{from}/diff{to}"))?;
    let is_same = response.value.changes.is_empty();
    print(&if server.json { response.text } else { response.value.render(Paint::of_output()) })?;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENT) })
}

/// Shows what a rollback would change, asks, and changes it.
pub(crate) fn rollback(arguments: &RollbackArguments) -> Result<ExitCode, Failure> {
    let json = arguments.server.json;
    if json && !arguments.consent.yes && !arguments.consent.dry_run {
        return Err(Failure::usage("--json asks no questions: say --yes or --dry-run with it"));
    }
    let revision = arguments.revision;
    let is_of_rules = arguments.only.is_some();
    let call = RollbackCall { remote: Remote::new(&arguments.server)?, revision, is_of_rules };
    let plan = call.plan()?;
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
        let others =
            plan.value.changes.iter().filter(|change| change.kind != "rule").count() as u64;
        let what = match others {
            0 => String::new(),
            others => format!(
                ", with {} of entries that are no rules (--only rules leaves these out)",
                count(others, "change")
            ),
        };
        confirm(&format!("Roll back to revision {revision}{what}?"))?;
    }
    let done = call.write(plan)?;
    print(&if json { done.text } else { done.value.done() })?;
    Ok(ExitCode::SUCCESS)
}

/// A rollback on a server.
struct RollbackCall {
    remote: Remote,
    revision: u64,
    is_of_rules: bool,
}

impl PlannedCall for RollbackCall {
    fn send(&self, is_dry_run: bool, etag: Option<&str>) -> Result<Fetched<ChangePlan>, CallError> {
        let words = [(is_dry_run, "dry_run=true"), (self.is_of_rules, "only=rules")];
        let words: Vec<&str> = words.iter().filter(|it| it.0).map(|it| it.1).collect();
        let query = if words.is_empty() { String::new() } else { format!("?{}", words.join("&")) };
        let path = format!("{REVISIONS}/{}/rollback{query}", self.revision);
        self.remote.post_empty(&path, etag)
    }

    fn failure(&self, error: CallError) -> Failure {
        error.or_unknown()
    }
}

impl History {
    fn render(&self) -> String {
        let columns = [
            Column::Figure("revision"),
            Column::Text("when"),
            Column::Text("who"),
            Column::Text("role"),
            Column::Text("what"),
        ];
        let rows: Vec<[String; 5]> = self.revisions.iter().map(HistoryRow::cells).collect();
        let summary = format!("{}\n", count(rows.len() as u64, "revision"));
        if rows.is_empty() { summary } else { format!("{}\n{summary}", table(columns, &rows)) }
    }
}

impl HistoryRow {
    fn cells(&self) -> [String; 5] {
        let Self { revision, at, actor, actor_name, role, note, summary } = self;
        let who = named_actor(actor, actor_name.as_deref());
        let what = match note {
            Some(note) => format!("{note}: {summary}"),
            None => summary.clone(),
        };
        [revision.to_string(), at.clone(), who, role.clone(), what]
    }
}

impl RevisionDiff {
    fn render(self, paint: Paint) -> String {
        let Self { from, to, changes } = self;
        if changes.is_empty() {
            return format!("revisions {from} and {to} do not differ\n");
        }
        let plan = ChangePlan { revision: to, changes };
        let lines = plan.lines(paint);
        format!("{lines}\nfrom revision {from} to {to}: {}\n", plan.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_a_line_and_a_rollback_says_so() {
        let answer = r#"{"revisions":[
            {"revision":12,"at":"2030-01-01T00:00:00Z","actor":"c62997ec","actor_name":"ada","role":"admin","changes":1,
             "note":"rollback to revision 9","summary":"rule a updated (limit 2 -> 1)"},
            {"revision":9,"at":"2029-01-01T00:00:00Z","actor":"bob","role":"operator","changes":1,
             "summary":"rule a created"}]}"#;
        let history: History = serde_json::from_str(answer).expect("an answer");
        let expected = " revision  when                  who             role      what
       12  2030-01-01T00:00:00Z  ada (c62997ec)  admin     rollback to revision 9: rule a updated (limit 2 -> 1)
        9  2029-01-01T00:00:00Z  bob             operator  rule a created

2 revisions
";
        assert_eq!(history.render(), expected);
        assert_eq!(History { revisions: Vec::new() }.render(), "0 revisions\n");
    }

    #[test]
    fn revisions_are_compared_field_by_field() {
        let answer = r#"{"from":3,"to":5,"changes":[{"kind":"rule","entry":"a","was":{"limit":1},"becomes":{"limit":2}}]}"#;
        let diff: RevisionDiff = serde_json::from_str(answer).expect("an answer");
        let expected = "~ rule a\n    ~ limit: 1 -> 2\n\nfrom revision 3 to 5: 0 created, 1 updated, 0 deleted\n";
        assert_eq!(diff.render(Paint::NONE), expected);
        let same = RevisionDiff { from: 3, to: 5, changes: Vec::new() };
        assert_eq!(same.render(Paint::NONE), "revisions 3 and 5 do not differ\n");
    }
}
