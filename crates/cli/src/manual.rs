//! `tollgate completions` and `tollgate man`: what shells and manuals know of the command line, made from
//! the arguments themselves, so that it is never out of date.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::{Man, generate_to};

use crate::Arguments;
use crate::failure::Failure;

/// Arguments of `tollgate completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate completions bash > ~/.local/share/bash-completion/completions/tollgate
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish
  tollgate completions zsh > \"${fpath[1]}/_tollgate\"

The exit code is 0, or 2 if there is no such shell.")]
pub(crate) struct CompletionsArguments {
    /// The shell that they are for.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of `tollgate man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tollgate man | man -l -
  tollgate man --dir /usr/local/share/man/man1

The exit code is 0, or 2 if the pages cannot be written.")]
pub(crate) struct ManArguments {
    /// Write a page for every command into this folder, instead of the first one to standard output.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "tollgate", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of the command, or writes those of all commands.
pub(crate) fn man(arguments: &ManArguments) -> Result<ExitCode, Failure> {
    let command = Arguments::command();
    match &arguments.dir {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            io::stdout().lock().write_all(&page)?;
        }
        Some(folder) => {
            let written = fs::create_dir_all(folder).and_then(|()| generate_to(command, folder));
            written.map_err(|error| {
                Failure::usage(format!("cannot write pages into {}: {error}", folder.display()))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ManArguments { dir: Some(folder.path().join("man1")) };
        man(&arguments).expect("pages");
        let read = |name: &str| {
            let text = fs::read_to_string(folder.path().join("man1").join(name));
            text.unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        assert!(read("tollgate.1").contains(".TH tollgate 1"), "{}", read("tollgate.1"));
        for command in Arguments::command().get_subcommands() {
            let name = format!("tollgate-{}", command.get_name());
            assert!(read(&format!("{name}.1")).contains(&format!(".TH {name} 1")), "{name}");
        }
        assert!(read("tollgate-rules-lint.1").contains("strict"));
    }
}
