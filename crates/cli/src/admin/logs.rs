//! `tollgate audit` and `tollgate decisions`: who changed what, and who was refused.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::entries::{given, list};
use super::resource::{AUDIT, DECISIONS};
use super::stats::{TopArguments, top};
use super::times::SpanArguments;
use crate::arguments::ServerArguments;
use crate::failure::Failure;
use crate::remote::explain_decision;

/// Arguments of `tollgate audit`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate audit --kind rule --entry search
  tollgate audit --since 2h --json

Changes of tokens are shown to administrators only; a tenant-admin sees changes of its tenant.

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct AuditArguments {
    /// Only changes by this token, by its id, or part of the program.
    #[arg(long, value_name = "ID")]
    pub(super) actor: Option<String>,

    /// Only changes of this kind: rule, tier, client, override, whitelist, blacklist, `api_key`, token, ban; or counters for resets
    /// and refunds.
    #[arg(long, value_name = "KIND")]
    pub(super) kind: Option<String>,

    /// Only changes of the entry of this name.
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
    /// Rank clients, rules or endpoints by recent refusals.
    Top(TopArguments),
}

/// Arguments of `tollgate decisions list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate decisions list --client alice --result refused --since 1h

The exit code is 0, 1 if the server refuses, 2 if there is no answer.")]
pub(crate) struct ListDecisionsArguments {
    /// Only decisions about this client, by the name that the list shows.
    #[arg(long, value_name = "CLIENT")]
    pub(super) client: Option<String>,

    /// Only decisions of this rule.
    #[arg(long, value_name = "RULE_ID")]
    pub(super) rule: Option<String>,

    /// Only those that ended like this: refused, denied, throttled, allowed, `would_refuse`.
    #[arg(long, value_name = "RESULT")]
    pub(super) result: Option<String>,

    /// Only decisions about requests of this tenant.
    #[arg(long, value_name = "TENANT")]
    pub(super) tenant: Option<String>,

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
    #[arg(value_name = "ID")]
    pub(super) id: String,

    #[command(flatten)]
    pub(super) server: ServerArguments,
}

/// Prints changes, one a line.
pub(crate) fn audit(arguments: &AuditArguments) -> Result<ExitCode, Failure> {
    let AuditArguments { actor, kind, entry, tenant, span, server } = arguments;
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
            let ListDecisionsArguments { client, rule, result, tenant, span, server } = arguments;
            let parameters = given([
                ("client", client.as_ref()),
                ("rule_id", rule.as_ref()),
                ("action", result.as_ref()),
                ("tenant", tenant.as_ref()),
                ("since", span.since.as_ref()),
                ("until", span.until.as_ref()),
            ]);
            list(&DECISIONS, &parameters, span.max(), server)
        }
        DecisionsCommand::Show(ShowDecisionArguments { id, server }) => {
            explain_decision(id, server)
        }
        DecisionsCommand::Top(arguments) => top(arguments),
    }
}
