//! What the command `tollgate` is made of. The binary only calls it.
#![forbid(unsafe_code)]

mod admin;
mod arguments;
mod backup;
mod catalog;
mod failure;
mod gitops;
mod import;
mod log;
mod manual;
mod migrate;
mod new_file;
mod notify;
mod output;
mod policy_file;
mod recommend;
mod remote;
mod rules;
mod scenarios;
mod serve;
mod settings;
mod simulate;
mod store;
mod summary;
mod table;
mod terminal;
mod tokens;
mod top;
mod traces;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

pub use arguments::Arguments;
use arguments::{Command, RulesCommand};
use failure::Failure;

/// The whole command: reads its arguments and runs it.
#[must_use]
pub fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => run(arguments),
        Err(error) => shorter(error).exit(),
    }
}

/// A mistake in the arguments, whose usage line does not have what comes from the environment: that looks as if it had
/// to be typed.
fn shorter(error: clap::Error) -> clap::Error {
    fn without_environment(command: clap::Command) -> clap::Command {
        command.mut_args(|argument| argument.env(None::<&str>)).mut_subcommands(without_environment)
    }

    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return error;
    }
    let again = without_environment(Arguments::command()).try_get_matches();
    without_suggestion(again.err().filter(|again| again.kind() == error.kind()).unwrap_or(error))
}

/// A mistake whose usage line does not have the option that was probably meant, as if it were required.
fn without_suggestion(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(option)), Some(ContextValue::StyledStr(usage))) =
        (error.get(ContextKind::SuggestedArg), error.get(ContextKind::Usage))
    else {
        return error;
    };
    let usage = usage.to_string();
    let Some((before, after)) = usage.split_once(&format!(" {option}")) else { return error };
    let after = match after.strip_prefix(" <") {
        Some(value) => value.split_once('>').map_or("", |(_, rest)| rest),
        None => after,
    };
    let usage = format!("{before} [OPTIONS]{after}");
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage.into()));
    error
}

/// Runs a command and returns its exit code: 0 done, 1 refused or found problems, 2 wrong
/// usage or no response.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Config(arguments) => settings::print(&arguments),
        Command::Check(arguments) => remote::check(&arguments).map_err(Failure::unanswered),
        Command::Health(arguments) => remote::health(&arguments),
        Command::Explain(arguments) => remote::explain(&arguments).map_err(Failure::unanswered),
        Command::Refund(arguments) => remote::refund(&arguments),
        Command::Reset(arguments) => remote::reset(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Recommend(arguments) => recommend::run(&arguments),
        Command::Test(arguments) => scenarios::run(&arguments),
        Command::Rules(RulesCommand::List(arguments)) => {
            remote::list_rules(&arguments).map_err(Failure::unanswered)
        }
        Command::Rules(RulesCommand::Get(arguments)) => {
            remote::get_rule(&arguments).map_err(Failure::unanswered)
        }
        Command::Rules(RulesCommand::Apply(arguments)) => gitops::apply(&arguments),
        Command::Rules(RulesCommand::Diff(arguments)) => {
            gitops::diff(&arguments).map_err(Failure::unanswered)
        }
        Command::Rules(RulesCommand::Preview(arguments)) => gitops::preview(&arguments),
        Command::Rules(RulesCommand::Export(arguments)) => gitops::export(&arguments),
        Command::Rules(RulesCommand::History(arguments)) => gitops::history(&arguments),
        Command::Rules(RulesCommand::Show(arguments)) => {
            gitops::show(&arguments).map_err(Failure::unanswered)
        }
        Command::Rules(RulesCommand::Rollback(arguments)) => gitops::rollback(&arguments),
        Command::Rules(RulesCommand::Delete(arguments)) => gitops::delete(&arguments),
        Command::Rules(RulesCommand::Lint(arguments)) => rules::lint(&arguments),
        Command::Rules(RulesCommand::Import(arguments)) => import::run(&arguments),
        Command::Rules(RulesCommand::Schema) => rules::schema(),
        Command::Tokens(command) => tokens::run(&command),
        Command::Keys(command) => admin::keys(&command),
        Command::Bans(command) => admin::bans(&command),
        Command::Lists(command) => admin::lists(&command),
        Command::Tiers(command) => admin::tiers(&command),
        Command::Clients(command) => admin::clients(&command),
        Command::Overrides(command) => admin::overrides(&command),
        Command::Users(command) => admin::users(&command),
        Command::Audit(arguments) => admin::audit(&arguments),
        Command::Stats(arguments) => admin::stats(&arguments),
        Command::Nodes(arguments) => admin::nodes(&arguments),
        Command::Decisions(command) => admin::decisions(&command),
        Command::Top(arguments) => top::run(&arguments),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Store(command) => store::run(&command),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
