//! Settings that expose secrets: the server starts with a warning.

use std::fs::{self, Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use tollgate_e2e::certificates::Authority;
use tollgate_e2e::server::{Server, Setup};
use tollgate_testbed::Redis;

const NO_TLS: &str = "admin tokens cross the network unencrypted";
const READABLE: &str = "every user can read";

/// The log of a server that starts, once it contains `expected`.
fn said(arguments: &[&str], key_mode: u32, expected: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = Authority::new("our own").sign(folder.path(), "localhost");
    set_permissions(&key, Permissions::from_mode(key_mode)).expect("permissions");
    let files = ["--tls-certificate", &certificate, "--tls-key", &key];
    let files = if key_mode == 0 { &[][..] } else { &files };
    let arguments = [arguments, files].concat();
    let mut server = Server::start_in(folder, &Setup { arguments: &arguments, ..Setup::default() });
    // Its two outputs are read by two threads.
    server
        .process
        .until("a warning", |process| Some(process.errors()).filter(|said| said.contains(expected)))
}

#[test]
fn an_admin_api_without_tls_on_the_network_is_a_warning() {
    let public = ["--admin", "0.0.0.0:0"];
    let log = said(&public, 0, NO_TLS);
    assert!(log.contains("WARN"), "{log}");
    assert!(!said(&["--admin", "127.0.0.1:0"], 0, "").contains(NO_TLS));
    assert!(!said(&[], 0, "").contains(NO_TLS));
    assert!(!said(&public, 0o600, "").contains(NO_TLS));
}

#[test]
fn a_key_that_every_user_can_read_is_a_warning() {
    let log = said(&[], 0o644, READABLE);
    assert!(log.contains("localhost.key"), "{log}");
    for mode in [0o600, 0o640] {
        assert!(!said(&[], mode, "").contains(READABLE), "{mode:o}");
    }
}

/// Nodes without a common catalog shared a store, and nothing said that they lack a secret.
#[test]
fn a_shared_store_without_a_secret_is_a_warning() {
    const NO_SECRET: &str = "the fleet has no secret";
    let redis = Redis::start();
    let url = redis.url();
    let log = |rules: Option<&str>, store: &str, secret: &str, expected: &str| {
        let mut server = Server::start(&Setup {
            rules,
            arguments: &["--store", store],
            environment: &[("TOLLGATE_FLEET_SECRET", secret)],
            ..Setup::default()
        });
        server
            .process
            .until("a log", |process| Some(process.errors()).filter(|said| said.contains(expected)))
    };
    let rules = Some("rules: []");
    assert!(log(rules, &url, "", NO_SECRET).contains("TOLLGATE_FLEET_SECRET"));
    assert!(!log(rules, "memory", "", "started").contains(NO_SECRET));
    let other = format!("{url}?prefix=other:");
    assert!(
        !log(rules, &other, "squeamish-ossifrage-of-32-characters", "started").contains(NO_SECRET)
    );
    let catalog = format!("{url}?prefix=catalog:");
    assert!(!log(None, &catalog, "", "started").contains(NO_SECRET));
}

/// It is worth as much as a private key, and was not looked at.
#[test]
fn a_secret_file_that_every_user_can_read_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fleet.secret");
    fs::write(&file, "squeamish-ossifrage-of-32-characters").expect("written");
    let settings = format!("{{fleet: {{secret_file: {}}}}}", file.display());
    let log = |mode: u32, expected: &str| {
        set_permissions(&file, Permissions::from_mode(mode)).expect("permissions");
        let mut server = Server::start(&Setup { settings: &settings, ..Setup::default() });
        server
            .process
            .until("a log", |process| Some(process.errors()).filter(|said| said.contains(expected)))
    };
    let said = log(0o644, READABLE);
    assert!(said.contains("fleet.secret_file: every user can read"), "{said}");
    for mode in [0o600, 0o640] {
        assert!(!log(mode, "started").contains(READABLE), "{mode:o}");
    }
}
