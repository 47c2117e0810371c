//! The schema of the settings file, against every settings file that the documents and examples show.

use std::fs;
use std::path::Path;

use tollgate_e2e::program::python;

use crate::{SETTINGS, blocks, documents, root, tollgate};

/// Prints what is wrong with each file by the schema; the schema is the first argument.
const VALIDATE: &str = r"
import json, sys, jsonschema_rs, yaml
validator = jsonschema_rs.Draft202012Validator(json.load(open(sys.argv[1])))
for file in sys.argv[2:]:
    for error in validator.iter_errors(yaml.safe_load(open(file))):
        print(f'{file}: {list(error.instance_path)}: {error.message}')
";

/// What is wrong with the files, by the schema that the command prints.
fn problems(folder: &Path, files: &[String]) -> String {
    let schema = folder.join("schema.json");
    fs::write(&schema, tollgate(&["config", "--schema"], "").stdout).expect("written");
    let ran = python().args(["-c", VALIDATE]).arg(&schema).args(files).output().expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn every_settings_file_matches_the_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = Vec::new();
    for (path, text) in documents() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        for (line, settings) in blocks(&text, "yaml") {
            if settings.starts_with(SETTINGS) {
                let file = folder.path().join(format!("{name}-{line}.yaml"));
                fs::write(&file, settings).expect("written");
                files.push(file.to_string_lossy().into_owned());
            }
        }
    }
    let example = root().join("examples/gateway/tollgate.yaml");
    files.push(example.to_string_lossy().into_owned());
    assert!(files.len() > 3, "only {files:?} were found");
    assert_eq!(problems(folder.path(), &files), "");
}

/// What the server refuses, as far as a schema can tell, and what it accepts.
#[test]
fn the_schema_refuses_what_the_server_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    for (settings, is_right) in [
        ("htpp: 127.0.0.1:80", false),
        ("limits: {body_bytes: 12MB}", false),
        ("limits: {batch_size: 0}", false),
        ("limits: 5", false),
        ("log: loud", false),
        ("admin_token: swordfish", false),
        ("otlp: {sample: 2}", false),
        ("identity: {known_api_keys: [{key: secret}]}", false),
        ("routes: [{path: /*}]", false),
        ("routes: [{path: /*, upstream: 'http://127.0.0.1:1'}]", true),
        ("limits:", true),
        ("memory: 8388608", true),
        ("authorize: {deny_status: 403}", true),
        ("audit: {decisions: off}", true),
        ("deny_cache: 0s", true),
        ("headers: []", true),
        ("identity: {trusted_proxies: 10.0.0.0/8, trusted_hops: null}", true),
    ] {
        let file = folder.path().join("tollgate.yaml");
        fs::write(&file, settings).expect("written");
        let file = file.to_string_lossy().into_owned();
        let ran = tollgate(&["config", "--config", &file], "");
        assert_eq!(ran.status.success(), is_right, "{settings}: the server");
        let problems = problems(folder.path(), &[file]);
        assert_eq!(problems.is_empty(), is_right, "{settings}: {problems}");
    }
}
