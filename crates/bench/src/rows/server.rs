//! Servers in separate processes, each alone on a processor.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Fallible;
use crate::peers::{LIMIT, WINDOW_SECONDS};

/// The only rule there is.
pub(super) const RULE: &str = "per_user";

/// The limit on calls to the server is raised, not removed, so that it is still counted. A slow response of the
/// shared store is measured, not replaced by the fallback.
const SETTINGS: &str = "\
limits: {check_calls_per_second: 1000000000}
store_failure: {deadline: 10s}
";

/// Servers have one processor, clients the other.
pub(super) const SERVER_CORE: &str = "0";
pub(super) const CLIENT_CORE: &str = "1";
/// What the kernel counts the time of processes in, on every machine this runs on.
const TICKS_PER_SECOND: f64 = 100.0;
pub(crate) const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a program on one processor only.
pub(super) fn pinned(core: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", core]).arg(program);
    command
}

/// A process that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Running(Child);

impl Running {
    pub(super) fn start(command: &mut Command) -> Fallible<Self> {
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended by itself needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Which of its addresses a server is driven at; servers name it before they say where it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    Http,
    Grpc,
    Gateway,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Gateway => "gateway",
        }
    }
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Running,
    pub(super) address: SocketAddr,
    /// Kept, so that whatever the server still has to say finds a listener.
    _stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Tollgate with one GCRA rule and mostly default settings. The limit is the same while a shared store is
    /// unavailable.
    pub(super) fn ours(directory: &Path, protocol: Protocol) -> Fallible<Self> {
        Self::ours_with(directory, protocol, &[])
    }

    /// Tollgate with more options.
    pub(super) fn ours_with(
        directory: &Path,
        protocol: Protocol,
        options: &[&OsStr],
    ) -> Fallible<Self> {
        Self::ours_set(directory, protocol, options, "")
    }

    /// Tollgate with more options and settings.
    pub(super) fn ours_set(
        directory: &Path,
        protocol: Protocol,
        options: &[&OsStr],
        more_settings: &str,
    ) -> Fallible<Self> {
        let (settings, rules) = (directory.join("settings.yaml"), directory.join("rules.yaml"));
        fs::write(&settings, format!("{SETTINGS}{more_settings}"))?;
        let rule = format!(
            "rules: [{{rule_id: {RULE}, identifier_type: user_id, algorithm: gcra, \
             limit: {LIMIT}, window_seconds: {WINDOW_SECONDS}, fallback_factor: 1}}]"
        );
        fs::write(&rules, rule)?;
        let mut command = pinned(SERVER_CORE, built()?);
        command.args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--log-level", "warn"]).args(options);
        command.arg("--config").arg(settings).arg("--rules").arg(rules);
        Self::announced(&mut command, protocol)
    }

    /// Tollgate with a catalog and the default rules, and an admin token.
    pub(super) fn with_catalog(directory: &Path, token: &str) -> Fallible<Self> {
        let settings = directory.join("settings.yaml");
        fs::write(&settings, SETTINGS)?;
        let mut command = pinned(SERVER_CORE, built()?);
        command.args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--log-level", "warn"]).env("TOLLGATE_ADMIN_TOKEN", token);
        command.arg("--catalog").arg(format!("sqlite:{}", directory.join("catalog.db").display()));
        command.arg("--config").arg(settings);
        Self::announced(&mut command, Protocol::Http)
    }

    /// Tollgate as a gateway in front of an upstream, with these rules.
    pub(super) fn gateway(directory: &Path, rules: &str, upstream: SocketAddr) -> Fallible<Self> {
        let file = directory.join("rules.yaml");
        fs::write(&file, rules)?;
        let mut command = pinned(SERVER_CORE, built()?);
        command.args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
        command.args(["--gateway", "127.0.0.1:0", "--upstream", &format!("http://{upstream}")]);
        command.args(["--log-level", "warn"]).arg("--rules").arg(file);
        Self::announced(&mut command, Protocol::Gateway)
    }

    /// The handler that checks nothing.
    pub(super) fn bare(protocol: Protocol) -> Fallible<Self> {
        let name = match protocol {
            Protocol::Http => "bare-axum",
            Protocol::Grpc => "bare-tonic",
            Protocol::Gateway => return Err("a proxy needs an upstream: Server::bare_proxy".into()),
        };
        let mut command = pinned(SERVER_CORE, env::current_exe()?);
        Self::announced(command.args([name, "127.0.0.1:0"]), protocol)
    }

    /// The proxy that checks nothing.
    pub(super) fn bare_proxy(upstream: SocketAddr) -> Fallible<Self> {
        let mut command = pinned(SERVER_CORE, env::current_exe()?);
        command.args(["bare-proxy", "127.0.0.1:0", &upstream.to_string()]);
        Self::announced(&mut command, Protocol::Gateway)
    }

    /// throttlecrab as it is when nothing is set, with room for all keys; `None` if it is not here.
    pub(super) fn throttlecrab(keys: u64) -> Fallible<Option<Self>> {
        let program = Path::new(WORKSPACE).join("target/peers/bin/throttlecrab-server");
        if !program.exists() {
            return Ok(None);
        }
        // It cannot choose a port by itself.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = pinned(SERVER_CORE, program);
        command.args(["--http", "--http-host", "127.0.0.1"]);
        command.args(["--http-port", &address.port().to_string()]);
        command.args(["--store-capacity", &(keys * 2).to_string(), "--log-level", "error"]);
        Self::listening(&mut command, address).map(Some)
    }

    /// A server that cannot choose a port by itself, once it listens.
    pub(super) fn listening(command: &mut Command, address: SocketAddr) -> Fallible<Self> {
        let process = Running::start(command.stdout(Stdio::null()))?;
        let mut server = Self { process, address, _stdout: None };
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.process.0.try_wait()? {
                return Err(format!("a server ended at once: {status}: {command:?}").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// A server that says where it is, in a line that begins with the protocol.
    fn announced(command: &mut Command, protocol: Protocol) -> Fallible<Self> {
        let mut process = Running::start(command.stdout(Stdio::piped()))?;
        let mut stdout = BufReader::new(process.0.stdout.take().ok_or("a pipe was asked for")?);
        let mut line = String::new();
        loop {
            line.clear();
            if stdout.read_line(&mut line)? == 0 {
                return Err(format!("a server did not start: {command:?}").into());
            }
            if let Some(address) = announcement(&line, protocol) {
                return Ok(Self { process, address, _stdout: Some(stdout) });
            }
        }
    }

    /// How many seconds it has spent on a processor, in itself and in the kernel.
    pub(super) fn processor_seconds(&self) -> Fallible<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.0.id()))?;
        let ticks = ticks(&stat).ok_or("/proc/PID/stat cannot be read")?;
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }
}

