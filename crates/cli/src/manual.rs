//! `tollgate completions` and `tollgate man`: what shells and manuals know of the command line, made from
//! the arguments themselves, so that it is never out of date.

mod environment;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Args, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

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
            let (_, page) = page_of(command)?;
            io::stdout().lock().write_all(&page)?;
        }
        Some(folder) => {
            let written = fs::create_dir_all(folder).and_then(|()| write_pages(command, folder));
            written.map_err(|error| {
                Failure::usage(format!("cannot write pages into {}: {error}", folder.display()))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of a command and of all below it.
fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_pages(below.clone(), folder)?;
    }
    let (name, page) = page_of(command)?;
    fs::write(folder.join(name), page)
}

/// The page of a command, and the name of its file. What help prints last has headings of its own here.
fn page_of(command: Command) -> io::Result<(String, Vec<u8>)> {
    let last = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut environment = Roff::default();
    environment::add_sections(&command, &mut environment);
    let man = Man::new(command.after_help(Resettable::Reset));
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut sections = Roff::default();
    let mut before = "";
    for paragraph in last.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let heading = match first {
            "Examples:" => "EXAMPLES",
            "First steps:" => "FIRST STEPS",
            _ if first.starts_with("The exit code") => "EXIT STATUS",
            _ => "NOTES",
        };
        if heading == before {
            sections.control("PP", []);
        } else {
            sections.control("SH", [heading]);
        }
        before = heading;
        if first.ends_with(':') && rest.starts_with(' ') {
            // Commands, one a line.
            sections.control("nf", []);
            for line in rest.lines() {
                sections.text([roman(line.trim_start())]);
            }
            sections.control("fi", []);
        } else {
            sections.text([roman(paragraph.replace('\n', " "))]);
        }
    }
    sections.to_writer(&mut page)?;
    environment.to_writer(&mut page)?;
    Ok((man.get_filename(), page))
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
        let lint = read("tollgate-rules-lint.1");
        assert!(lint.contains("strict"));
        let places =
            [".SH EXAMPLES\n", "\n.nf\n", "\n.fi\n", ".SH NOTES\n", ".SH \"EXIT STATUS\"\n"];
        let places =
            places.map(|text| lint.find(text).unwrap_or_else(|| panic!("no {text:?} in {lint}")));
        assert!(places.is_sorted(), "{lint}");
        assert!(
            lint.contains("\ntollgate rules lint policy.yaml\n"),
            "a command is a line: {lint}"
        );
    }

    /// A page did not say which variables its command reads.
    #[test]
    fn pages_have_the_variables_that_commands_read() {
        let folder = tempfile::tempdir().expect("a folder");
        write_pages(Arguments::command(), folder.path()).expect("pages");
        let check = |name: &str, expected: &[&str], missing: &[&str]| {
            let page = fs::read_to_string(folder.path().join(name)).expect(name);
            let from = page.find(".SH ENVIRONMENT\n").map_or("", |at| &page[at..]);
            for text in expected {
                assert!(from.contains(text), "{name}: no {text} in {from}");
            }
            for text in missing {
                assert!(!from.contains(text), "{name}: {text} in {from}");
            }
        };
        let of_server =
            ["TOLLGATE_HTTP", "TOLLGATE_CATALOG", "TOLLGATE_FLEET_SECRET", "tollgate.db"];
        let of_client = ["TOLLGATE_SERVER", "TOLLGATE_TOKEN"];
        check("tollgate.1", &[of_server.as_slice(), &of_client, &[".SH FILES\n"]].concat(), &[]);
        check("tollgate-serve.1", &of_server, &of_client);
        check("tollgate-check.1", &of_client, &of_server);
        check("tollgate-migrate.1", &["TOLLGATE_CATALOG"], &["TOLLGATE_HTTP"]);
        check("tollgate-simulate.1", &[], &["TOLLGATE_"]);
    }

    /// The generator calls the section of everything that help prints last EXTRA.
    #[test]
    fn no_page_has_a_section_extra() {
        let folder = tempfile::tempdir().expect("a folder");
        write_pages(Arguments::command(), folder.path()).expect("pages");
        for page in fs::read_dir(folder.path()).expect("a folder") {
            let path = page.expect("a page").path();
            let text = fs::read_to_string(&path).expect("a text");
            assert!(!text.contains("EXTRA"), "{}", path.display());
        }
    }
}
