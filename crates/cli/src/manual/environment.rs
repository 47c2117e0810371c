//! The sections ENVIRONMENT and FILES of manual pages: which variables and files a command reads, by its flags.

use std::collections::BTreeMap;

use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};
use tollgate_server::settings::{FLAGGED, about, flag, variable};

/// The secrets of a server, which no flag names.
const SECRETS: [(&str, &str); 5] = [
    ("TOLLGATE_ADMIN_TOKEN", "The token for the admin API."),
    ("TOLLGATE_CHECK_TOKEN", "The token for the check API."),
    (
        "TOLLGATE_FLEET_PREVIOUS_SECRET",
        "The secret that the fleet had before, while it is changed.",
    ),
    ("TOLLGATE_FLEET_SECRET", "The secret that all nodes of a fleet have."),
    ("TOLLGATE_JWT_SECRET", "The key of HS256 tokens."),
];

/// The files of a server.
const FILES: [(&str, &str); 3] = [
    (
        "tollgate.db",
        "The catalog, in the working folder, unless --catalog or --rules names another.",
    ),
    (
        "/etc/tollgate/tollgate.yaml",
        "The settings of the service that the Debian package installs.",
    ),
    ("/etc/tollgate/environment", "Its variables, which hold the secrets."),
];

/// Adds the sections of a command, if it has any.
pub(super) fn add_sections(command: &Command, sections: &mut Roff) {
    let mut variables = BTreeMap::new();
    collect(command, &mut variables);
    let variables: Vec<(String, String)> = variables.into_iter().collect();
    add(sections, "ENVIRONMENT", &variables);
    if reads_settings(command) || command.get_subcommands().any(reads_settings) {
        add(sections, "FILES", &FILES.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
}

/// The variables of a command and of all below it, each with what it is for.
fn collect(command: &Command, variables: &mut BTreeMap<String, String>) {
    for argument in command.get_arguments() {
        if let Some(name) = argument.get_env() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            variables.insert(name.to_string_lossy().into_owned(), help);
        }
        let long = argument.get_long().map(|long| format!("--{long}"));
        // Other commands have flags of the same names, and read no variable.
        let is_setting = |name: &&&str| {
            reads_settings(command) || (**name == "catalog" && !has(command, "server"))
        };
        let mut settings = FLAGGED.iter().filter(is_setting);
        if let Some(name) = settings.find(|name| Some(flag(name)) == long) {
            variables.insert(variable(name), about(name).to_owned());
        }
    }
    if reads_settings(command) {
        variables.extend(SECRETS.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
    command.get_subcommands().for_each(|below| collect(below, variables));
}

/// Whether a command reads all settings of a server.
fn reads_settings(command: &Command) -> bool {
    has(command, "http")
}

fn has(command: &Command, flag: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(flag))
}

fn add(sections: &mut Roff, heading: &str, entries: &[(String, String)]) {
    if entries.is_empty() {
        return;
    }
    sections.control("SH", [heading]);
    for (name, text) in entries {
        sections.control("TP", []);
        sections.text([bold(name.as_str())]);
        sections.text([roman(text.as_str())]);
    }
}
