//! The commands that call a server, against a running server, and against other programs and closed
//! ports.

mod health;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;
use tollgate_e2e::server::{CALLER_TOKEN, Server, Setup, binary};

const POLICY: &str = "
rules:
  - {rule_id: per_user, limit: 2, window: 1h, identifier_type: user_id, algorithm: gcra}
  - {rule_id: per_address, limit: 100, window: 1h, identifier_type: ip, applies_to: {methods: [POST]}}
  - {rule_id: per_plan, limit: 5, window: 1h, identifier_type: 'attribute:plan', algorithm: gcra}
blacklist: [{identifier_type: api_key, identifier: stolen}]
";

/// A server, and its URL for commands.
struct Remote {
    server: Server,
    url: String,
}

impl Remote {
    fn start() -> Self {
        Self::with(&[], |_| String::new())
    }

    /// Starts a server after its files were made; `prepare` returns its settings.
    fn with(environment: &[(&str, &str)], prepare: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = prepare(folder.path());
        let rules = Some(POLICY);
        let setup = Setup { rules, settings: &settings, environment, ..Setup::default() };
        let server = Server::start_in(folder, &setup);
        let url = server.told("http").expect("a URL").replace("127.0.0.1", "localhost");
        Self { server, url }
    }

    fn file(&self, name: &str) -> String {
        self.server.folder().join(name).to_str().expect("a path").to_owned()
    }

