//! `tollgate serve` and `tollgate config` as processes: what they print, obey and answer.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tollgate_e2e::client::{Connection, request};
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Server, tollgate};

const RULES: &str = "rules: [{rule_id: first, limit: 5, window: 1h, identifier_type: ip}]\n";
const OTHER_RULES: &str = "rules: [{rule_id: second, limit: 5, window: 1h, identifier_type: ip}]\n";
const TOKEN: &str = "squeamish-ossifrage";

fn command(arguments: &[&str]) -> Command {
    let mut command = tollgate();
    command.args(arguments).env("TOLLGATE_GRPC", "127.0.0.1:0");
    // A catalog is made here, if there are no rules.
    command.current_dir(fresh_folder());
    command
}

/// A folder for one test, below those of the build.
fn fresh_folder() -> PathBuf {
    let folder =
        tempfile::Builder::new().disable_cleanup(true).tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    folder.expect("a folder").path().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Status and body of the response of a listener.
fn ask(server: &Server, listener: &str, path: &str, token: &str) -> (u16, String) {
    let url = server.told(listener).unwrap_or_else(|| panic!("no {listener}: {}", server.said));
    let address = url.strip_prefix("http://").and_then(|address| address.parse().ok());
    let bearer = format!("Bearer {token}");
    let asked = request("GET", path, &[("Authorization", &bearer)], b"");
    let answer = Connection::open(address.expect("an address")).ask(&asked);
    (answer.status, answer.text())
}

/// Waits for log lines with these words; returns all of them.
fn log_until(server: &mut Server, words: &str) -> String {
    server.process.until(words, |process| Some(process.errors()).filter(|log| log.contains(words)))
}

#[test]
fn a_server_starts_without_arguments_obeys_signals_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("policy.yaml");
    fs::write(&rules, RULES).expect("written");
    let path = rules.to_str().expect("a path");
    let mut server =
        Server::run(&mut command(&["serve", "--http", "127.0.0.1:0", "--rules", path]));
    assert!(server.said.contains("1 rule from"), "{}", server.said);
    let token = server.token().expect("a token").to_owned();
    assert_eq!(ask(&server, "http", "/health/live", "").0, 200);
    assert_eq!(ask(&server, "http", "/api/v1/rules", "").0, 401);
    let (status, body) = ask(&server, "http", "/api/v1/rules", &token);
    assert!(status == 200 && body.contains("\"first\""), "{status} {body}");

    fs::write(&rules, OTHER_RULES).expect("written");
    server.process.signal("HUP");
    let log = log_until(&mut server, "rules loaded");
    assert!(!log.contains(&token), "{log}");
    assert!(ask(&server, "http", "/api/v1/rules", &token).1.contains("\"second\""));

    server.process.signal("TERM");
    log_until(&mut server, "ended");
    assert_eq!(server.process.end().code(), Some(0));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::run(&mut command(&["serve", "--http", "127.0.0.1:0"]));
    let address = server.address;
    // A request whose body never comes is still in flight.
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = "POST /api/v1/rate-limit/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
                application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).expect("the server wants the body");
    assert_eq!(text(&begun), "HTTP/1.1 100");
    server.process.signal("INT");
    log_until(&mut server, "finishing what has begun");
    server.process.signal("INT");
    log_until(&mut server, "ended at once");
    assert_eq!(server.process.end().code(), Some(130));
}

