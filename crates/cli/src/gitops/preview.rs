//! `tollgate rules preview`: what changed rules would have done to the recent requests of a server.

use std::process::ExitCode;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::PolicyFilesArguments;
use super::files::PolicyFiles;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::output::print;
use crate::remote::client::Remote;
use crate::remote::list::FullList;
use crate::table::{Column, table};
use crate::terminal::{count, grouped, share};

/// Arguments of `tollgate rules preview`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules preview -f policy.yaml
  tollgate rules preview -f policy.yaml --prune --json

The server replays the requests that it keeps (its setting recent_traffic) under the rules in force and under \
the changed ones. Nothing is charged or changed. The exit code is 0, 1 if the server refuses, 2 if the files \
cannot be used or there is no answer.")]
pub(crate) struct PreviewArguments {
    #[command(flatten)]
    files: PolicyFilesArguments,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Deserialize)]
struct PreviewRow {
    from: Option<String>,
    until: Option<String>,
    requests: u64,
    nodes: u64,
    one_in: u64,
    cut: bool,
    now: SideRow,
    then: SideRow,
    clients: Vec<ClientRow>,
    unknown: Vec<String>,
}

#[derive(Deserialize)]
struct SideRow {
    refused: u64,
    throttled: u64,
    would_refuse: u64,
    clients: u64,
}

#[derive(Deserialize)]
struct ClientRow {
    client: String,
    requests: u64,
    refused_now: u64,
    refused_then: u64,
}

#[derive(Deserialize)]
struct RuleId {
    rule_id: String,
}

/// Asks the server, and prints what would change.
pub(crate) fn preview(arguments: &PreviewArguments) -> Result<ExitCode, Failure> {
    let files = PolicyFiles::read_valid(&arguments.files.paths)?;
    let remote = Remote::new(&arguments.server)?;
    let removed = if arguments.files.prune { removed(&files, &remote)? } else { Vec::new() };
    let document: Value = serde_json::from_str(&files.to_json())
        .map_err(|error| Failure::usage(format!("the files cannot be sent: {error}")))?;
    let body = json!({"policy": document, "remove": removed});
    let response = remote.post::<PreviewRow>("/api/v1/preview", &body)?;
    print(&if arguments.server.json { response.text } else { response.value.render() })?;
    Ok(ExitCode::SUCCESS)
}

/// The rules of the server that the files have not, if they have a list of rules.
fn removed(files: &PolicyFiles, remote: &Remote) -> Result<Vec<String>, Failure> {
    if !files.lists().contains(&"rules") {
        return Ok(Vec::new());
    }
    let known = FullList::read(remote, "/api/v1/rules", "rules")?.rows::<RuleId>()?;
    Ok(known.into_iter().map(|rule| rule.rule_id).filter(|id| !files.has_rule(id)).collect())
}

impl PreviewRow {
    fn render(&self) -> String {
        let (Some(from), Some(until)) = (&self.from, &self.until) else {
            return "this server has checked no requests lately\n".to_owned();
        };
        let mut text =
            format!("{} of this server, {from} to {until}", count(self.requests, "request"));
        if self.one_in > 1 {
            text += &format!(", of one in {} clients", self.one_in);
        }
        if self.cut {
            text += ", older ones left out";
        }
        if self.nodes > 1 {
            text += &format!(
                "\n{} nodes share the counters, and clients sent requests to the others, too: more are refused than this says",
                self.nodes
            );
        }
        let columns = [
            Column::Text(""),
            Column::Figure("now"),
            Column::Figure("then"),
            Column::Figure("share"),
        ];
        let row = |what: &str, now: u64, then: u64, whole: u64| {
            let share = if whole == 0 { String::new() } else { share(then, whole) };
            [what.to_owned(), grouped(now), grouped(then), share]
        };
        let mut rows = vec![
            row("refused", self.now.refused, self.then.refused, self.requests),
            row("delayed", self.now.throttled, self.then.throttled, self.requests),
            row("clients refused", self.now.clients, self.then.clients, 0),
        ];
        let tried = (self.now.would_refuse, self.then.would_refuse);
        if tried != (0, 0) {
            let what = "would be refused by shadow rules and candidates";
            rows.push(row(what, tried.0, tried.1, self.requests));
        }
        text += &format!("\n\n{}", table(columns, &rows));
        if !self.clients.is_empty() {
            let columns = [
                Column::Text("client"),
                Column::Figure("requests"),
                Column::Figure("refused now"),
                Column::Figure("then"),
            ];
            let rows: Vec<[String; 4]> = self.clients.iter().map(ClientRow::cells).collect();
            text += &format!("\n{}", table(columns, &rows));
        }
        if !self.unknown.is_empty() {
            text += &format!("\nnot known of these requests: {}\n", self.unknown.join(", "));
        }
        text
    }
}

impl ClientRow {
    fn cells(&self) -> [String; 4] {
        let Self { client, requests, refused_now, refused_then } = self;
        [client.clone(), grouped(*requests), grouped(*refused_now), grouped(*refused_then)]
    }
}
