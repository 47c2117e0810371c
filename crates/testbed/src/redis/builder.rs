//! Options of a Redis: without any, every client may connect.

use std::fmt::Write;

use super::certificates::{self, Certificates};
use super::{Redis, Tls, process};
use crate::port::free_port;
use crate::process::temporary_folder;

/// Nothing is kept on disk; replicas are served without the usual wait for more of them.
const SETTINGS: &str = "\
bind 127.0.0.1
daemonize no
save \"\"
appendonly no
repl-diskless-sync-delay 0
enable-debug-command local
";

/// A Redis that is not started yet.
#[derive(Default)]
pub struct RedisBuilder {
    settings: String,
    password: Option<String>,
    speaks_tls: bool,
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

    /// Listens for TLS too, at a second port, as `127.0.0.1` and `localhost`.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.speaks_tls = true;
        self
    }

    /// Starts it, and returns once it responds.
    pub fn start(self) -> Redis {
        let folder = temporary_folder();
        let port = free_port();
        let place = format!("port {port}\ndir \"{}\"\n", folder.path().display());
        let mut settings = format!("{SETTINGS}{place}{}", self.settings);
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
        let process = process(&folder, &settings, &[]);
        let redis = Redis { process, _folder: folder, port, password: self.password, tls };
        redis.restart();
        redis
    }
}
