//! The server that the sessions of a page talk to.

use std::path::Path;
use std::process::Command;

use tollgate_e2e::server::{Server, tollgate};

/// The address of a server in documents: the default one.
const SHOWN: &str = "127.0.0.1:8080";
/// Commands that call a server.
const ASKING: [&str; 9] = [
    "tollgate check",
    "tollgate explain",
    "tollgate rules apply",
    "tollgate rules diff",
    "tollgate rules export",
    "tollgate rules history",
    "tollgate rules list",
    "tollgate rules rollback",
    SHOWN,
];
const ADMIN_TOKEN: &str = "correct-horse-battery-staple";

/// Whether a session needs a server.
pub(crate) fn is_asked(session: &str) -> bool {
    ASKING.iter().any(|command| session.contains(command))
}

/// The server that a page talks to.
pub(crate) struct PageServer(Server);

impl PageServer {
    /// Starts a server with the `policy.yaml` of the page, or with the rules that are built in.
    pub(crate) fn start(folder: &Path) -> Self {
        let mut command = tollgate();
        command
            .args(["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
            .current_dir(folder);
        if folder.join("policy.yaml").exists() {
            command.args(["--rules", "policy.yaml"]);
        }
        if folder.join("ratelimit").exists() {
            command.args(["--envoy-config", "ratelimit"]);
        }
        Self(Server::run(command.env("TOLLGATE_ADMIN_TOKEN", ADMIN_TOKEN)))
    }

    /// Makes a command of a document call this server.
    pub(crate) fn serve(&self, command: &mut Command) {
        command
            .env("TOLLGATE_SERVER", format!("http://{}", self.0.address))
            .env("TOLLGATE_ADMIN_TOKEN", ADMIN_TOKEN);
    }

    /// A command as it is written, for this server.
    pub(crate) fn to_here(&self, command: &str) -> String {
        command.replace(SHOWN, &self.0.address.to_string())
    }

    /// The output of this server, as it is written in the document.
    pub(crate) fn to_document(&self, output: &str) -> String {
        output.replace(&self.0.address.to_string(), SHOWN)
    }
}
