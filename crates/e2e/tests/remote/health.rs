//! `tollgate health`, which probes of containers call.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use tollgate_e2e::server::binary;

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

    // Nothing listens there: not ready, and not a wrong use of the command.
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let closed = free.local_addr().expect("an address");
    drop(free);
    let (code, why) = by_settings(&closed.to_string());
    assert!(code == Some(1) && why.contains("(--url)"), "{why}");
    assert_eq!(tollgate(&["health", "--url", "http://x", "--config", "y"]).code, 2);
}
