//! `tollgate audit` and `tollgate decisions`: who changed what, who was refused, and refunds.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use tollgate_api::Reason;

use super::client_name::named_by;
use super::entries::{given, list};
use super::resource::{AUDIT, DECISIONS, DECISIONS_WIDE};
use super::stats::{TopArguments, top};
use super::times::SpanArguments;
use crate::arguments::{ServerArguments, parse_decision_id};
use crate::failure::Failure;
use crate::remote::{explain_decision, refund_decision};

/// Arguments of `tollgate audit`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate audit --kind rule --entry search
  tollgate audit --entry 'user_id mallory'
  tollgate audit --since 2h --json

Changes of tokens are shown to administrators only; a tenant-admin sees changes of its tenant.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct AuditArguments {
    /// Only changes by this token, by its id or name, or part of the program.
    #[arg(long, value_name = "TOKEN")]
    pub(super) actor: Option<String>,

    /// Only changes of this kind: rule, tier, client, override, whitelist, blacklist, `api_key`, token, ban; or counters for resets
    /// and refunds.
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<String>,

    /// Only changes of the entry of this name, as the table prints it: search, or 'login 203.0.113.9'. If a part of it
    /// has a space, all parts as JSON: `["user_id","ann lee"]`.
    #[arg(long, value_name = "NAME")]
    pub(super) entry: Option<String>,

    /// Only changes of entries of this tenant.
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,

    #[command(flatten)]
    pub(super) span: SpanArguments,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DecisionsCommand {
    /// List decisions that were kept: all refusals, and a sample of the others.
    List(ListDecisionsArguments),
    /// Explain a decision: its reason, and the figures of every rule.
    Show(ShowDecisionArguments),
    /// Refund what a decision charged, once.
    Refund(RefundDecisionArguments),
    /// Rank clients, rules or endpoints by recent refusals.
    Top(TopArguments),
}

/// Arguments of `tollgate decisions list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate decisions list --client alice --result refused --since 1h
  tollgate decisions list --client ip=198.51.100.23 --wide

Ids of decisions that were allowed are long; they are cut, and end with `…`: --wide and --json have them whole.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListDecisionsArguments {
    /// Only decisions about this client, by its user, its API key or the digest of that, or its address; a tenant as
    /// tenant=acme.
    #[arg(long, value_name = "CLIENT")]
    pub(super) client: Option<String>,

    /// Only decisions of this rule.
    #[arg(long, value_name = "RULE_ID")]
    pub(super) rule: Option<String>,

    /// Only those that ended like this: refused (over a limit), denied (on the deny list or banned), throttled, allowed,
    /// `would_refuse`; or several, separated by commas.
    #[arg(long, value_name = "RESULT", value_parser = results)]
    pub(super) result: Option<String>,

    /// Only decisions about requests of this tenant.
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,

    /// Show more columns, and whole ids.
    #[arg(long)]
    pub(super) wide: bool,

    #[command(flatten)]
    pub(super) span: SpanArguments,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate decisions show`.
#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0, 1 if the server refuses or there is no such decision, 2 if there is no answer.")]
pub(crate) struct ShowDecisionArguments {
    /// The id in the response to the check.
    #[arg(value_name = "ID", value_parser = parse_decision_id)]
    pub(super) id: String,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Arguments of `tollgate decisions refund`.
#[derive(Args, Debug)]
#[command(after_help = "\
`tollgate refund` refunds the cost of a request without an id.

The exit code is 0, 1 if the server refuses or there is no such decision, 2 if there is no answer.")]
pub(crate) struct RefundDecisionArguments {
    /// The id in the response to the check.
    #[arg(value_name = "ID", value_parser = parse_decision_id)]
    pub(super) id: String,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Prints changes, one a line.
pub(crate) fn audit(arguments: &AuditArguments) -> Result<ExitCode, Failure> {
    let AuditArguments { actor, kind, entry, tenant, span, server } = arguments;
    span.check()?;
    let entry = entry.as_ref().map(|entry| recorded_name(entry, kind.as_deref()));
    let parameters = given([
        ("actor", actor.as_ref()),
        ("kind", kind.as_ref()),
        ("entry", entry.as_ref()),
        ("tenant", tenant.as_ref()),
        ("since", span.since.as_ref()),
        ("until", span.until.as_ref()),
    ]);
    list(&AUDIT, &parameters, span.max(), server)
}

pub(crate) fn decisions(command: &DecisionsCommand) -> Result<ExitCode, Failure> {
    match command {
        DecisionsCommand::List(arguments) => {
            let ListDecisionsArguments { client, rule, result, tenant, wide, span, server } =
                arguments;
            span.check()?;
            let (kind, client) = client.as_deref().map(named_by).unzip();
            let (kind, client) = (kind.flatten().map(str::to_owned), client.map(str::to_owned));
            let parameters = given([
                ("client", client.as_ref()),
                ("client_type", kind.as_ref()),
                ("rule_id", rule.as_ref()),
                ("action", result.as_ref()),
                ("tenant", tenant.as_ref()),
                ("since", span.since.as_ref()),
                ("until", span.until.as_ref()),
            ]);
            let resource = if *wide { &DECISIONS_WIDE } else { &DECISIONS };
            list(resource, &parameters, span.max(), server)
        }
        DecisionsCommand::Show(ShowDecisionArguments { id, server }) => {
            explain_decision(id, server)
        }
        DecisionsCommand::Refund(RefundDecisionArguments { id, server }) => {
            refund_decision(id, server)
        }
        DecisionsCommand::Top(arguments) => top(arguments),
    }
}

/// The name of an entry in the log. Those of clients are lists, whose parts the table prints in a row.
fn recorded_name(shown: &str, kind: Option<&str>) -> String {
    const PLAIN: [&str; 4] = ["rule", "tier", "api_key", "token"];
    let parts: Vec<&str> = shown.split_whitespace().collect();
    let is_list = !shown.starts_with('[') && parts.len() > 1;
    if is_list && !kind.is_some_and(|kind| PLAIN.contains(&kind)) {
        json!(parts).to_string()
    } else {
        shown.to_owned()
    }
}

/// The results of decisions, in the order of the log.
const RESULTS: [&str; 5] = ["refused", "denied", "throttled", "allowed", "would_refuse"];

/// Results of decisions, separated by commas.
fn results(text: &str) -> Result<String, String> {
    let unknown = text.split(',').find(|it| !RESULTS.contains(it));
    let Some(unknown) = unknown else { return Ok(text.to_owned()) };
    Err(match Reason::from_name(unknown) {
        Some(Reason::Banned) => {
            "requests of banned clients are denied: --result denied; their REASON is banned"
                .to_owned()
        }
        Some(Reason::RateLimited | Reason::StoreUnavailable) => {
            format!("{unknown} is the reason of requests that were refused: --result refused")
        }
        _ => format!("results are {}", RESULTS.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--result banned` was refused for a parameter that is no option of the command.
    #[test]
    fn a_reason_leads_to_the_result_that_has_it() {
        let check = |text: &str, expected: &str| {
            let refused = results(text).expect_err("no result");
            assert!(refused.contains(expected), "{text}: {refused}");
        };
        assert_eq!(results("refused,denied").as_deref(), Ok("refused,denied"));
        check("banned", "--result denied");
        check("refused,store_unavailable", "--result refused");
        check("no", "refused, denied, throttled");
    }
}
