//! What can be typed after the commands that compare and change the rules of a server.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::ServerArguments;

/// The files that say what the rules should be.
#[derive(Args, Debug)]
pub(crate) struct PolicyFilesArguments {
    /// A policy file, or a folder of .yaml, .yml and .json files; may be repeated. All of them are one
    /// document. `-` is standard input.
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<String>,

    /// Remove what the server has and the files have not, of lists that are in the files.
    #[arg(long)]
    pub(crate) prune: bool,
}

/// Whether changes are confirmed, made or only shown.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ConsentArguments {
    /// Do not ask before changing anything.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,

    /// Show what would change, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `tollgate rules apply`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules apply -f policy.yaml
  tollgate rules apply -f rules/ -f lists/ --prune --yes
  tollgate rules apply -f policy.yaml --dry-run --json

The exit code is 0 if the server says what the files say, 1 if that was refused, 2 if the files \
cannot be used or there is no answer. All changes are made at once, or none.")]
pub(crate) struct ApplyArguments {
    #[command(flatten)]
    pub(crate) files: PolicyFilesArguments,

    #[command(flatten)]
    pub(crate) consent: ConsentArguments,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate rules diff`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules diff -f policy.yaml --prune
  tollgate rules diff 41 44

The exit code is 0 if nothing would change or differs, 1 if something does, 2 if the files or revisions \
cannot be used or there is no answer.")]
pub(crate) struct DiffArguments {
    /// Two revisions to compare; with one alone, it is compared with the rules in force.
    #[arg(value_name = "REVISION", num_args = 1..=2, conflicts_with = "paths")]
    pub(crate) revisions: Vec<u64>,

    /// Instead of revisions: a policy file, or a folder of .yaml, .yml and .json files, that is compared with the
    /// rules in force; may be repeated. All of them are one document. `-` is standard input.
    #[arg(
        short = 'f',
        long = "file",
        required_unless_present = "revisions",
        value_name = "FILE|DIR"
    )]
    pub(crate) paths: Vec<String>,

    /// Remove what the server has and the files have not, of lists that are in the files.
    #[arg(long, requires = "paths")]
    pub(crate) prune: bool,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate rules export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules export > policy.yaml
  tollgate rules export --format json -o policy.json

The exit code is 0, 1 if the server refuses, 2 if there is no answer or the file cannot be written.")]
pub(crate) struct ExportArguments {
    /// How to write it.
    #[arg(long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) format: ExportFormat,

    /// Write it into this file instead of standard output.
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate rules history`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tollgate rules history --limit 5

Changes of tokens, API keys and bans are in the audit log, not here. The exit code is 0, 1 if the server \
refuses, 2 if there is no answer.")]
pub(crate) struct HistoryArguments {
    /// How many revisions to list, the newest first.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// Arguments of `tollgate rules show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tollgate rules show 41 > before.yaml

The exit code is 0, or 2 if the revision is not known or there is no answer.")]
pub(crate) struct ShowArguments {
    /// The revision, as in `tollgate rules history`.
    #[arg(value_name = "REVISION")]
    pub(crate) revision: u64,

    #[command(flatten)]
    pub(crate) export: ExportArguments,
}

/// Arguments of `tollgate rules rollback`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate rules rollback 41
  tollgate rules rollback 41 --dry-run
  tollgate rules rollback 41 --only rules

All changes since that revision are undone at once, or none, and make a new revision: those of rules, and \
also of tiers, clients, overrides, blacklist and whitelist, unless --only rules is said. Tokens, API keys \
and bans stay as they are. The exit code is 0 if the rules are those of the revision, 1 if that was \
refused, 2 if the revision is not known or there is no answer.")]
pub(crate) struct RollbackArguments {
    /// The revision, as in `tollgate rules history`.
    #[arg(value_name = "REVISION")]
    pub(crate) revision: u64,

    /// Bring back rules only: tiers, clients, overrides and lists stay as they are.
    #[arg(long, value_name = "KIND")]
    pub(crate) only: Option<RollbackKind>,

    #[command(flatten)]
    pub(crate) consent: ConsentArguments,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// What a rollback brings back.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RollbackKind {
    /// Rules, and nothing else.
    Rules,
}

/// How a policy is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ExportFormat {
    /// As people write it.
    Yaml,
    /// As programs do.
    Json,
}

/// Arguments of `tollgate rules delete`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tollgate rules delete old_limit older_limit --yes

The exit code is 0 if all are deleted, 1 if that was refused, 2 if there is no such rule or no answer.")]
pub(crate) struct DeleteRulesArguments {
    /// The rules.
    #[arg(required = true, value_name = "RULE_ID")]
    pub(crate) rule_ids: Vec<String>,

    /// Do not ask before deleting anything.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) server: ServerArguments,
}