#[test]
fn the_admin_api_can_be_apart_and_tokens_can_be_chosen() {
    let mut started = command(&["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    started.env("TOLLGATE_ADMIN_TOKEN", TOKEN);
    let server = Server::run(&mut started);
    assert!(!server.said.contains(TOKEN) && !server.said.contains("token"), "{}", server.said);
    assert_eq!(ask(&server, "admin", "/api/v1/rules", TOKEN).0, 200);
    let dashboard = format!("{}/", server.told("admin").expect("an address"));
    assert_eq!(server.told("dashboard"), Some(&*dashboard), "{}", server.said);
    // A path of the other port is not unknown.
    let (status, body) = ask(&server, "http", "/api/v1/rules", TOKEN);
    assert_eq!(status, 404);
    assert!(body.contains("belongs to the admin API, which has a separate port"), "{body}");
    let (status, body) = ask(&server, "admin", "/api/v1/rate-limit/check", TOKEN);
    assert_eq!(status, 404);
    assert!(body.contains("belongs to the check API, which has a separate port"), "{body}");
    for listener in ["http", "admin"] {
        let (_, body) = ask(&server, listener, "/api/v1/rulesets", TOKEN);
        assert!(body.contains("there is nothing at /api/v1/rulesets"), "{body}");
    }
}

#[test]
fn a_server_on_all_addresses_says_so_and_names_the_port_of_its_admin_api() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("policy.yaml");
    fs::write(&rules, "rules: [{rule_id: r, limit: 5, window: 1h, identifier_type: tenant}]\n")
        .expect("written");
    let path = rules.to_str().expect("a path");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let admin = free.expect("a port");
    let here = ["serve", "--http", "0.0.0.0:0", "--check-auth", "none", "--rules", path];
    let server = Server::run(&mut command(&[&here[..], &["--admin", &admin.to_string()]].concat()));
    let line = |name: &str| server.said.lines().find(|line| line.starts_with(name));
    let http = line("http ").expect("a line");
    assert!(http.contains("http://127.0.0.1:") && http.contains(" (on all addresses)  "), "{http}");
    assert!(!line("grpc ").expect("a line").contains("all addresses"), "{}", server.said);
    let (_, body) = ask(&server, "http", "/api/v1/decisions/d1", "");
    assert!(body.contains(&format!("a separate port: {} (--admin)", admin.port())), "{body}");
    // The suggested call is one that the rules count.
    assert!(server.said.contains(r#"-d '{"identifiers":{"tenant":"acme"},"#), "{}", server.said);
}

#[test]
fn a_rules_file_without_rules_or_without_the_file_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("policy.yaml");
    fs::write(&rules, RULES).expect("written");
    let path = rules.to_str().expect("a path");
    let mut server =
        Server::run(&mut command(&["serve", "--http", "127.0.0.1:0", "--rules", path]));
    fs::write(&rules, "rules: []\n").expect("written");
    server.process.signal("HUP");
    let log = log_until(&mut server, "nothing has a limit");
    assert!(log.contains("WARN") && log.contains("0 rules from"), "{log}");
    fs::remove_file(&rules).expect("removed");
    let log = log_until(&mut server, "cannot be found any more");
    assert!(log.contains("WARN") && log.contains(path), "{log}");
    let (_, figures) = ask(&server, "http", "/metrics", "");
    assert!(figures.contains("\ntollgate_config_errors_total 1\n"), "{figures}");
}

#[test]
fn a_rejected_token_is_explained_in_the_log() {
    // {"sub":"alice"}, signed with another key.
    let token =
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let mut started = command(&["serve", "--http", "127.0.0.1:0", "--log-level", "debug"]);
    started.env("TOLLGATE_JWT_SECRET", "squeamish-ossifrage-squeamish-ossifrage");
    let mut server = Server::run(&mut started);
    for sent in [token, "nonsense", token] {
        assert_eq!(ask(&server, "http", "/api/v1/rate-limits/status", sent).0, 200);
    }
    let log = log_until(&mut server, "malformed");
    assert!(log.contains("DEBUG a token is rejected: the signature of the token is"), "{log}");
    assert!(!log.contains(token) && !log.contains("eyJ") && !log.contains("nonsense"), "{log}");
    let (_, figures) = ask(&server, "http", "/metrics", "");
    for (outcome, count) in [("signature", 2), ("malformed", 1), ("verified", 0)] {
        let line = format!("\ntollgate_tokens_total{{outcome=\"{outcome}\"}} {count}\n");
        assert!(figures.contains(&line), "{line} in {figures}");
    }

    let mut short = command(&["serve", "--http", "127.0.0.1:0"]);
    let Output { stderr, .. } =
        short.env("TOLLGATE_JWT_SECRET", TOKEN).output().expect("a process");
    let told = text(&stderr);
    assert!(told.starts_with("tollgate: identity.jwt.secret: a secret has at least 32"), "{told}");
}

#[test]
fn a_405_names_the_allowed_methods() {
    let server = Server::run(&mut command(&["serve", "--http", "127.0.0.1:0"]));
    let (status, body) = ask(&server, "http", "/api/v1/rate-limit/peek", "");
    assert_eq!(status, 405);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["code"], "wrong_method");
    assert_eq!(body["detail"], "GET is not possible here; use POST");
}

#[test]
fn a_failed_start_is_explained_in_a_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let bad_rules = write("bad.yaml", "rules: [{rule_id: a, limit: five}]\n");
    let bad_settings = write("settings.yaml", "htpp: 127.0.0.1:0\n");
    let not_pem = write("not.pem", "nonsense");
    let here = ["serve", "--http", "127.0.0.1:0"];
    let cases: &[(&[&str], &str)] = &[
        (
            &["--http", &address],
            "another program listens there already; choose another with --http",
        ),
        (&["--rules", "missing.yaml"], "missing.yaml"),
        (&["--rules", &bad_rules], "limit"),
        (&["--config", "missing.yaml"], "cannot read the settings file missing.yaml"),
        (
            &["--config", &bad_settings],
            "settings.yaml:1:1): there is no such setting; did you mean http?",
        ),
        (&["--memory", "lots"], "memory (flag --memory): expected a size"),
        (&["--store", "mysql://localhost"], "write memory:, redis://host:port"),
        (&["--store", "redis://a,b"], "need redis+sentinel"),
        (&["--tls-certificate", &not_pem, "--tls-key", &not_pem], "not.pem holds no certificate"),
        (&["--catalog", "sqlite:/no/such/folder/tollgate.db"], "its folder has to exist"),
        (&["--upstream", "http://127.0.0.1:3000/api"], "each item a URL without a path"),
        (&["--fly"], "unexpected argument"),
    ];
    for (arguments, expected) in cases {
        let is_elsewhere = arguments.contains(&"--http");
        let line = [if is_elsewhere { &here[..1] } else { &here[..] }, arguments].concat();
        let Output { status, stdout, stderr } = command(&line).output().expect("a process");
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        assert_eq!(status.code(), Some(2), "{arguments:?}: {stdout}{stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty(), "{arguments:?}: {stdout}");
    }
    let mut with_bad_filter = command(&here);
    with_bad_filter.env("RUST_LOG", "tollgate=loud");
    let Output { status, stderr, .. } = with_bad_filter.output().expect("a process");
    assert_eq!(status.code(), Some(2));
    assert!(text(&stderr).contains("RUST_LOG cannot be used"), "{}", text(&stderr));
}

#[test]
fn log_lines_can_be_json() {
    let mut process =
        Process::start(&mut command(&["serve", "--http", "127.0.0.1:0", "--log", "json"]));
    let json = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
    let started = process.until("the line of the start", |process| {
        // The last line may not be complete yet.
        let errors = process.errors();
        let mut lines = errors.lines().filter_map(|line| serde_json::from_str(line).ok());
        lines.find(|line: &Value| line["message"] == "started")
    });
    // Standard output is for programs too: one object, and the token only there.
    let said =
        json(&process.until("a summary", |process| {
            Some(process.output()).filter(|said| said.ends_with('\n'))
        }));
    assert_eq!((&said["http"], &said["grpc"]), (&started["http"], &started["grpc"]));
    let dashboard = format!("{}/", said["http"].as_str().expect("an address"));
    assert_eq!(said["dashboard"], dashboard);
    let token = said["token"].as_str().expect("the first token");
    // Its name is shown beside all that is done with it: that of a token, not of a person.
    let address = dashboard.trim_start_matches("http://").trim_end_matches('/').parse();
    let bearer = format!("Bearer {token}");
    let listed = request("GET", "/api/v1/tokens", &[("Authorization", &bearer)], b"");
    let tokens = Connection::open(address.expect("an address")).ask(&listed).text();
    assert!(tokens.contains(r#""name":"first-token""#), "{tokens}");
    process.signal("TERM");
    assert!(process.end().success());
    let log = process.errors();
    for line in log.lines() {
        assert_eq!(json(line)["level"], "INFO", "{line}");
    }
    assert!(log.contains("\"ended\"") && !log.contains(token), "{log}");
}

#[test]
fn config_shows_every_setting_with_its_origin_but_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tollgate.yaml");
    fs::write(&file, "limits:\n  connections: 7\n").expect("written");
    let run = |arguments: &[&str], file: &Path| {
        let mut config = command(arguments);
        config.env("TOLLGATE_CONFIG", file).env("TOLLGATE_CHECK_TOKEN", TOKEN);
        let Output { status, stdout, stderr } = config.output().expect("a process");
        assert_eq!(status.code(), Some(0), "{}", text(&stderr));
        text(&stdout)
    };
    let shown = run(&["config", "--check-auth", "token", "--memory", "1GiB"], &file);
    let line = |name: &str| {
        let line = shown.lines().find(|line| line.split_whitespace().next() == Some(name));
        let words = line.unwrap_or_else(|| panic!("no {name} in {shown}")).split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("http"), "http 127.0.0.1:8080 default");
    assert_eq!(line("memory"), "memory 1GiB flag --memory");
    assert_eq!(line("check_token"), "check_token *** env TOLLGATE_CHECK_TOKEN");
    let place = format!("{}:2:16", file.display());
    assert_eq!(line("limits.connections"), format!("limits.connections 7 {place}"));
    assert!(!shown.contains(TOKEN), "{shown}");

    let shown = run(&["config", "--check-auth", "token", "--json"], &file);
    assert!(!shown.contains(TOKEN), "{shown}");
    let object: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(object["check_token"]["value"], "***");
    assert_eq!(object["limits.connections"]["value"], 7);
    assert_eq!(object["limits.connections"]["origin"], place);
    assert_eq!(object["admin"]["value"], Value::Null);
}
