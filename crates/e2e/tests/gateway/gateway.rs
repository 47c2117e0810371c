//! The real binary with a gateway on a free port.

use std::net::SocketAddr;

use tollgate_e2e::client::{Answer, Connection, request};
use tollgate_e2e::server::{Server, Setup};

/// A policy without rules.
pub(crate) const NO_RULES: &str = "rules: []";

pub(crate) struct Gateway {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
}

impl Gateway {
    /// In front of one upstream, without a limit.
    pub(crate) fn before(upstream: SocketAddr) -> Self {
        Self::with_rules(NO_RULES, upstream)
    }

    pub(crate) fn with_rules(rules: &str, upstream: SocketAddr) -> Self {
        Self::start(rules, "", &[format!("http://{upstream}")])
    }

    /// Without a limit, with settings.
    pub(crate) fn with_settings(settings: &str, upstream: SocketAddr) -> Self {
        Self::start(NO_RULES, settings, &[format!("http://{upstream}")])
    }

    pub(crate) fn start(rules: &str, settings: &str, upstreams: &[String]) -> Self {
        let upstreams = upstreams.iter().flat_map(|url| ["--upstream", url]);
        let arguments: Vec<&str> =
            ["--gateway", "127.0.0.1:0"].into_iter().chain(upstreams).collect();
        let setup =
            Setup { rules: Some(rules), settings, arguments: &arguments, ..Setup::default() };
        Self::of(Server::start(&setup))
    }

    /// The gateway of a server that has one.
    pub(crate) fn of(server: Server) -> Self {
        let said = server.process.output();
        let line = said.lines().find_map(|line| line.strip_prefix("gateway "));
        let url = line.and_then(|line| line.split_whitespace().next()).expect("a gateway");
        let (_, address) = url.split_once("://").expect("a URL");
        Self { address: address.parse().expect("an address"), server }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.connect().ask(&request(method, path, fields, body))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How often something has failed, by its name.
    pub(crate) fn failures(&self, kind: &str) -> u64 {
        self.count(&format!("tollgate_gateway_failures_total{{kind=\"{kind}\"}}"))
    }

    /// How many responses have had such a status.
    pub(crate) fn answers(&self, status: &str) -> u64 {
        self.count(&format!("tollgate_gateway_responses_total{{status=\"{status}\"}}"))
    }

    /// How many connections are upgraded.
    pub(crate) fn upgrades(&self) -> u64 {
        self.count("tollgate_gateway_upgrades")
    }

    /// A figure that is a whole number.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.server.figure(name) as u64
    }
}
