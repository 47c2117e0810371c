//! Third-party programs that the service is tested with.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::client::Answer;

/// A program that `scripts/test` installs; without it, the panic says what to do.
fn installed(path: &Path) -> Command {
    assert!(path.exists(), "{} is missing: scripts/test installs it", path.display());
    Command::new(path)
}

/// A program of Python packages; they are installed below `target`.
fn from_packages(name: &str) -> Command {
    installed(&root().join("target/python/bin").join(name))
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// nginx.
pub fn nginx() -> Command {
    installed(Path::new("/usr/sbin/nginx"))
}

/// The tool that checks metrics and rules of Prometheus.
pub fn promtool() -> Command {
    installed(Path::new("/usr/bin/promtool"))
}

/// Prometheus.
pub fn prometheus() -> Command {
    installed(Path::new("/usr/bin/prometheus"))
}

/// Chromium.
pub fn chromium() -> Command {
    installed(Path::new("/usr/bin/chromium"))
}

/// A terminal whose screen can be read.
pub fn tmux() -> Command {
    installed(Path::new("/usr/bin/tmux"))
}

/// Envoy.
pub fn envoy() -> Command {
    from_packages("envoy")
}

/// Python, with the packages of `scripts/requirements.txt`.
pub fn python() -> Command {
    from_packages("python")
}

/// A fuzzer that reads `/openapi.json`.
pub fn schemathesis() -> Command {
    from_packages("schemathesis")
}

/// Runs curl without its settings file and with a timeout, and returns its output.
pub fn curl(arguments: &[&str]) -> String {
    try_curl(arguments).unwrap_or_else(|errors| panic!("curl {arguments:?}: {errors}"))
}

/// Runs curl like [`curl`], for calls that may fail.
pub fn try_curl(arguments: &[&str]) -> Result<String, String> {
    let output = installed(Path::new("/usr/bin/curl"))
        .args(["--disable", "--silent", "--show-error", "--noproxy", "*", "--max-time", "20"])
        .args(arguments)
        .output()
        .expect("curl runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The response to curl, as a client with this address.
pub fn curl_from(client: &str, url: &str, more: &[&str]) -> Answer {
    let said = curl(&[&["--include", "--interface", client, url], more].concat());
    Answer::parse(said.as_bytes()).unwrap_or_else(|error| panic!("{error}: {said}"))
}
