//! One Redis that keeps nothing on disk: a restart leaves it empty.

mod builder;
mod certificates;
pub(crate) mod cluster;
pub(crate) mod sentinels;
mod topology;

pub use builder::RedisBuilder;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::{Process, Recipe};
use crate::resp::{Reply, ask};
use crate::signal;

/// The server of this machine.
const PROGRAM: &str = "redis-server";

/// A running Redis. It ends when this is dropped.
pub struct Redis {
    // First, so that it has ended before its folder goes.
    process: Process,
    _folder: TempDir,
    port: u16,
    password: Option<String>,
    tls: Option<Tls>,
}

/// Its TLS port, and the certificate of its authority.
struct Tls {
    port: u16,
    authority: PathBuf,
}

impl Redis {
    /// Starts one that every client may connect to.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts one with other options.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        address(self.port)
    }

    /// Where it listens on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a client needs to connect, the password included.
    pub fn url(&self) -> String {
        format!("redis://{}{}/", self.credentials(), self.address())
    }

    /// The URL for a client that speaks TLS; panics without [`RedisBuilder::tls`].
    pub fn tls_url(&self) -> String {
        format!("rediss://{}{}/", self.credentials(), address(self.tls().port))
    }

    /// The certificate of the authority that a client has to trust, as PEM; a panic without
    /// [`RedisBuilder::tls`].
    pub fn authority(&self) -> &Path {
        &self.tls().authority
    }

    /// Its process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Sends a command over a separate connection.
    pub fn command(&self, command: &[&str]) -> Reply {
        self.try_command(command).unwrap_or_else(|error| {
            panic!("Redis does not respond to {command:?}: {error}\n{}", self.process.log())
        })
    }

    /// Sends a command to a Redis that may be unreachable.
    ///
    /// # Errors
    /// There is no response. A command that is refused has one: [`Reply::Error`].
    pub fn try_command(&self, command: &[&str]) -> io::Result<Reply> {
        match &self.password {
            Some(password) => ask(self.address(), &[&["AUTH", password], command]),
            None => ask(self.address(), &[command]),
        }
    }

    /// A section of what it says about itself, like `commandstats`.
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        facts(self.command(&["INFO", section]).text())
    }

    /// Kills it without warning, and waits until it is gone.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Stops it (SIGSTOP): connections stay open, and no request gets a response.
    pub fn pause(&self) {
        signal::freeze(self.process.id().as_slice());
    }

    /// Lets it go on after [`Redis::pause`].
    pub fn resume(&self) {
        self.process.send("CONT");
    }

    /// Starts it again where it was, but empty; kills it first if it runs.
    pub fn restart(&self) {
        self.process.start(|| self.is_ready());
    }

    /// Whether it runs and is not paused.
    fn is_awake(&self) -> bool {
        self.process.is_awake()
    }

    fn is_ready(&self) -> bool {
        self.try_command(&["PING"]).is_ok_and(|reply| reply == Reply::Text("PONG".into()))
    }

    /// Whether what its master has is here too.
    fn is_in_sync(&self) -> bool {
        let facts = self.facts(&["INFO", "replication"]);
        facts.is_some_and(|facts| says(&facts, "master_link_status", "up"))
    }

    /// Its reply of lines like `name:value`; `None` if it is unreachable or loading.
    fn facts(&self, command: &[&str]) -> Option<BTreeMap<String, String>> {
        let Reply::Text(text) = self.try_command(command).ok()? else { return None };
        Some(facts(&text))
    }

    fn credentials(&self) -> String {
        self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default()
    }

    fn tls(&self) -> &Tls {
        self.tls.as_ref().expect("a Redis with TLS")
    }
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A server of Redis with its settings in a file, which it may rewrite, and not started yet.
fn process(
    command: impl IntoIterator<Item = OsString>,
    folder: &TempDir,
    settings: &str,
    arguments: &[&str],
) -> Process {
    let file = folder.path().join("redis.conf");
    fs::write(&file, settings).expect("a file for the settings");
    let mut words = command.into_iter().chain([file.into_os_string()]);
    Process::new(Recipe {
        program: words.next().unwrap_or_default().into(),
        arguments: words.chain(arguments.iter().map(Into::into)).collect(),
        folder: folder.path().to_owned(),
        user: None,
        last_signal: "KILL",
    })
}

/// Lines like `name:value`, by name.
fn facts(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn says(facts: &BTreeMap<String, String>, name: &str, value: &str) -> bool {
    facts.get(name).is_some_and(|said| said == value)
}
