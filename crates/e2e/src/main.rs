//! The command `tollgate`, for tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    tollgate_cli::main()
}
