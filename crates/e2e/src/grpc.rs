//! A gRPC client in Python, with the messages that Envoy publishes. It shares no line with the server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::program::{python, root};
use crate::server::Server;

/// Envoy's call.
pub const SHOULD_RATE_LIMIT: &str = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// Envoy's call for external authorization.
pub const AUTHORIZE: &str = "envoy.service.auth.v3.Authorization/Check";
/// A check.
pub const CHECK_RATE_LIMIT: &str = "tollgate.v1.RateLimiter/CheckRateLimit";
/// A peek.
pub const GET_REMAINING_QUOTA: &str = "tollgate.v1.RateLimiter/GetRemainingQuota";
/// A reset.
pub const RESET_LIMIT: &str = "tollgate.v1.RateLimiter/ResetLimit";
/// The call that refunds.
pub const REFUND: &str = "tollgate.v1.RateLimiter/Refund";
/// Several checks.
pub const CHECK_BATCH: &str = "tollgate.v1.RateLimiter/CheckBatch";
/// A health check.
pub const HEALTH: &str = "grpc.health.v1.Health/Check";

/// Why a call failed.
#[derive(Debug)]
pub struct Failure {
    /// The code of gRPC.
    pub code: String,
    /// What went wrong.
    pub detail: String,
    /// Trailing metadata.
    pub metadata: Value,
}

/// A client that lives no longer than its test.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// A client of a server.
    pub fn of(server: &Server) -> Self {
        Self::at(server.grpc_address)
    }

    /// A client of the server at an address.
    pub fn at(address: SocketAddr) -> Self {
        Self::open(&json!({ "address": address.to_string() }))
    }

    /// A client of `target`: an `address`, and files with an `authority`, a `certificate` and a `key`
    /// if it is encrypted.
    pub fn open(target: &Value) -> Self {
        let script = root().join("crates/e2e/src/grpc_client.py");
        let mut child = python()
            .arg(script)
            // Retries inside the library would be extra calls.
            .env("GRPC_VERBOSITY", "NONE")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python runs");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut client = Self { child, input, output };
        client.tell(target);
        client
    }

    /// Sends a line to the client.
    pub fn tell(&mut self, line: &Value) {
        writeln!(self.input, "{line}").expect("the client listens");
    }

    /// The next line that it prints.
    pub fn hear(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        let mut answer: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the client says {line:?}: {error}"));
        let mut text = |name: &str| answer[name].take().as_str().unwrap_or_default().to_owned();
        let (code, detail) = (text("code"), text("detail"));
        if code.is_empty() {
            return Ok(answer["ok"].take());
        }
        Err(Failure { code, detail, metadata: answer["metadata"].take() })
    }

    /// Sends a line to the client, and returns its result.
    pub fn ask(&mut self, line: &Value) -> Result<Value, Failure> {
        self.tell(line);
        self.hear()
    }

    /// Makes a call.
    pub fn try_call(&mut self, method: &str, message: &Value) -> Result<Value, Failure> {
        self.ask(&json!({ "call": method, "message": message }))
    }

    /// Makes a call with metadata.
    pub fn try_call_as(
        &mut self,
        token: &str,
        method: &str,
        message: &Value,
    ) -> Result<Value, Failure> {
        let metadata = json!({ "authorization": format!("Bearer {token}") });
        self.ask(&json!({ "call": method, "message": message, "metadata": metadata }))
    }

    /// Makes a call that has to succeed.
    pub fn call(&mut self, method: &str, message: &Value) -> Value {
        self.try_call(method, message)
            .unwrap_or_else(|failure| panic!("{method} {message}: {failure:?}"))
    }

    /// Makes a call that has to fail, and returns the failure.
    pub fn fail(&mut self, method: &str, message: &Value) -> Failure {
        match self.try_call(method, message) {
            Err(failure) => failure,
            Ok(answer) => panic!("{method} {message} did not fail: {answer}"),
        }
    }

    /// Asks as Envoy does.
    pub fn should_rate_limit(&mut self, request: &Value) -> Value {
        self.call(SHOULD_RATE_LIMIT, request)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request of Envoy with one descriptor for each list of entries, written `key=value`.
pub fn request(domain: &str, descriptors: &[&[&str]]) -> Value {
    let descriptors = descriptors.iter().map(|entries| descriptor(entries));
    json!({ "domain": domain, "descriptors": descriptors.collect::<Vec<_>>() })
}

/// A descriptor with entries that are written `key=value`.
pub fn descriptor(entries: &[&str]) -> Value {
    let entries = entries.iter().map(|entry| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        json!({ "key": key, "value": value })
    });
    json!({ "entries": entries.collect::<Vec<_>>() })
}
