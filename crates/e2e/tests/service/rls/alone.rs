//! `tollgate serve --envoy-config DIRECTORY` and nothing else: no other rules, and no file is written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use super::brief;
use crate::start_and_stop;
use tollgate_e2e::grpc::{Client, request};
use tollgate_e2e::server::Server;
use tollgate_e2e::until;

const FILE: &str =
    "{domain: test, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 9}}]}";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("ratelimit")).expect("a directory");
    fs::write(folder.path().join("ratelimit/test.yaml"), FILE).expect("written");
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// It used to end with 2, because it could not make `tollgate.db`, and its default rules limited domains
/// that are in no file.
#[test]
fn a_read_only_folder_is_enough_and_other_domains_pass() {
    let folder = folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).expect("changed");
    let mut command = start_and_stop::unprivileged();
    command.args(["serve", "--envoy-config", "ratelimit"]).current_dir(folder.path());
    let server = Server::run(&mut command);
    assert!(server.said.contains("rules     none: "), "{}", server.said);
    assert!(
        server.said.contains("envoy     1 limit of 1 domain from ratelimit"),
        "{}",
        server.said
    );
    assert!(server.said.contains("/json "), "an example for Envoy: {}", server.said);

    let mut client = Client::of(&server);
    assert_eq!(brief(&client.should_rate_limit(&request("test", &[&["user=ann"]]))), "OK, OK 8");
    for _ in 0..60 {
        let login = ["remote_address=192.0.2.1", "path=/login", "method=POST"];
        let answer = client.should_rate_limit(&request("unheard-of", &[&login, &["user=ann"]]));
        assert_eq!(brief(&answer), "OK, OK 0, OK 0");
    }
    let token = server.token().expect("a token").to_owned();
    let rule = r#"{"rule_id":"one","limit":1,"window":"1m","identifier_type":"ip"}"#;
    let written = start_and_stop::ask(&server, "POST", "/api/v1/rules", &token, rule);
    assert_eq!(written.status, 405, "{written:?}");
    assert!(written.text().contains("start it with a catalog (--catalog)"), "{written:?}");
    server.process.signal("HUP");
    server.stop();
    assert_eq!(names(folder.path()), ["ratelimit"]);
}

#[test]
fn a_catalog_is_used_if_it_is_named_and_else_its_file_is_reported() {
    let folder = folder();
    let named = ["--envoy-config", "ratelimit", "--catalog", "sqlite:tollgate.db"];
    let server = start_and_stop::start(folder.path(), &named);
    assert!(server.said.contains(" in sqlite:tollgate.db"), "{}", server.said);
    server.stop();
    let alone = start_and_stop::start(folder.path(), &["--envoy-config", "ratelimit"]);
    let warning = "catalog: tollgate.db is here but is not used";
    until("the warning", || alone.process.errors().contains(warning).then_some(()));
    alone.stop();
    // Other commands have no catalog to work on either.
    for command in ["migrate", "backup"] {
        let mut command = start_and_stop::command(folder.path(), &[command]);
        command.env("TOLLGATE_ENVOY_CONFIG", "ratelimit");
        if command.get_args().any(|argument| argument == "backup") {
            command.arg("copy.db");
        }
        let ended = command.output().expect("it runs");
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(errors.contains("name one with --catalog"), "{errors}");
    }
}
