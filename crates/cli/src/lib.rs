//! What the command `tollgate` is made of. The binary only calls it.
#![forbid(unsafe_code)]

mod arguments;
mod failure;
mod policy_file;
mod rules;
pub mod simulate;
mod terminal;
pub mod traffic;

use std::process::ExitCode;

pub use arguments::Arguments;
use arguments::{Command, RulesCommand};

/// Does what was asked, and says how it went: 0 done, 1 found problems, 2 wrong usage.
#[must_use]
pub fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Rules(RulesCommand::Lint(arguments)) => rules::lint(&arguments),
        Command::Rules(RulesCommand::Schema) => rules::schema(),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
