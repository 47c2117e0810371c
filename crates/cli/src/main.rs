//! The command `tollgate`. Everything it does lives in the library, where tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::main()
}
