//! Envoy and other callers over a Unix socket.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use serde_json::json;

use super::{ask, start_with};
use tollgate_e2e::envoy::Envoy;
use tollgate_e2e::grpc::Client;
use tollgate_e2e::server::Setup;
use tollgate_e2e::upstream::Upstream;

const FILE: &str = "
domain: test
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 9}}
";
const SHOP: &str = "
domain: shop
descriptors: [{key: remote_address, rate_limit: {unit: year, requests_per_unit: 2}}]
";

#[test]
fn calls_arrive_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tollgate.sock");
    // A server that did not end well has left its socket behind.
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    let address = format!("unix:{}", path.display());
    let setup = Setup { arguments: &["--grpc", &address], ..Setup::default() };
    let server = start_with(FILE, &setup);
    assert_eq!(server.told("grpc"), Some(address.as_str()));
    // Owner and group connect, and others do not, whatever the umask.
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "{mode:o}");
    let mut client = Client::open(&json!({ "address": address }));
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 8");

    // Another server does not take it over.
    let rules = folder.path().join("none.yaml");
    fs::write(&rules, "rules: []").expect("written");
    let second = tollgate_e2e::server::tollgate()
        .args(["serve", "--http", "127.0.0.1:0", "--grpc", &address, "--rules"])
        .arg(&rules)
        .output()
        .expect("it runs");
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    let errors = String::from_utf8_lossy(&second.stderr);
    let expected = format!("cannot listen on {address}: another program listens there already");
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 7");
    server.stop();
    assert!(!path.exists(), "it is removed at the end");
}

#[test]
fn envoy_calls_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tollgate.sock");
    let address = format!("unix:{}", path.display());
    let setup = Setup { arguments: &["--grpc", &address], ..Setup::default() };
    let server = start_with(SHOP, &setup);
    let upstream = Upstream::start();
    let pipe = format!("{{address: {{pipe: {{path: {}}}}}}}", path.display());
    let changes = [
        ("timeout: 0.25s", "timeout: 10s"),
        ("{address: {socket_address: {address: 127.0.0.1, port_value: 8081}}}", &pipe),
    ];
    let ports = [("8000", 0), ("3000", upstream.address.port())];
    let envoy = Envoy::start_with("envoy-ratelimit.yaml", &ports, &changes);
    let statuses: Vec<u16> = (0..3).map(|_| envoy.ask("127.0.0.1", "/", &[]).status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    drop(server);
}
