//! Options of a Redis: without any, every client may connect.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::certificates::{self, Certificates};
use super::{PROGRAM, Redis, Tls, process};
use crate::port::free_port;
use crate::process::temporary_folder;

/// Nothing is kept on disk; replicas are served without the usual wait for more of them.
const SETTINGS: &str = "\
bind 127.0.0.1
daemonize no
save \"\"
appendonly no
repl-diskless-sync-delay 0
";
/// What servers before 7.0 do not know.
const SETTINGS_OF_7: &str = "enable-debug-command local\n";
/// Redis 6.2, from a Python package that `scripts/test` installs below `target`.
const OLDEST: &str = "target/python/bin/redis-server";

/// A Redis that is not started yet.
#[derive(Default)]
pub struct RedisBuilder {
    settings: String,
    password: Option<String>,
    speaks_tls: bool,
    is_oldest: bool,
    launcher: Vec<OsString>,
}

impl RedisBuilder {
    /// A line of `redis.conf`, like `("maxmemory", "2mb")`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        writeln!(self.settings, "{name} {value}").expect("text takes text");
        self
    }

    /// A password that every client has to know. It goes into the URL as it is.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.setting("requirepass", password)
    }

    /// A user, and what it may do, like `("reader", "on >secret ~* +@read")`.
    #[must_use]
    pub fn user(self, name: &str, rights: &str) -> Self {
        self.setting("user", &format!("{name} {rights}"))
    }

    /// The oldest version that counters can be in, 6.2, instead of the one of this machine.
    #[must_use]
    pub fn oldest(mut self) -> Self {
        self.is_oldest = true;
        self
    }

    /// Listens for TLS too, at a second port, as `127.0.0.1` and `localhost`.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.speaks_tls = true;
        self
    }

    /// Runs it by another program, like valgrind, with these arguments.
    #[must_use]
    pub fn launched_by(mut self, launcher: &[&str]) -> Self {
        self.launcher = launcher.iter().map(OsString::from).collect();
        self
    }

    /// Starts it, and returns once it responds.
    pub fn start(self) -> Redis {
        let folder = temporary_folder();
        let port = free_port();
        let place = format!("port {port}\ndir \"{}\"\n", folder.path().display());
        let newer = if self.is_oldest { "" } else { SETTINGS_OF_7 };
        let mut settings = format!("{SETTINGS}{newer}{place}{}", self.settings);
        let tls = self.speaks_tls.then(|| {
            let Certificates { authority, certificate, key } = certificates::write(folder.path());
            let port = free_port();
            let lines = [
                format!("tls-port {port}"),
                format!("tls-ca-cert-file \"{}\"", authority.display()),
                format!("tls-cert-file \"{}\"", certificate.display()),
                format!("tls-key-file \"{}\"", key.display()),
                "tls-auth-clients no".to_owned(),
            ];
            settings.push_str(&lines.join("\n"));
            Tls { port, authority }
        });
        let program = if self.is_oldest { oldest().into() } else { OsString::from(PROGRAM) };
        let command = self.launcher.into_iter().chain([program]);
        let process = process(command, &folder, &settings, &[]);
        let redis = Redis { process, _folder: folder, port, password: self.password, tls };
        redis.restart();
        redis
    }
}

fn oldest() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(OLDEST);
    assert!(program.exists(), "{} is missing: scripts/test installs it", program.display());
    program
}
