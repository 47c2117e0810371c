//! A confirmation at the terminal, before something is changed.

use std::io::{self, IsTerminal as _, Write as _};

use crate::failure::Failure;

/// Succeeds if the user types yes. Without a terminal it is an error.
pub(crate) fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "cannot ask for confirmation: standard input is not a terminal; say --yes to go ahead",
        ));
    }
    let mut errors = io::stderr().lock();
    write!(errors, "{question} [y/N] ")?;
    errors.flush()?;
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::usage(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::refused("nothing was changed")),
    }
}
