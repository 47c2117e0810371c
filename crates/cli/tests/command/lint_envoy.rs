//! `tollgate rules lint` on files of envoyproxy/ratelimit.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use super::tollgate;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    }

    fn text(&self) -> String {
        self.0.path().to_str().expect("a path").to_owned()
    }
}

fn file(domain: &str, more: &str) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: user\n    rate_limit: {{unit: day, requests_per_unit: 5{more}}}\n"
    )
}

#[track_caller]
fn check(arguments: &[&str], code: i32, expected: &[&str]) {
    let ran = tollgate(&[&["rules", "lint"], arguments].concat(), "");
    assert_eq!(ran.code, code, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    for expected in expected {
        assert!(ran.stdout.contains(expected), "no {expected:?} in {}", ran.stdout);
    }
}

#[test]
fn a_file_of_envoy_is_checked_by_its_own_reader() {
    let folder = Folder::new();
    let good = folder.write("good.yaml", &file("shop", ""));
    check(&[&good], 0, &["1 file: 0 errors, 0 warnings\n"]);
    let wrong = folder.write("wrong.yaml", &file("shop", "").replace("day", "fortnight"));
    check(&[&wrong], 1, &["wrong.yaml:4:24", "help: ", "1 file: 1 error, 0 warnings"]);
    check(&[&good, &wrong], 1, &["the domain \"shop\" is in ", "2 files: 2 errors, 0 warnings"]);
    let doubtful = folder.write("doubtful.yaml", &file("bank", ", replaces: [{name: nothing}]"));
    check(&[&doubtful], 0, &["doubtful.yaml:3:5", "\"nothing\"", "0 errors, 1 warning"]);
    check(&["--strict", &doubtful], 1, &["1 warning"]);
    let ran = tollgate(&["rules", "lint", "--json", &wrong], "");
    let problem: Value = serde_json::from_str(ran.stdout.trim()).expect("one line of JSON");
    assert_eq!(problem["field"], "descriptors[0].rate_limit.unit");
    assert_eq!((&problem["line"], &problem["severity"]), (&4.into(), &"error".into()));
    // Standard input has no name that tells what it is either.
    let ran = tollgate(&["rules", "lint", "-"], &file("shop", ""));
    assert_eq!((ran.code, &*ran.stdout), (0, "1 file: 0 errors, 0 warnings\n"), "{}", ran.stderr);
}

#[test]
fn a_folder_of_envoy_is_read_as_the_server_reads_it() {
    let folder = Folder::new();
    folder.write("a.yaml", &file("a", ""));
    folder.write("team/b", &file("b", ""));
    folder.write(".hidden", "nonsense: [");
    check(&[&folder.text()], 0, &["2 files: 0 errors, 0 warnings"]);
    folder.write("team/c", &file("a", "").replace("user", "tenant"));
    check(&[&folder.text()], 1, &["set envoy.merge_domains", "3 files: 1 error"]);
    check(&["--merge-domains", &folder.text()], 0, &["3 files: 0 errors"]);
    fs::remove_file(folder.path("a.yaml")).expect("removed");
    check(&["-f", &folder.text()], 0, &["2 files: 0 errors"]);
    // Every file counts, also one that is not YAML.
    folder.write("notes.yaml", "no: [");
    check(&[&folder.text()], 1, &["notes.yaml:1:", "3 files: 1 error"]);
}

#[test]
fn policies_and_files_of_envoy_are_distinguished() {
    let folder = Folder::new();
    let rule = "rules: [{rule_id: a, limit: 50, window: 1s, identifier_type: user}]\n";
    folder.write("policy.yaml", rule);
    folder.write("ratelimit.yaml", &file("a", "").replace("unit: day", "unti: day"));
    let expected =
        ["unknown identifier type `user`", "ratelimit.yaml:4:", "2 files: 4 errors, 0 warnings"];
    check(&[&folder.text()], 1, &expected);
    let empty = Folder::new();
    let ran = tollgate(&["rules", "lint", &empty.text()], "");
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("there is no .yaml, .yml or .json file in "), "{}", ran.stderr);
}

/// Both files are valid, and no command takes their folder.
#[test]
fn a_folder_with_policies_and_files_of_envoy_is_refused_as_serve_refuses_it() {
    let folder = Folder::new();
    let rule = "rules: [{rule_id: a, limit: 50, window: 1s, identifier_type: user_id}]\n";
    let policy = folder.write("policy.yaml", rule);
    let envoy = folder.write("ratelimit.yaml", &file("a", ""));
    let expected = ["ratelimit.yaml", "reads every file of it", "2 files: 1 error, 0 warnings"];
    check(&[&folder.text()], 1, &expected);
    let served = tollgate(
        &[
            "serve",
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--envoy-config",
            &folder.text(),
        ],
        "",
    );
    assert_eq!(served.code, 2, "{}", served.stdout);
    assert!(served.stderr.contains("policy.yaml: "), "{}", served.stderr);
    // One by one, they say what each of them is.
    check(&[&policy, &envoy], 0, &["2 files: 0 errors"]);
}
