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

use clap::Parser as _;

pub use arguments::Arguments;
use arguments::{Command, RulesCommand};
use failure::Failure;

/// The whole command: reads its arguments and runs it.
#[must_use]
pub fn main() -> ExitCode {
    run(Arguments::parse())
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
        Command::Rules(RulesCommand::Export(arguments)) => gitops::export(&arguments),
        Command::Rules(RulesCommand::History(arguments)) => {
            gitops::history(&arguments).map_err(Failure::unanswered)
        }
        Command::Rules(RulesCommand::Show(arguments)) => {
            gitops::show(&arguments).map_err(Failure::unanswered)
        }
        Command::Rules(RulesCommand::Rollback(arguments)) => gitops::rollback(&arguments),
        Command::Rules(RulesCommand::Delete(arguments)) => gitops::delete(&arguments),
        Command::Rules(RulesCommand::Lint(arguments)) => rules::lint(&arguments),
        Command::Rules(RulesCommand::Import(arguments)) => import::run(&arguments),
        Command::Rules(RulesCommand::Schema) => rules::schema(),
        Command::Tokens(command) => tokens::run(&command),
        Command::Bans(command) => admin::bans(&command),
        Command::Lists(command) => admin::lists(&command),
        Command::Clients(command) => admin::clients(&command),
        Command::Users(command) => admin::users(&command),
        Command::Audit(arguments) => admin::audit(&arguments),
        Command::Stats(arguments) => admin::stats(&arguments),
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
