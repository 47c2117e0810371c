//! What the documents show must work: every policy in them is clean, all settings can be used, every
//! session prints what is shown, and every field is explained. `UPDATE_DOCS=1 cargo test --test docs`
//! writes sessions anew.

mod codes;
mod moments;
mod recipes;
mod server;
mod settings;

use std::env;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use moments::without_moments;
use server::{PageServer, is_asked};
use tollgate_e2e::server::binary;

/// The first line of a block of settings.
const SETTINGS: &str = "# tollgate.yaml\n";
/// The beginning of a file of envoyproxy/ratelimit, which is read when the server of its page starts.
/// Any other block of YAML is a policy, or scenarios for one.
const FOR_ENVOY: &str = "# ratelimit/";
/// The end of the first line of scenarios, which sessions of their page run.
const SCENARIOS: &str = ".test.yaml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// README.md and everything in docs, with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let pages = fs::read_dir(root().join("docs")).expect("the folder of documents");
    pages
        .map(|page| page.expect("a page").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .chain([root().join("README.md")])
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a text")))
        .collect()
}

/// The fenced blocks of that language, each with the number of the line it begins in.
fn blocks(text: &str, language: &str) -> Vec<(usize, String)> {
    let opening = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == opening {
            let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            blocks.push((number + 2, inside.flat_map(|line| [line, "\n"]).collect()));
        }
    }
    blocks
}

fn tollgate(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // A policy of the documents fits into the buffer of the pipe.
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("the binary ends")
}

#[test]
fn every_policy_in_the_documents_is_clean() {
    let mut found = 0;
    let mut wrong = String::new();
    for (path, text) in documents() {
        for (line, policy) in blocks(&text, "yaml") {
            let is_scenarios = policy.lines().next().is_some_and(|line| line.ends_with(SCENARIOS));
            if policy.starts_with(SETTINGS) || policy.starts_with(FOR_ENVOY) || is_scenarios {
                continue;
            }
            found += 1;
            let ran = tollgate(&["rules", "lint", "--strict", "-"], &policy);
            if !ran.status.success() {
                let problems = String::from_utf8_lossy(&ran.stdout);
                wrong += &format!("{}, the block at line {line}:\n{problems}\n", path.display());
            }
        }
    }
    for example in ["policy.yaml", "gateway/policy.yaml", "fleet/policy.yaml"] {
        let path = root().join("examples").join(example);
        let ran = tollgate(&["rules", "lint", "--strict", &path.to_string_lossy()], "");
        if !ran.status.success() {
            wrong += &String::from_utf8_lossy(&ran.stdout);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(found >= 10, "only {found} policies were found; are they still fenced as yaml?");
}

#[test]
fn all_settings_in_the_documents_can_be_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tollgate.yaml");
    let mut found = 0;
    for (path, text) in documents() {
        for (line, settings) in blocks(&text, "yaml") {
            if settings.starts_with(SETTINGS) {
                found += 1;
                fs::write(&file, &settings).expect("written");
                let ran = tollgate(&["config", "--config", &file.to_string_lossy()], "");
                let place = format!("{}, the block at line {line}", path.display());
                assert!(ran.status.success(), "{place}: see above");
            }
        }
    }
    assert!(found >= 3, "only {found} settings were found; do they still begin with {SETTINGS:?}?");
}

/// The names in the first column of the tables under a heading.
fn told_under(page: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let (_, section) = text.split_once(heading).unwrap_or_else(|| panic!("no {heading} in {page}"));
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let first_columns =
        section.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let quoted = first_columns.flat_map(|column| column.split('`').skip(1).step_by(2));
    quoted.map(str::to_owned).collect()
}

#[test]
fn serve_md_lists_every_setting_and_metric() {
    let ran = tollgate(&["config", "--json"], "");
    let settings: Value = serde_json::from_slice(&ran.stdout).expect("settings");
    let told = told_under("docs/serve.md", "\n## All settings\n");
    for name in settings.as_object().expect("names").keys() {
        assert!(told.contains(name), "docs/serve.md does not list {name}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = PageServer::start(folder.path());
    let told = told_under("docs/serve.md", "\n## Metrics\n");
    let figures = run("$ curl -s http://127.0.0.1:8080/metrics", folder.path(), Some(&server));
    let families: Vec<&str> = figures
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    assert!(families.len() > 10, "{figures}");
    for family in families {
        let is_reported = told.iter().any(|name| name.starts_with(family));
        assert!(is_reported, "docs/serve.md does not tell {family}");
    }
}

#[test]
fn the_reference_explains_every_field() {
    let ran = tollgate(&["rules", "schema"], "");
    let schema: Value = serde_json::from_slice(&ran.stdout).expect("a schema");
    let reference = fs::read_to_string(root().join("docs/rules.md")).expect("the reference");
    let (_, reference) = reference.split_once("\n## Reference\n").expect("its heading");
    let shapes = schema["$defs"].as_object().expect("the shapes").values().chain([&schema]);
    let fields =
        shapes.filter_map(|shape| shape["properties"].as_object()).flat_map(|it| it.keys());
    for field in fields {
        let is_reported =
            [format!("`{field}`"), format!(".{field}`")].iter().any(|it| reference.contains(it));
        assert!(is_reported, "docs/rules.md does not explain {field}");
    }
}

/// The commands of a session, each with what the document says it prints. A command begins with
/// `$ ` and goes on with `> `.
fn commands(session: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in session.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command.to_owned(), String::new()));
        } else if let Some((command, output)) = commands.last_mut() {
            match line.strip_prefix("> ").filter(|_| output.is_empty()) {
                Some(more) => *command += &format!("\n{more}"),
                None => *output += &format!("{line}\n"),
            }
        }
    }
    commands
}

