//! The command `tollgate`. Everything it does lives in the library, where tests can reach it.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    tollgate_cli::run(tollgate_cli::Arguments::parse())
}