    fn ask(&self, arguments: &[&str]) -> Ran {
        tollgate(&[arguments, &["--server", &self.url]].concat())
    }
}

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn tollgate(arguments: &[&str]) -> Ran {
    let output = Command::new(binary())
        .args(arguments)
        .env_remove("TOLLGATE_SERVER")
        .env_remove("TOLLGATE_TOKEN")
        .output()
        .expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("readable output");
    Ran {
        code: output.status.code().expect("an exit code"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs a command, and compares the exit code and a part of the right output.
fn check(ask: impl Fn(&[&str]) -> Ran, arguments: &str, code: i32, expected: &str) {
    let ran = ask(&arguments.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ran.code, code, "{arguments}: {}{}", ran.stdout, ran.stderr);
    let (said, silent) =
        if code == 2 { (ran.stderr, ran.stdout) } else { (ran.stdout, ran.stderr) };
    assert!(said.contains(expected), "{arguments}: no {expected:?} in\n{said}");
    assert!(silent.is_empty(), "{arguments}: {silent}");
}

#[test]
fn a_check_charges_and_its_exit_code_is_the_decision() {
    let server = Remote::start();
    let check = |arguments: &str, code: i32, expected: &str| {
        check(|arguments| server.ask(arguments), arguments, code, expected);
    };
    check("check --user-id alice --peek", 0, "not charged by per_user: 2 of 2 left");
    check("check --user-id alice", 0, "allowed by per_user: 1 of 2 left");
    check(
        "check --user-id alice --cost 5",
        1,
        "refused by per_user: 1 of 2 left, it costs 5 and the limit is 2: it can never pass",
    );
    check("check --rule per_user alice", 0, "allowed by per_user: 0 of 2 left");
    check("check --user-id alice", 1, "refused by per_user: 0 of 2 left, try again in ");
    check("check --user-id alice --api-key stolen", 1, "refused: the client is blacklisted");
    check("check", 0, "allowed: no rule applies");
    check("check --attribute plan=gold --tier pro --host h --tenant t", 0, "by per_plan: 4 of 5");
    check("check --rule per_plan --key-type custom gold --cost 4", 0, "by per_plan: 0 of 5 left");
    check("check --rule per_user --user-id zoe", 0, "allowed by per_user: 1 of 2 left");
    check("check --method POST --ip 192.0.2.7 --endpoint /a", 0, "by per_address: 99 of 100 left");
    // Charged once, however often it is explained.
    check("check --user-id bob --idempotency-key k", 0, "1 of 2 left");
    check("check --user-id bob --idempotency-key k", 0, "1 of 2 left");
    check("check --user-id eve --idempotency-key k", 2, "idempotency");
    check("check --rule nope alice", 2, "there is no rule `nope` (unknown_rule)");
    check("check --rule per_user --key-type ip 192.0.2.7", 2, "rule `per_user` counts by user_id");
    check(
        "check --rule per_user",
        2,
        "rule `per_user` counts by user_id, which this check does not have",
    );
    check("check --rule per_user --ip 192.0.2.7", 2, "rule `per_user` counts by user_id");
    check("check --rule per_user --key-type banana x", 2, "unknown variant `banana`");
}

#[test]
fn an_explanation_shows_every_rule() {
    let server = Remote::start();
    let arguments = ["explain", "--user-id", "alice", "--method", "GET", "--ip", "192.0.2.7"];
    let ran = server.ask(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let lines: Vec<Vec<&str>> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let has = |expected: &str| {
        let words: Vec<&str> = expected.split_whitespace().collect();
        assert!(
            lines.iter().any(|line| line.starts_with(&words)),
            "no line {expected:?} in\n{}",
            ran.stdout
        );
    };
    has("no tier");
    has("would pass; per_user binds");
    has("per_user binds 1 2 2 / 1 h 0 s user_id=alice it applies to every request");
    has("per_address - 100 / 1 h the method is `GET`, not POST");
    has("per_plan - 5 / 1 h the request has no attribute:plan");
}

#[test]
fn an_explanation_says_whether_the_request_would_pass() {
    let server = Remote::start();
    let check = |arguments: &str, code: i32, expected: &str| {
        check(|arguments| server.ask(arguments), arguments, code, expected);
    };
    check("explain --user-id alice", 0, "would pass; per_user binds\n");
    check("explain --user-id alice --cost 3", 0, "would be refused by per_user, it costs 3 and");
    check("check --user-id alice --cost 2", 0, "allowed");
    check("explain --user-id alice", 0, "would be refused by per_user, try again in ");
    check("explain --user-id alice", 0, " per_user     exceeded     1     0  2 / 1 h ");
    check("explain --api-key stolen", 0, "would be refused, whatever the limits\n");
    check("explain", 0, "would pass; no rule binds\n");
}

#[test]
fn a_decision_can_be_explained_by_its_id() {
    let server = Remote::start();
    let ran = server.ask(&["check", "--user-id", "alice", "--cost", "3"]);
    let id = ran.stdout.lines().find_map(|line| line.strip_prefix("decision ")).expect("an id");
    let check = |arguments: &str, code: i32, expected: &str| {
        check(|arguments| server.ask(arguments), arguments, code, expected);
    };
    let because = ": rule per_user was exceeded and binds\nno tier, revision 1 of the rules\n";
    check(&format!("explain --decision {id} --token admin-squeamish-ossifrage"), 0, because);
    check(&format!("explain --decision {id} --token admin-squeamish-ossifrage --json"), 0, id);
    check(&format!("explain --decision {id}"), 2, "(token_required)");
    check("explain --decision nope --token admin-squeamish-ossifrage", 2, "decision");
    check("explain --decision d1 --user-id alice", 2, "cannot be used with");
}

#[test]
fn rules_are_listed_for_those_who_may_see_them() {
    let server = Remote::start();
    let check = |arguments: &str, code: i32, expected: &str| {
        check(|arguments| server.ask(arguments), arguments, code, expected);
    };
    check("rules list --token admin-squeamish-ossifrage", 0, "3 rules\n");
    check(
        "rules list --token admin-squeamish-ossifrage",
        0,
        " per_address  100 / 1 h  sliding_window_counter  ip              reject\n",
    );
    check("rules get per_user --token admin-squeamish-ossifrage", 0, " limit            2\n");
    check("rules get nope --token admin-squeamish-ossifrage", 2, "there is no rule `nope`");
    check("rules get a/b?c --token admin-squeamish-ossifrage", 2, "there is no rule `a/b?c`");
    check("rules list", 2, "(token_required) (--token or TOLLGATE_TOKEN)");
    check("rules list --token hush", 2, "(wrong_token) (--token or TOLLGATE_TOKEN)");
}

#[test]
fn the_environment_names_server_and_token() {
    let token = [("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN)];
    let server = Remote::with(&token, |_| "check_auth: token".to_owned());
    let run = |token: &str| {
        let output = Command::new(binary())
            .args(["check", "--user-id", "alice"])
            .env("TOLLGATE_SERVER", &server.url)
            .env("TOLLGATE_TOKEN", token)
            .output()
            .expect("the binary runs");
        let error = String::from_utf8(output.stderr).expect("readable output");
        assert!(token.is_empty() || !error.contains(token), "{error}");
        output.status.code()
    };
    assert_eq!(run(CALLER_TOKEN), Some(0));
    // The variable that the server itself reads, and its first lines name.
    let mut command = Command::new(binary());
    command.args(["check", "--user-id", "bob", "--server", &server.url]);
    command.env("TOLLGATE_CHECK_TOKEN", CALLER_TOKEN).env("TOLLGATE_ADMIN_TOKEN", "another-token");
    assert_eq!(command.status().expect("the binary runs").code(), Some(0));
    assert_eq!(run("other-token"), Some(2));
    assert_eq!(run("no\ntoken"), Some(2));
    assert_eq!(run(""), Some(2));
    let help = Command::new(binary())
        .args(["check", "--help"])
        .env("TOLLGATE_TOKEN", "hush-hush")
        .output()
        .expect("the binary runs");
    let help = String::from_utf8(help.stdout).expect("readable output");
    assert!(help.contains("TOLLGATE_TOKEN") && !help.contains("hush-hush"), "{help}");
}

#[test]
fn json_is_printed_as_it_came() {
    let server = Remote::start();
    let json = |arguments: &[&str]| -> Value {
        let ran = server.ask(&[arguments, &["--json"]].concat());
        assert!(ran.stdout.ends_with('\n'), "{}", ran.stdout);
        serde_json::from_str(&ran.stdout).expect("JSON")
    };
    assert_eq!(json(&["check", "--user-id", "u", "--cost", "2"])["remaining"], 0);
    let refused = json(&["check", "--user-id", "u"]);
    assert_eq!((&refused["allowed"], &refused["reason"]), (&false.into(), &"rate_limited".into()));
    assert_eq!(json(&["explain", "--user-id", "u"])["binding"], "per_user");
    let rules = json(&["rules", "list", "--token", "admin-squeamish-ossifrage"]);
    assert_eq!(rules["rules"].as_array().map(Vec::len), Some(3));
    let rule = json(&["rules", "get", "per_plan", "--token", "admin-squeamish-ossifrage"]);
    assert_eq!(rule["identifier_type"], "attribute:plan");
    assert_eq!(server.ask(&["check", "--user-id", "u", "--json"]).code, 1);
}

#[test]
fn a_server_with_a_private_authority_is_trusted_with_ca() {
    let server = Remote::with(&[], |folder| {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
        let own = own.expect("a certificate");
        fs::write(folder.join("server.pem"), own.cert.pem()).expect("written");
        fs::write(folder.join("server.key"), own.signing_key.serialize_pem()).expect("written");
        tls_settings(folder)
    });
    let file = |name: &str| server.file(name);
    let check = |arguments: &str, code: i32, expected: &str| {
        check(|arguments| server.ask(arguments), arguments, code, expected);
    };
    check(&format!("check --user-id u --ca {}", file("server.pem")), 0, "allowed by per_user");
    check(&format!("check --ca {}", file("missing.pem")), 2, "cannot use --ca");
    check(&format!("check --ca {}", file("policy.yaml")), 2, "it holds no certificate in PEM");
    // Without the file the certificate is not trusted.
    check("check", 2, "--ca");
    // Plain HTTP to a port that expects TLS.
    let plain = server.url.replace("https", "http");
    let ran = tollgate(&["check", "--server", &plain]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("or does it want https? (--server)"), "{}", ran.stderr);
}

/// The settings of a server whose certificate and key are in a folder.
fn tls_settings(folder: &Path) -> String {
    let folder = folder.display();
    format!("tls: {{certificate: {folder}/server.pem, key: {folder}/server.key}}")
}

#[test]
fn the_certificate_of_the_documents_is_trusted() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md");
    let page = fs::read_to_string(page).expect("the page about serving");
    let (_, rest) = page.split_once("```sh\nopenssl req ").expect("how to make a certificate");
    let (line, _) = rest.split_once("```").expect("its end");
    let server = Remote::with(&[], |folder| {
        let line = format!("openssl req {line}");
        let made = Command::new("bash").args(["-c", &line]).current_dir(folder).output();
        let made = made.expect("bash runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        tls_settings(folder)
    });
    let arguments = format!("check --user-id u --ca {}", server.file("server.pem"));
    check(|arguments| server.ask(arguments), &arguments, 0, "allowed by per_user");
}

#[test]
fn an_untrusted_certificate_is_explained() {
    let make = |names: &[&str], is_authority: bool| {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut parameters = rcgen::CertificateParams::new(names).expect("names");
        if is_authority {
            parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        }
        let key = rcgen::KeyPair::generate().expect("a key");
        (parameters.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    };
    let other = make(&["localhost"], false).0;
    let check_one = |names: &[&str], is_authority: bool, trusts_it: bool, expected: &str| {
        let (certificate, key) = make(names, is_authority);
        let server = Remote::with(&[], |folder| {
            fs::write(folder.join("server.pem"), &certificate).expect("written");
            fs::write(folder.join("server.key"), &key).expect("written");
            fs::write(folder.join("other.pem"), &other).expect("written");
            tls_settings(folder)
        });
        let name = if trusts_it { "server.pem" } else { "other.pem" };
        let arguments = format!("check --ca {}", server.file(name));
        check(|arguments| server.ask(arguments), &arguments, 2, expected);
    };
    check_one(
        &["localhost"],
        true,
        true,
        "certificate is that of an authority, which is no server's",
    );
    check_one(&["localhost"], false, false, "the authority of --ca did not sign its certificate");
    check_one(&["elsewhere"], false, true, "its certificate is for another name");
}

/// Debian's ssl-cert has an authority for localhost with an RSA key, and a certificate for localhost that was
/// signed by an elliptic curve used to be explained by the numbers of a library.
#[test]
fn an_authority_of_the_same_name_with_another_kind_of_key_is_explained() {
    let server = Remote::with(&[], |folder| {
        for (name, kind) in
            [("server", "ec -pkeyopt ec_paramgen_curve:P-256"), ("other", "rsa:2048")]
        {
            let line = format!(
                "openssl req -x509 -newkey {kind} -nodes -days 1 -subj /CN=localhost \
                 -addext subjectAltName=DNS:localhost -addext basicConstraints=CA:FALSE \
                 -keyout {name}.key -out {name}.pem"
            );
            let made = Command::new("bash").args(["-c", &line]).current_dir(folder).output();
            let made = made.expect("bash runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        tls_settings(folder)
    });
    let expected = "the authority of --ca did not sign its certificate";
    let arguments = format!("check --ca {}", server.file("other.pem"));
    check(|arguments| server.ask(arguments), &arguments, 2, expected);
}

/// A port where every connection is answered with these bytes, and then closed.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            // Some of the request must be read, or closing would look like a reset.
            let _ = connection.read(&mut [0; 4_096]);
            let _ = connection.write_all(bytes);
        }
    });
    format!("http://127.0.0.1:{port}")
}

#[test]
fn an_unusable_response_comes_with_advice() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let closed = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    // The backlog takes the connection, and it is never accepted.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let silent_url = format!("http://{}", silent.local_addr().expect("an address"));
    let rubbish = answering(b"220 mail.example.com ESMTP\r\n");
    let page = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>");
    let gone = answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let cut = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 60\r\n\r\n{");
    let refused = "connection refused. Is `tollgate serve` running? (--server)".to_owned();
    let cases = [
        (&*closed, "", format!("tollgate: cannot reach {closed}: {refused}\n")),
        (
            &*silent_url,
            "--timeout 50ms",
            format!("tollgate: {silent_url} did not answer within 50ms (--timeout)\n"),
        ),
        (&*rubbish, "", "Is it a Tollgate server, or does it want https? (--server)".to_owned()),
        (&*page, "", "gave an answer that cannot be read".to_owned()),
        (&*gone, "", "answered 404 Not Found. Is it a Tollgate server? (--server)".to_owned()),
        (&*cut, "", "gave no proper answer".to_owned()),
        ("localhost:8080", "", "write it like http://127.0.0.1:8080".to_owned()),
        ("http://me:hush@localhost", "", "takes no user name or password".to_owned()),
        ("http://localhost", "--timeout soon", "write it like 500ms, 5s or 1m".to_owned()),
        ("http://localhost", "--attribute plan", "write it like NAME=VALUE".to_owned()),
        ("http://localhost", "alice", "--rule <RULE_ID>".to_owned()),
        ("http://localhost", "--rule r --key-type ip", "KEY_VALUE".to_owned()),
        ("http://localhost", "--peek --cost 2", "cannot be used with".to_owned()),
        ("http://localhost", "--peek --idempotency-key k", "cannot be used with".to_owned()),
    ];
    for (url, arguments, expected) in cases {
        let arguments = format!("check --server {url} {arguments}");
        check(tollgate, &arguments, 2, &expected);
    }
    drop(silent);
}
