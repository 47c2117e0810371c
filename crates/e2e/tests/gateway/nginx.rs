//! nginx as an upstream: plain, and over TLS with HTTP/2; and clients that send many requests.

use std::path::Path;
use std::process::Command;

use crate::gateway::{Gateway, NO_RULES};
use tollgate_e2e::nginx::{Nginx, free_address};

/// nginx that responds with what it received in a header field.
pub(crate) fn start(listen: &str, more: &str) -> Nginx {
    let address = free_address("127.0.0.41");
    let site = format!(
        "keepalive_requests 50; client_max_body_size 0;
server {{
    listen {address} {listen};
    {more}
    location / {{ add_header x-seen $server_protocol:$host:$request_method:$http_x_forwarded_for; return 200 hello; }}
}}
"
    );
    Nginx::start(address, &site)
}

#[test]
fn nginx_receives_requests_unchanged() {
    let nginx = start("", "");
    let gateway = Gateway::before(nginx.address);
    for method in ["GET", "POST", "DELETE"] {
        let answer = gateway.ask(method, "/", &[("Host", "x")], b"");
        assert_eq!(answer.status, 400, "two hosts");
        let request =
            format!("{method} /x HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n");
        let answer = gateway.connect().ask(request.as_bytes());
        let expected = format!("HTTP/1.1:shop.example:{method}:127.0.0.1");
        assert_eq!((answer.status, answer.header("x-seen")), (200, Some(&*expected)));
        assert_eq!(answer.text(), "hello");
    }
}

/// nginx closes each connection after 50 requests, so that many end in the middle of the run.
#[test]
fn no_request_is_lost_under_load() {
    let nginx = start("", "");
    ask_much(&format!("http://{}", nginx.address));
}

/// Over HTTP/2, nginx refuses streams that were sent in the meantime.
#[test]
fn no_request_is_lost_under_load_over_http2() {
    let nginx = start("http2", "");
    ask_much(&format!("h2c://{}", nginx.address));
}

/// Requests that came into the queue of a connection at the moment of its end stayed there until they
/// timed out. Here every eighth ends one.
#[test]
fn requests_that_meet_the_end_of_a_connection_are_not_forgotten() {
    let nginx = start("http2", "keepalive_requests 8;");
    let gateway = Gateway::start(NO_RULES, "", &[format!("h2c://{}", nginx.address)]);
    all_succeed(&gateway, &["--h1", "-n", "8000", "-c", "16"]);
    assert_eq!(gateway.answers("5xx"), 0);
}

fn ask_much(upstream: &str) {
    let gateway = Gateway::start(NO_RULES, "", &[upstream.to_owned()]);
    all_succeed(&gateway, &["-n", "2000", "-c", "4", "-m", "4"]);
    all_succeed(&gateway, &["--h1", "-n", "2000", "-c", "16"]);
    let said = run("/usr/bin/wrk", &["-t", "1", "-c", "16", "-d", "1s"], &gateway);
    assert!(
        said.contains("requests in")
            && !said.contains("Non-2xx")
            && !said.contains("Socket errors"),
        "{said}"
    );
    assert_eq!(gateway.answers("5xx"), 0);
}

fn all_succeed(gateway: &Gateway, arguments: &[&str]) {
    let said = run("/usr/bin/h2load", arguments, gateway);
    assert!(said.contains(" succeeded, 0 failed, 0 errored, 0 timeout"), "{said}");
}

fn run(program: &str, arguments: &[&str], gateway: &Gateway) -> String {
    assert!(Path::new(program).exists(), "{program} is missing: scripts/test installs it");
    let mut command = Command::new(program);
    let output = command.args(arguments).arg(gateway.url("/")).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
