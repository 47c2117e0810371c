//! The server that the sessions of a page talk to.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tollgate_e2e::server::binary;

/// Where a server is in documents: what it takes unless told otherwise.
const SHOWN: &str = "127.0.0.1:8080";
/// Commands that ask a server.
const ASKING: [&str; 7] = [
    "tollgate check",
    "tollgate explain",
    "tollgate rules apply",
    "tollgate rules diff",
    "tollgate rules export",
    "tollgate rules list",
    SHOWN,
];
const ADMIN_TOKEN: &str = "correct-horse-battery-staple";

/// Whether a session needs a server.
pub(crate) fn is_asked(session: &str) -> bool {
    ASKING.iter().any(|command| session.contains(command))
}

/// A server that runs until the page is done.
pub(crate) struct Server {
    process: Child,
    address: String,
    /// Held, so that the server can go on talking.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server with the `policy.yaml` of the page, or with the rules that are built in.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut command = Command::new(binary());
        command
            .args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
            .current_dir(folder);
        if folder.join("policy.yaml").exists() {
            command.args(["--rules", "policy.yaml"]);
        }
        if folder.join("ratelimit").exists() {
            command.args(["--envoy-config", "ratelimit"]);
        }
        command.env("TOLLGATE_ADMIN_TOKEN", ADMIN_TOKEN).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the binary runs");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("what runs where");
        let url = line.split_whitespace().nth(1).and_then(|url| url.strip_prefix("http://"));
        let address = url.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { process, address, _output: output }
    }

    /// Makes a command of a document ask this server.
    pub(crate) fn serve(&self, command: &mut Command) {
        command
            .env("TOLLGATE_SERVER", format!("http://{}", self.address))
            .env("TOLLGATE_ADMIN_TOKEN", ADMIN_TOKEN);
    }

    /// A command as it is written, for this server.
    pub(crate) fn to_here(&self, command: &str) -> String {
        command.replace(SHOWN, &self.address)
    }

    /// What this server says, as it is written.
    pub(crate) fn to_document(&self, output: &str) -> String {
        output.replace(&self.address, SHOWN)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
