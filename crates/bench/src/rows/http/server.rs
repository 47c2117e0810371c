//! Servers in processes of their own, each on a processor that it shares with nobody.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::bodies::RULE;
use crate::Fallible;
use crate::peers::{LIMIT, WINDOW_SECONDS};

/// Servers have one processor, clients the other.
const SERVER_CORE: &str = "0";
pub(super) const CLIENT_CORE: &str = "1";
/// What the kernel counts the time of processes in, on every machine this runs on.
const TICKS_PER_SECOND: f64 = 100.0;
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a program on one processor only.
pub(super) fn pinned(core: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", core]).arg(program);
    command
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    /// Kept, so that whatever the server still has to say finds a listener.
    _stdout: Option<BufReader<ChildStdout>>,
}

impl Server {
    /// Tollgate with one GCRA rule, as far as possible as it is when nothing is set. Its limit on
    /// its own calls is raised, not lifted: it is still counted.
    pub(super) fn ours(directory: &Path) -> Fallible<Self> {
        let (settings, rules) = (directory.join("settings.yaml"), directory.join("rules.yaml"));
        fs::write(&settings, "limits: {check_calls_per_second: 1000000000}")?;
        let rule = format!(
            "rules: [{{rule_id: {RULE}, identifier_type: user_id, algorithm: gcra, \
             limit: {LIMIT}, window_seconds: {WINDOW_SECONDS}}}]"
        );
        fs::write(&rules, rule)?;
        let mut command = pinned(SERVER_CORE, built()?);
        command.args(["serve", "--http", "127.0.0.1:0", "--log-level", "warn"]);
        command.arg("--config").arg(settings).arg("--rules").arg(rules);
        Self::announced(&mut command)
    }

    /// The handler that checks nothing.
    pub(super) fn bare() -> Fallible<Self> {
        Self::announced(pinned(SERVER_CORE, env::current_exe()?).args(["bare-axum", "127.0.0.1:0"]))
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
        let child = command.stdout(Stdio::null()).spawn()?;
        let mut server = Self { child, address, _stdout: None };
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(format!("throttlecrab-server ended at once: {status}").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(Some(server))
    }

    /// A server whose first line says where it is.
    fn announced(command: &mut Command) -> Fallible<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("a pipe was asked for")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("http://"));
        let Some(address) = address.and_then(|address| address.parse().ok()) else {
            let status = child.kill().and_then(|()| child.wait());
            return Err(format!("a server did not start: {command:?}, {status:?}").into());
        };
        Ok(Self { child, address, _stdout: Some(stdout) })
    }

    /// How many seconds it has spent on a processor, in itself and in the kernel.
    pub(super) fn processor_seconds(&self) -> Fallible<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let ticks = ticks(&stat).ok_or("/proc/PID/stat cannot be read")?;
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Time in user mode and in the kernel: the twelfth and thirteenth field after the name, which may
/// hold spaces and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The command `tollgate`, built as this program is, of the sources as they are now.
fn built() -> Fallible<PathBuf> {
    let own = env::current_exe()?;
    let directory = own.parent().ok_or("this program is nowhere")?;
    let target = directory.parent().ok_or("this program is in no target directory")?;
    let profile = match directory.file_name().and_then(OsStr::to_str) {
        Some("debug") => "test",
        Some(profile) => profile,
        None => return Err("the directory of this program has no name".into()),
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(WORKSPACE).args(["build", "--quiet", "--package", "tollgate-cli"]);
    build.args(["--profile", profile]).arg("--target-dir").arg(target);
    if !build.status()?.success() {
        return Err("tollgate itself cannot be built".into());
    }
    Ok(directory.join("tollgate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let check = |stat: &str, expected: Option<u64>| assert_eq!(ticks(stat), expected, "{stat}");
        check("7 (a) S 1 7 7 0 -1 64 5 0 0 0 30 12 0 0 20 0 1", Some(42));
        check("7 (a) b) S 1 7 7 0 -1 64 5 0 0 0 30 12 0 0 20 0 1", Some(42));
        check("7 (a) S 1 7", None);
        check("", None);
    }
}
