//! Nothing is lost when a server starts or stops: not the first admin token, not the catalog.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output};

use tollgate_e2e::client::Answer;
use tollgate_e2e::server::{JSON, Server, binary, tollgate};

/// `tollgate` in a folder, on free ports unless flags name others.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = tollgate();
    command.current_dir(folder).args(arguments);
    for listener in ["HTTP", "GRPC"] {
        command.env(format!("TOLLGATE_{listener}"), "127.0.0.1:0");
    }
    command
}

/// `tollgate` on free ports, as a user that owns no file: root may write everywhere.
pub(crate) fn unprivileged() -> Command {
    let is_root = fs::metadata("/proc/self").expect("this process").uid() == 0;
    let mut command = Command::new(if is_root { "setpriv".into() } else { binary() });
    if is_root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
    }
    command.env("TOLLGATE_HTTP", "127.0.0.1:0").env("TOLLGATE_GRPC", "127.0.0.1:0");
    command
}

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().expect("it runs")
}

/// Starts a server without an admin token in its settings.
pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Server {
    Server::run(&mut command(folder, &[&["serve"], arguments].concat()))
}

pub(crate) fn ask(server: &Server, method: &str, path: &str, token: &str, body: &str) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), JSON];
    server.ask(method, path, &headers, body)
}

#[test]
fn a_failed_first_start_loses_no_admin_token() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let upstream = format!("http://{taken}");
    let failing: &[&[&str]] = &[
        &["--http", &taken],
        &["--grpc", &taken],
        &["--admin", &taken],
        &["--upstream", &upstream, "--gateway", &taken],
        &["--tls-certificate", "missing.pem", "--tls-key", "missing.key"],
        &["--envoy-config", "missing"],
    ];
    for flags in failing {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments: Vec<&str> = ["serve"].iter().chain(*flags).copied().collect();
        let failed = run(folder.path(), &arguments);
        assert_eq!(failed.status.code(), Some(2), "{flags:?}: {failed:?}");
        let server = start(folder.path(), &[]);
        let token = server.token().unwrap_or_else(|| panic!("{flags:?}: {}", server.said));
        assert_eq!(ask(&server, "GET", "/api/v1/tokens", token, "").status, 200, "{flags:?}");
    }
}

#[test]
fn a_later_start_and_the_401_say_how_to_make_another_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = start(folder.path(), &[]);
    let wrong = ask(&first, "GET", "/api/v1/rules", "tg_wrong", "");
    assert_eq!(wrong.status, 401);
    assert!(
        wrong.text().contains("tollgate tokens create --role admin --catalog URL"),
        "{wrong:?}"
    );
    first.stop();

    let second = start(folder.path(), &[]);
    assert_eq!(second.token(), None, "{}", second.said);
    let advice = "tollgate tokens create --role admin --catalog sqlite:tollgate.db";
    assert!(second.said.contains(advice), "{}", second.said);
    // The advice of the server works while it runs.
    let arguments: Vec<&str> = advice.split(' ').skip(1).collect();
    let made = run(folder.path(), &arguments);
    assert!(made.status.success(), "{made:?}");
    let token = String::from_utf8(made.stdout).expect("text");
    tollgate_e2e::until("a token that counts", || {
        (ask(&second, "GET", "/api/v1/tokens", token.trim(), "").status == 200).then_some(())
    });
}

/// The token in the environment of the server was once accepted even after it was revoked.
#[test]
fn a_token_of_the_catalog_can_be_revoked_though_the_server_was_given_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = start(folder.path(), &[]);
    let token = first.token().expect("a token").to_owned();
    first.stop();

    let mut given = command(folder.path(), &["serve"]);
    given.env("TOLLGATE_ADMIN_TOKEN", &token);
    let server = Server::run(&mut given);
    assert!(server.said.contains("was made by a catalog"), "{}", server.said);
    let made = ask(&server, "POST", "/api/v1/tokens", &token, r#"{"role":"admin"}"#).json();
    let id = token.split('_').nth(1).expect("an id");
    let path = format!("/api/v1/tokens/{id}");
    let other = made["token"].as_str().expect("a token");
    assert_eq!(ask(&server, "DELETE", &path, other, "").status, 204);
    assert_eq!(ask(&server, "GET", "/api/v1/tokens", &token, "").status, 401);
}

#[test]
fn a_server_without_its_database_says_so_at_its_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let nowhere = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port");
    let catalog = format!("postgres://anyone@{nowhere}/rules");
    let server = start(folder.path(), &["--catalog", &catalog]);
    let expected = format!("built in, until postgres://{nowhere}/rules can be reached");
    assert!(server.said.contains(&expected), "{}", server.said);
    assert!(!server.said.contains("admin token"), "it cannot know that yet: {}", server.said);
}

/// The message was "unable to open database file", without a word of the folder or of what to do.
#[test]
fn a_folder_that_cannot_be_written_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).expect("changed");
    let mut command = unprivileged();
    command.arg("serve").current_dir(folder.path());
    let failed = command.output().expect("it runs");
    let errors = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(2), "{errors}");
    for expected in ["sqlite:tollgate.db", "has to be able to write there", "with --catalog"] {
        assert!(errors.contains(expected), "{errors}");
    }
}

/// The names of all files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_clean_stop_leaves_one_intact_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut token = None;
    for round in 0..8 {
        let server = start(folder.path(), &[]);
        token = token.or_else(|| server.token().map(str::to_owned));
        // Every other server is stopped as soon as it serves.
        if round % 2 == 1 {
            let rule = format!(
                r#"{{"rule_id":"rule_{round}","limit":1,"window":"1m","identifier_type":"ip"}}"#
            );
            let token = token.as_deref().expect("a token");
            let made = ask(&server, "POST", "/api/v1/rules", token, &rule);
            assert_eq!(made.status, 201, "{made:?}");
        }
        server.stop();
        let left: Vec<String> = files(folder.path());
        assert!(
            left.iter().all(|name| !name.ends_with("-wal") && !name.ends_with("-shm")),
            "round {round}: {left:?}"
        );
        let copy = tempfile::tempdir().expect("a folder");
        fs::copy(folder.path().join("tollgate.db"), copy.path().join("tollgate.db"))
            .expect("copied");
        let checked = run(copy.path(), &["migrate", "--check"]);
        assert!(checked.status.success(), "round {round}: {checked:?}");
        let copied = start(copy.path(), &[]);
        let rules = ask(&copied, "GET", "/api/v1/rules", token.as_deref().expect("a token"), "");
        assert_eq!(rules.status, 200, "{rules:?}");
        if round % 2 == 1 {
            assert!(rules.text().contains(&format!("rule_{round}")), "{rules:?}");
        }
    }
}