/// Where a server is, if that is what this line says.
fn announcement(line: &str, protocol: Protocol) -> Option<SocketAddr> {
    let mut words = line.split_whitespace();
    let is_meant = words.next() == Some(protocol.name());
    words.next().filter(|_| is_meant)?.strip_prefix("http://")?.parse().ok()
}

/// Time in user mode and in the kernel: the twelfth and thirteenth field after the name, which may
/// hold spaces and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The command `tollgate`, built as this program is, of the sources as they are now. Where tests are
/// built it is taken as it is: building it alone would build what it needs once more.
pub(crate) fn built() -> Fallible<PathBuf> {
    let own = env::current_exe()?;
    let directory = own.parent().ok_or("this program is nowhere")?;
    let target = directory.parent().ok_or("this program is in no target directory")?;
    let command = directory.join("tollgate");
    let profile = directory.file_name().and_then(OsStr::to_str);
    let profile = profile.ok_or("the directory of this program has no name")?;
    if profile == "debug" && command.exists() {
        return Ok(command);
    }
    let profile = if profile == "debug" { "test" } else { profile };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(WORKSPACE).args(["build", "--quiet", "--package", "tollgate-cli"]);
    build.args(["--profile", profile]).arg("--target-dir").arg(target);
    if !build.status()?.success() {
        return Err("tollgate itself cannot be built".into());
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_where_they_are() {
        let check = |line: &str, protocol: Protocol, expected: Option<u16>| {
            let port = announcement(line, protocol).map(|address| address.port());
            assert_eq!(port, expected, "{line}");
        };
        check("http      http://127.0.0.1:80  check API\n", Protocol::Http, Some(80));
        check("http      http://127.0.0.1:80  check API\n", Protocol::Grpc, None);
        check("grpc http://127.0.0.1:81", Protocol::Grpc, Some(81));
        check("rules     1 rule from grpc http://127.0.0.1:81", Protocol::Grpc, None);
        check("", Protocol::Http, None);
    }

    #[test]
    fn ticks_are_found_behind_any_name() {
        let check = |stat: &str, expected: Option<u64>| assert_eq!(ticks(stat), expected, "{stat}");
        check("7 (a) S 1 7 7 0 -1 64 5 0 0 0 30 12 0 0 20 0 1", Some(42));
        check("7 (a) b) S 1 7 7 0 -1 64 5 0 0 0 30 12 0 0 20 0 1", Some(42));
        check("7 (a) S 1 7", None);
        check("", None);
    }
}
