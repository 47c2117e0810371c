//! `tollgate health`, which probes of containers call.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};

use tollgate_e2e::server::{binary, tollgate as binary_alone};

use crate::{Remote, tollgate};

#[test]
fn health_is_what_a_probe_needs() {
    let remote = Remote::start();
    // Through the flag, and by the settings that the server has.
    let ran = tollgate(&["health", "--url", &remote.url]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "ready\n", ""));
    let by_settings = |address: &str| {
        let output = Command::new(binary())
            .args(["health"])
            .env("TOLLGATE_HTTP", address)
            .env("TOLLGATE_CHECK_AUTH", "none")
            .output()
            .expect("the command runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let port = remote.server.address.port();
    assert_eq!(by_settings(&format!("0.0.0.0:{port}")), (Some(0), String::new()));

    // No secret is needed, and none that is missing or there twice is in the way.
    let settings = remote.server.folder().join("probe.yaml");
    let text = format!("{{http: '0.0.0.0:{port}', check_auth: token, admin_token_file: /nowhere}}");
    fs::write(&settings, text).expect("written");
    let probe = |variables: &[(&str, &str)]| {
        let mut command = binary_alone();
        command.arg("health").arg("--config").arg(&settings).envs(variables.iter().copied());
        let output = command.output().expect("the command runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(probe(&[]), (Some(0), String::new()));
    assert_eq!(probe(&[("TOLLGATE_ADMIN_TOKEN", "squeamish-ossifrage")]), (Some(0), String::new()));
    let both = [("TOLLGATE_ADMIN_TOKEN", "a"), ("TOLLGATE_ADMIN_TOKEN_FILE", "/nowhere")];
    assert_eq!(probe(&both), (Some(0), String::new()));

    // Nothing listens there: not ready, and not a wrong use of the command.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let closed = free.local_addr().expect("an address");
    drop(free);
    let (code, why) = by_settings(&closed.to_string());
    assert!(code == Some(1) && why.contains("(--url)"), "{why}");
    assert_eq!(tollgate(&["health", "--url", "http://x", "--config", "y"]).code, 2);
    let unusable = tollgate(&["health", "--url", "nonsense", "--wait", "60"]);
    assert!(unusable.code == 2 && unusable.stderr.contains("(--url)"), "{}", unusable.stderr);
}

#[test]
fn health_waits_until_a_server_is_ready() {
    let remote = Remote::start();
    let ran = tollgate(&["health", "--url", &remote.url, "--wait", "60"]);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "ready\n", ""));

    // A port that nothing listens on yet.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let ran = tollgate(&["health", "--url", &url, "--wait", "300ms"]);
    assert!(ran.code == 1 && ran.stderr.contains("(--url)"), "{}", ran.stderr);

    // One that accepts connections and says nothing at first, then that it is not ready, then that it is.
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let waiting = Command::new(binary())
        .args(["health", "--url", &url, "--wait", "60", "--timeout", "500ms"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let _silent = server.accept().expect("a first attempt");
    for (status, body) in [("503 Service Unavailable", "draining"), ("200 OK", "ready")] {
        let (mut stream, _) = server.accept().expect("another attempt");
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).expect("a request") > 0);
        let body = format!("{{\"status\":\"{body}\"}}");
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).expect("sent");
    }
    let ended = waiting.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(0), &b"ready\n"[..]));
}
