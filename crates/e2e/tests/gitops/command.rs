//! The command, run with a token against a server with its own catalog.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use tollgate_e2e::server::{ADMIN_TOKEN, Server, Setup, tollgate};

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// What is printed for programs.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails unless it ended with that code and printed all of this, on either output.
    pub(crate) fn expect(self, code: i32, parts: &[&str]) -> Self {
        let said = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, code, "{said}");
        for part in parts {
            assert!(said.contains(part), "no {part:?} in\n{said}");
        }
        self
    }
}

/// Runs a command to its end, without a terminal.
pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.stdin(std::process::Stdio::null()).output().expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("readable output");
    Ran {
        code: output.status.code().expect("an exit code"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A command whose words are separated by spaces.
pub(crate) fn line(words: &str) -> Command {
    let mut command = tollgate();
    command.args(words.split_whitespace());
    command
}

/// A server whose rules are in a catalog, and a folder for files beside it.
pub(crate) struct TestServer {
    pub(crate) server: Server,
}

impl TestServer {
    /// Begins with the rules that are built in.
    pub(crate) fn new() -> Self {
        Self { server: Server::start(&Setup::default()) }
    }

    /// Begins with this policy, and nothing else.
    pub(crate) fn with(policy: &str) -> Self {
        let desk = Self::new();
        desk.file("begin.yaml", policy);
        desk.tollgate("rules apply -f begin.yaml --prune --yes").expect(0, &["revision "]);
        desk
    }

    pub(crate) fn folder(&self) -> &Path {
        self.server.folder()
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    /// A command in the folder, with the token of an administrator.
    pub(crate) fn command(&self, words: &str) -> Command {
        self.command_as(ADMIN_TOKEN, words)
    }

    pub(crate) fn command_as(&self, token: &str, words: &str) -> Command {
        let mut command = line(words);
        command.current_dir(self.folder());
        command.env("TOLLGATE_SERVER", self.server.url("")).env("TOLLGATE_TOKEN", token);
        command
    }

    pub(crate) fn tollgate(&self, words: &str) -> Ran {
        run(&mut self.command(words))
    }

    pub(crate) fn tollgate_as(&self, token: &str, words: &str) -> Ran {
        run(&mut self.command_as(token, words))
    }

    /// A new token with that role.
    pub(crate) fn token(&self, role: &str) -> String {
        let ran = self.tollgate(&format!("tokens create --role {role}")).expect(0, &["tg_"]);
        ran.stdout.trim().to_owned()
    }

    /// The whole policy of the server.
    pub(crate) fn policy(&self) -> Value {
        self.server.get_as_admin("/api/v1/policy").json()
    }

    /// The ids of all rules.
    pub(crate) fn rules(&self) -> Vec<String> {
        let policy = self.policy();
        let rules = policy["rules"].as_array().expect("rules").iter();
        rules.map(|rule| rule["rule_id"].as_str().expect("an id").to_owned()).collect()
    }
}
