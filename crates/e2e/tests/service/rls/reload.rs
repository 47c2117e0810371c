//! Files of envoyproxy/ratelimit that change, and those that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};

use super::{ask, start, write};
use tollgate_e2e::grpc::Client;
use tollgate_e2e::process::Process;
use tollgate_e2e::server::{Server, Setup, command};
use tollgate_e2e::until;

fn file(domain: &str, limit: u32) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit:\n      unit: year\n      \
         requests_per_unit: {limit}\n"
    )
}

fn directory(server: &Server) -> PathBuf {
    server.folder().join("ratelimit")
}

/// Waits until a peek at a counter has this result.
fn until_seen(client: &mut Client, user: &str, expected: &str) {
    let mut look = tollgate_e2e::grpc::request("test", &[&[&format!("user={user}")]]);
    look["descriptors"][0]["hits_addend"] = "0".into();
    until(expected, || {
        let answer = super::brief(&client.should_rate_limit(&look));
        (answer == expected).then_some(())
    });
}

#[test]
fn changed_files_take_effect_and_counters_survive() {
    let server = start(&file("test", 5));
    let mut client = Client::of(&server);
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 4");
    write(&directory(&server), "test.yaml", &file("test", 9));
    until_seen(&mut client, "ann", "OK, OK 8");
    // Another file is added, and then removed.
    write(&directory(&server), "more.yml", &file("more", 3));
    let more = tollgate_e2e::grpc::request("more", &[&["user=ann"]]);
    until("the new domain", || {
        let answer = client.should_rate_limit(&more);
        (answer["dynamic_metadata"]["rule_id"] == "more.user").then_some(())
    });
    fs::remove_file(directory(&server).join("more.yml")).expect("removed");
    until("the end of the domain", || {
        let answer = client.should_rate_limit(&more);
        (answer["dynamic_metadata"]["rule_id"] != "more.user").then_some(())
    });
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 7");
}

#[test]
fn a_mistake_leaves_the_last_good_files_in_force() {
    let server = start(&file("test", 5));
    let mut client = Client::of(&server);
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 4");
    let broken = file("test", 9).replace("year", "fortnight");
    write(&directory(&server), "test.yaml", &broken);
    let log = until("word of the mistake", || {
        Some(server.process.errors()).filter(|log| log.contains("fortnight"))
    });
    let place = format!("{}: line 5, column 13: ", directory(&server).join("test.yaml").display());
    assert!(log.contains(&place), "no {place} in {log}");
    assert!(log.contains("the last good ones stay in force"), "{log}");
    assert!(server.figure("tollgate_config_errors_total") >= 1.0);
    assert_eq!(ask(&mut client, &[&["user=ann"]]), "OK, OK 3");
    // All files of a set are valid, or none is loaded.
    write(&directory(&server), "more.yaml", &file("more", 3));
    server.process.signal("HUP");
    until("another word of the mistake", || {
        (server.process.errors().matches("fortnight").count() > log.matches("fortnight").count())
            .then_some(())
    });
    let more = client.should_rate_limit(&tollgate_e2e::grpc::request("more", &[&["user=ann"]]));
    assert_ne!(more["dynamic_metadata"]["rule_id"], "more.user", "{more}");
    // SIGHUP reloads at once.
    fs::write(directory(&server).join("test.yaml"), file("test", 7)).expect("written");
    server.process.signal("HUP");
    until_seen(&mut client, "ann", "OK, OK 5");
    assert_eq!(server.get("/health/ready").status, 200);
}

#[test]
fn invalid_files_stop_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("files");
    let check = |directory: &Path, expected: &[&str]| {
        let path = directory.to_str().expect("a readable path");
        let setup = Setup { arguments: &["--envoy-config", path], ..Setup::default() };
        let mut process = Process::start(&mut command(&setup, folder.path()));
        assert_eq!(process.end().code(), Some(2), "{}", process.output());
        let errors = process.errors();
        for expected in expected {
            assert!(errors.contains(expected), "no {expected:?} in {errors}");
        }
        assert_eq!(process.output(), "");
    };
    check(&files, &["files", "--envoy-config", "No such file"]);
    fs::create_dir(&files).expect("a directory");
    check(&files, &["there is no file in it"]);
    fs::write(files.join("notes.txt"), "no limits").expect("written");
    check(&files, &["notes.txt: line 1, column 1: "]);
    fs::remove_file(files.join("notes.txt")).expect("removed");
    write(&files, "a.yaml", &file("test", 5));
    write(&files, "b.yaml", &file("test", 5));
    check(&files, &["b.yaml: line 1, column 9: ", "test"]);
    write(&files, "b.yaml", "domain: [");
    check(&files, &["b.yaml: line 1, "]);
    check(&files.join("a.yaml"), &["a.yaml", "--envoy-config"]);
}
