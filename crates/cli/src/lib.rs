//! What the command `tollgate` is made of. The binary only calls it.
#![forbid(unsafe_code)]

mod arguments;
mod failure;
mod import;
mod log;
mod policy_file;
mod remote;
mod rules;
mod serve;
mod settings;
pub mod simulate;
mod terminal;
mod traces;
pub mod traffic;
mod yaml;

use std::process::ExitCode;

pub use arguments::Arguments;
use arguments::{Command, RulesCommand};

/// Does what was asked, and says how it went: 0 done, 1 refused or found problems, 2 wrong
/// usage or no answer.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Config(arguments) => settings::print(&arguments),
        Command::Check(arguments) => remote::check(&arguments),
        Command::Explain(arguments) => remote::explain(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Rules(RulesCommand::List(arguments)) => remote::list_rules(&arguments),
        Command::Rules(RulesCommand::Get(arguments)) => remote::get_rule(&arguments),
        Command::Rules(RulesCommand::Lint(arguments)) => rules::lint(&arguments),
        Command::Rules(RulesCommand::Import(arguments)) => import::run(&arguments),
        Command::Rules(RulesCommand::Schema) => rules::schema(),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
