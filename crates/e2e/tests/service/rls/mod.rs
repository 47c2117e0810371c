//! Envoy's rate limit service, called by Envoy, by a client with Envoy's own messages, and over HTTP.

mod alone;
mod answers;
mod client_text;
mod demo;
mod hits;
mod json;
mod listed;
mod matching;
mod metrics;
mod own_rules;
mod proxy;
mod quota;
mod reload;
mod unix_socket;

use std::fs;
use std::path::Path;

use serde_json::Value;

use tollgate_e2e::grpc::{Client, request};
use tollgate_e2e::server::{Server, Setup};

/// Starts a server with one file of envoyproxy/ratelimit. Limits of a year do not refill during a
/// test.
fn start(file: &str) -> Server {
    start_with(file, &Setup::default())
}

fn start_with(file: &str, setup: &Setup<'_>) -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("ratelimit");
    fs::create_dir(&directory).expect("a directory");
    write(&directory, "test.yaml", file);
    let path = directory.to_str().expect("a readable path");
    let arguments = [&["--envoy-config", path], setup.arguments].concat();
    Server::start_in(folder, &Setup { arguments: &arguments, ..*setup })
}

/// Replaces a file atomically, as a deployment should.
fn write(directory: &Path, name: &str, text: &str) {
    let new = directory.join(".new");
    fs::write(&new, text).expect("written");
    fs::rename(new, directory.join(name)).expect("renamed");
}

/// Sends descriptors in the domain `test`, and shortens the response: the code of the request, and the
/// code and the rest of each descriptor.
fn ask(client: &mut Client, descriptors: &[&[&str]]) -> String {
    brief(&client.should_rate_limit(&request("test", descriptors)))
}

fn brief(answer: &Value) -> String {
    let mut text = answer["overall_code"].as_str().expect("a code").to_owned();
    for status in answer["statuses"].as_array().expect("statuses") {
        text += &format!(
            ", {} {}",
            status["code"].as_str().expect("a code"),
            status["limit_remaining"]
        );
    }
    text
}

/// A header that Envoy has to add to its response.
fn header<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    let headers = answer["response_headers_to_add"].as_array().expect("headers");
    let found: Vec<_> = headers.iter().filter(|header| header["key"] == name).collect();
    assert!(found.len() <= 1, "{name} comes twice: {answer}");
    found.first().and_then(|header| header["value"].as_str())
}

/// Whole seconds, as in `30s`.
fn seconds(status: &Value) -> u64 {
    let text = status["duration_until_reset"].as_str();
    let seconds = text.and_then(|text| text.strip_suffix('s')?.parse().ok());
    seconds.unwrap_or_else(|| panic!("no whole seconds: {status}"))
}
