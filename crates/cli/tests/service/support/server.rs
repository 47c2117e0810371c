//! The real binary, serving on a free port.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::client::{Answer, Connection, request};
use super::process::Process;

pub(crate) const ADMIN_TOKEN: &str = "admin-squeamish-ossifrage";
pub(crate) const CALLER_TOKEN: &str = "caller-squeamish-ossifrage";

pub(crate) const CHECK: &str = "/api/v1/rate-limit/check";
pub(crate) const PEEK: &str = "/api/v1/rate-limit/peek";
pub(crate) const AUTHORIZE: &str = "/api/v1/rate-limit/authorize";

/// How a server is to be started.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup<'a> {
    /// The policy; without one, what is built in holds.
    pub(crate) rules: Option<&'a str>,
    /// The settings file.
    pub(crate) settings: &'a str,
    pub(crate) arguments: &'a [&'a str],
    pub(crate) environment: &'a [(&'a str, &'a str)],
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// Where the check API is.
    pub(crate) address: SocketAddr,
    /// Where the admin API is, if apart.
    pub(crate) admin_address: Option<SocketAddr>,
    /// Where gRPC is.
    pub(crate) grpc_address: SocketAddr,
    folder: TempDir,
}

/// The binary, unaware of how this machine is set up.
pub(crate) fn tollgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    let own = std::env::vars_os().map(|(name, _)| name);
    for name in own.filter(|name| name.to_string_lossy().starts_with("TOLLGATE_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG");
    command
}

/// The command that `setup` describes, with its files in `folder`.
pub(crate) fn command(setup: &Setup<'_>, folder: &Path) -> Command {
    let mut command = tollgate();
    // Where its catalog is made, if there are no rules.
    command.current_dir(folder);
    let settings = folder.join("tollgate.yaml");
    fs::write(&settings, setup.settings).expect("written");
    // A variable, so that a flag wins over it.
    command.env("TOLLGATE_HTTP", "127.0.0.1:0").env("TOLLGATE_GRPC", "127.0.0.1:0");
    command.arg("serve").arg("--config").arg(settings);
    if let Some(rules) = setup.rules {
        fs::write(rules_file(folder), rules).expect("written");
        command.arg("--rules").arg(rules_file(folder));
    }
    command.args(setup.arguments);
    command.env("TOLLGATE_ADMIN_TOKEN", ADMIN_TOKEN).envs(setup.environment.iter().copied());
    command
}

fn rules_file(folder: &Path) -> PathBuf {
    folder.join("policy.yaml")
}

impl Server {
    pub(crate) fn start(setup: &Setup<'_>) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), setup)
    }

    /// Starts a server with rules alone.
    pub(crate) fn with_rules(rules: &str) -> Self {
        Self::start(&Setup { rules: Some(rules), ..Setup::default() })
    }

    /// Starts a server that finds its files in `folder`, which lives as long as it.
    pub(crate) fn start_in(folder: TempDir, setup: &Setup<'_>) -> Self {
        let mut process = Process::start(&mut command(setup, folder.path()));
        let said = process.until("word that it serves", |process| {
            // The last line, so everything has been said.
            Some(process.output()).filter(|said| said.contains("-d '"))
        });
        let address = |name: &str| {
            let line =
                said.lines().find_map(|line| line.strip_prefix(name)?.trim().split_once("://"));
            line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
        };
        Self {
            process,
            address: address("http ").expect("an address"),
            admin_address: address("admin "),
            grpc_address: address("grpc ").expect("an address"),
            folder,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn rules_file(&self) -> PathBuf {
        rules_file(self.folder())
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Asks over a connection of its own.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.connect().ask(&request(method, path, headers, body.as_bytes()))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// Posts JSON.
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[JSON], body)
    }

    /// Posts JSON with the token for administrators.
    pub(crate) fn post_as_admin(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[JSON, bearer_admin()], body)
    }

    pub(crate) fn get_as_admin(&self, path: &str) -> Answer {
        self.ask("GET", path, &[bearer_admin()], "")
    }

    /// Posts a check that is answered, and says what.
    pub(crate) fn check(&self, body: &str) -> Value {
        let answer = self.post(CHECK, body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }

    /// The value of a figure of `/metrics`.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let answer = self.get("/metrics");
        let text = answer.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }
}

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");

pub(crate) fn bearer_admin() -> (&'static str, &'static str) {
    ("Authorization", "Bearer admin-squeamish-ossifrage")
}
