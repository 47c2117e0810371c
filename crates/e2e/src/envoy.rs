//! Envoy, set up as in one of our examples.

use std::fs;
use std::net::SocketAddr;

use tempfile::TempDir;

use crate::client::Answer;
use crate::process::Process;
use crate::program::{curl, curl_from, envoy, root};

/// Runs until it is dropped.
pub struct Envoy {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where all of its listeners are, in any order.
    pub listeners: Vec<SocketAddr>,
    /// Envoy itself, whose output is its access log.
    pub process: Process,
    _folder: TempDir,
}

impl Envoy {
    /// Starts Envoy with an example, in which ports are replaced. Port 0 is any free one.
    pub fn start(example: &str, ports: &[(&str, u16)]) -> Self {
        Self::start_with(example, ports, &[])
    }

    /// Starts Envoy with an example in which texts are replaced: pairs of the old text and the new one.
    pub fn start_with(example: &str, ports: &[(&str, u16)], changes: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let example = root().join("examples").join(example);
        let mut example = fs::read_to_string(example).expect("the example");
        for (written, real) in ports {
            let written = format!("port_value: {written}}}");
            assert!(example.contains(&written), "no {written} in the example");
            example = example.replace(&written, &format!("port_value: {real}}}"));
        }
        for (written, real) in changes {
            assert!(example.contains(written), "no {written} in the example");
            example = example.replace(written, real);
        }
        Self::start_text(folder, &example, &[])
    }

    /// Starts Envoy with a configuration, whose first listener or the one named `front` is where requests go.
    pub fn start_configured(configuration: &str, arguments: &[&str]) -> Self {
        Self::start_text(tempfile::tempdir().expect("a folder"), configuration, arguments)
    }

    fn start_text(folder: TempDir, configuration: &str, arguments: &[&str]) -> Self {
        let file = folder.path().join("envoy.yaml");
        fs::write(&file, configuration).expect("written");
        let admin_file = folder.path().join("admin.txt");
        let mut command = envoy();
        command
            .arg("-c")
            .arg(file)
            .args(["--disable-hot-restart", "--concurrency", "1", "--log-level", "warn"])
            .args([
                "--config-yaml",
                "admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}",
            ])
            .arg("--admin-address-path")
            .arg(&admin_file)
            .args(arguments);
        let mut process = Process::start(&mut command);
        // The admin API of Envoy reports which ports it took.
        let admin = process.until("the address of Envoy's administrator", |_| {
            fs::read_to_string(&admin_file).ok().filter(|text| text.contains(':'))
        });
        let listeners = format!("http://{}/listeners", admin.trim());
        let named: Vec<(String, SocketAddr)> = process.until("the addresses of Envoy", |_| {
            let said = curl(&[&listeners]);
            let lines = said.lines().filter_map(|line| line.split_once("::"));
            let named = lines.filter_map(|(name, at)| Some((name.to_owned(), at.parse().ok()?)));
            Some(named.collect()).filter(|named: &Vec<_>| !named.is_empty())
        });
        let front = named.iter().find(|(name, _)| name == "front").or(named.first());
        let address = front.map(|(_, address)| *address).expect("a listener");
        let listeners = named.iter().map(|(_, address)| *address).collect();
        Self { address, listeners, process, _folder: folder }
    }

    /// The response to a client with this address.
    pub fn ask(&self, client: &str, path: &str, more: &[&str]) -> Answer {
        curl_from(client, &format!("http://{}{path}", self.address), more)
    }
}
