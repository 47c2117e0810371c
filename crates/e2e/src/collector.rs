//! A collector of traces, which prints what it receives.

use std::net::SocketAddr;

use serde_json::Value;

use crate::process::Process;
use crate::program::{python, root};

/// A collector that lives no longer than its test.
pub struct Collector {
    /// The collector itself.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Collector {
    /// Starts a collector.
    pub fn start() -> Self {
        Self::start_with(&["0"])
    }

    /// Starts one on a port, and with a certificate and its key if those are given too.
    pub fn start_with(arguments: &[&str]) -> Self {
        let script = root().join("crates/e2e/src/collector.py");
        let mut command = python();
        command.arg(script).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = Process::start(&mut command);
        let port = process.until("the port of the collector", |process| {
            let port = lines(process).first()?["port"].as_u64();
            port.and_then(|port| u16::try_from(port).ok())
        });
        Self { process, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// The value for the setting `otlp.endpoint`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans so far, in the order of their traces.
    pub fn spans(&self) -> Vec<Value> {
        let mut spans = self.lines();
        spans.retain(|line| line["trace"].is_string());
        spans.sort_by_key(|span| span["trace"].to_string());
        spans
    }

    /// The complete lines that it has printed.
    pub fn lines(&self) -> Vec<Value> {
        lines(&self.process)
    }

    /// Whether it has received these bytes, which are given as hexadecimal digits.
    pub fn has_received(&self, digits: &str) -> bool {
        self.digits().contains(digits)
    }

    fn digits(&self) -> String {
        self.lines().iter().filter_map(|line| line["bytes"].as_str()).collect()
    }
}

/// Bytes in the form that [`Collector::has_received`] takes.
pub fn digits(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(process: &Process) -> Vec<Value> {
    let said = process.output();
    let whole = said.rfind('\n').map_or("", |end| &said[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}
