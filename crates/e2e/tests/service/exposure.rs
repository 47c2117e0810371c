//! Settings that expose secrets: the server starts with a warning.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use tollgate_e2e::certificates::Authority;
use tollgate_e2e::server::{Server, Setup};

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