/// A folder in which the binary has the name that documents call it by.
fn folder_with_tollgate() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs");
    fs::create_dir_all(&folder).expect("a folder");
    match symlink(binary(), folder.join("tollgate")) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => folder,
    }
}

/// What a session really prints, in the form it has in a document.
fn run(session: &str, folder: &Path, server: Option<&PageServer>) -> String {
    let commands_here = folder_with_tollgate();
    let path = format!("{}:{}", commands_here.display(), env::var("PATH").unwrap_or_default());
    let mut shown = String::new();
    for (command, _) in commands(session) {
        let here = server.map_or_else(|| command.clone(), |server| server.to_here(&command));
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec 2>&1\n{here}")]).current_dir(folder).env("PATH", &path);
        if let Some(server) = server {
            server.serve(&mut bash);
        }
        let ran = bash.output().expect("bash runs");
        // Headers end in carriage returns.
        let output = String::from_utf8_lossy(&ran.stdout).replace('\r', "");
        let output = server.map_or_else(|| output.clone(), |server| server.to_document(&output));
        let typed = command.replace('\n', "\n> ");
        shown += &format!("$ {typed}\n{output}");
        shown.truncate(shown.trim_end().len());
        shown += "\n";
    }
    shown
}

#[test]
fn every_session_in_the_documents_prints_what_is_shown() {
    let update = env::var_os("UPDATE_DOCS").is_some();
    let mut found = 0;
    let mut wrong = String::new();
    for (path, text) in documents() {
        let folder = tempfile::tempdir().expect("a folder");
        symlink(root().join("examples"), folder.path().join("examples")).expect("a link");
        // A policy that begins with a file name is that file to the sessions of its page.
        for (_, policy) in blocks(&text, "yaml") {
            let name = policy.lines().next().and_then(|line| line.strip_prefix("# "));
            if let Some(name) = name.filter(|name| name.ends_with(".yaml")) {
                let file = folder.path().join(name);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
                fs::write(file, &policy).expect("written");
            }
        }
        let mut updated = text.clone();
        let sessions = blocks(&text, "console");
        let is_served = sessions.iter().any(|(_, session)| is_asked(session));
        let server = is_served.then(|| PageServer::start(folder.path()));
        for (line, session) in sessions {
            found += 1;
            let seen = run(&session, folder.path(), server.as_ref());
            let is_same = match is_asked(&session) {
                true => without_moments(&seen) == without_moments(&session),
                false => seen == session,
            };
            if !is_same {
                wrong += &format!("{}, the block at line {line}, now:\n{seen}\n", path.display());
                updated = updated.replace(&session, &seen);
            }
        }
        if update && updated != text {
            fs::write(path, updated).expect("written");
        }
    }
    assert!(update || wrong.is_empty(), "{wrong}");
    assert!(found >= 10, "only {found} sessions were found; are they still fenced as console?");
}
