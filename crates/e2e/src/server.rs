//! The real binary, serving on a free port.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Answer, Connection, request};
use crate::process::Process;
use crate::until;

/// The token of the administrator.
pub const ADMIN_TOKEN: &str = "admin-squeamish-ossifrage";
/// The token of callers, where they need one.
pub const CALLER_TOKEN: &str = "caller-squeamish-ossifrage";

/// The path of checks.
pub const CHECK: &str = "/api/v1/rate-limit/check";
/// The path of peeks.
pub const PEEK: &str = "/api/v1/rate-limit/peek";
/// The path of forward-auth.
pub const AUTHORIZE: &str = "/api/v1/rate-limit/authorize";

/// How a server is to be started.
#[derive(Clone, Copy, Default)]
pub struct Setup<'a> {
    /// The policy; without one, the built-in rules apply.
    pub rules: Option<&'a str>,
    /// The settings file.
    pub settings: &'a str,
    /// More arguments.
    pub arguments: &'a [&'a str],
    /// More variables.
    pub environment: &'a [(&'a str, &'a str)],
}

/// A server that runs until it is dropped.
pub struct Server {
    /// The server itself.
    pub process: Process,
    /// Where the check API is.
    pub address: SocketAddr,
    /// Where the admin API is, if apart.
    pub admin_address: Option<SocketAddr>,
    /// Where gRPC is.
    pub grpc_address: SocketAddr,
    /// What it printed when it was ready.
    pub said: String,
    folder: PathBuf,
    /// Removed with the server, if it was made for it.
    _made_for_it: Option<TempDir>,
}

/// The command under test. Cargo names it to the tests of this package.
#[must_use]
pub fn binary() -> PathBuf {
    env::var_os("CARGO_BIN_EXE_tollgate-e2e").expect("a test that cargo runs").into()
}

/// The binary, without the environment of this machine.
pub fn tollgate() -> Command {
    let mut command = Command::new(binary());
    let own = env::vars_os().map(|(name, _)| name);
    for name in own.filter(|name| name.to_string_lossy().starts_with("TOLLGATE_")) {
        command.env_remove(name);
    }
    command.env_remove("RUST_LOG");
    command
}

/// The command that `setup` describes, with its files in `folder`.
pub fn command(setup: &Setup<'_>, folder: &Path) -> Command {
    let mut command = tollgate();
    // The catalog is made here, if there are no rules.
    command.current_dir(folder);
    let settings = folder.join("tollgate.yaml");
    fs::write(&settings, settings_of(setup)).expect("written");
    // A variable, so that a flag overrides it.
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

/// The settings of a server. Other work on the machine can take longer than the default deadline of a shared store,
/// which a test that says nothing of it is not about.
fn settings_of<'a>(setup: &Setup<'a>) -> &'a str {
    let names_store = |pair: &[&str]| matches!(pair, ["--store", store] if *store != "memory");
    if setup.settings.is_empty() && setup.arguments.windows(2).any(names_store) {
        return "store_failure: {deadline: 5s}";
    }
    setup.settings
}

fn rules_file(folder: &Path) -> PathBuf {
    folder.join("policy.yaml")
}

fn told<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = said.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next())).flatten()
}

impl Server {
    /// Starts a server.
    pub fn start(setup: &Setup<'_>) -> Self {
        Self::start_in(tempfile::tempdir().expect("a folder"), setup)
    }

    /// Starts a server with rules alone.
    pub fn with_rules(rules: &str) -> Self {
        Self::start(&Setup { rules: Some(rules), ..Setup::default() })
    }

    /// Starts a server that finds its files in `folder`, which lives as long as it.
    pub fn start_in(folder: TempDir, setup: &Setup<'_>) -> Self {
        let server = Self::run(&mut command(setup, folder.path()));
        Self { _made_for_it: Some(folder), ..server }
    }

    /// Runs a command that serves, and waits until it does.
    pub fn run(command: &mut Command) -> Self {
        let folder = command.get_current_dir().map(Path::to_owned).unwrap_or_default();
        let mut process = Process::start(command);
        let said = process.until("word that it serves", |process| {
            // The last line, so the output is complete.
            Some(process.output()).filter(|said| said.contains("-d '"))
        });
        let address =
            |name| told(&said, name).and_then(|url| url.split_once("://")?.1.parse().ok());
        Self {
            address: address("http").expect("an address"),
            admin_address: address("admin"),
            // A Unix socket has none.
            grpc_address: address("grpc").unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0))),
            process,
            said,
            folder,
            _made_for_it: None,
        }
    }

    /// A value that it printed when it was ready: the word behind that name at the start of a line.
    #[must_use]
    pub fn told(&self, name: &str) -> Option<&str> {
        told(&self.said, name)
    }

    /// The admin token that it printed, if it did.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.told("token").filter(|token| token.starts_with("tg_"))
    }

    /// Ends it by SIGTERM, and expects a clean exit.
    pub fn stop(mut self) {
        self.process.signal("TERM");
        let ended = self.process.end();
        assert!(ended.success(), "{ended}: {}", self.process.errors());
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its rules, if it was given any.
    pub fn rules_file(&self) -> PathBuf {
        rules_file(self.folder())
    }

    /// Connects to the check API.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Sends a request over a new connection.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.connect().ask(&request(method, path, headers, body.as_bytes()))
    }

    /// Gets a path.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// Posts JSON.
    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[JSON], body)
    }

    /// Posts JSON with the token for administrators.
    pub fn post_as_admin(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[JSON, bearer_admin()], body)
    }

    /// Gets a path with the token for administrators.
    pub fn get_as_admin(&self, path: &str) -> Answer {
        self.ask("GET", path, &[bearer_admin()], "")
    }

    /// Posts a check that has to succeed, and returns the response.
    pub fn check(&self, body: &str) -> Value {
        let answer = self.post(CHECK, body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }

    /// Waits until the shared store is in use: on a busy machine, a server starts without it, and uses it as soon as it
    /// responds.
    pub fn await_store(&self) {
        until("a store in use", || {
            (self.get("/health/ready").json()["store"][0]["answers"] == true).then_some(())
        });
    }

    /// The value of a figure of `/metrics`.
    pub fn figure(&self, name: &str) -> f64 {
        let answer = self.get("/metrics");
        let text = answer.text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }
}

/// The header of JSON bodies.
pub const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The header with the token for administrators.
pub fn bearer_admin() -> (&'static str, &'static str) {
    ("Authorization", "Bearer admin-squeamish-ossifrage")
}
