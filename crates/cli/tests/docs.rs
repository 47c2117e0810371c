//! What the documents show must work: every policy in them is clean, every session is what one sees,
//! and every field is explained. `UPDATE_DOCS=1 cargo test --test docs` writes sessions anew.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

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
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
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
            found += 1;
            let ran = tollgate(&["rules", "lint", "--trusted-proxies", "-"], &policy);
            if !ran.status.success() {
                let problems = String::from_utf8_lossy(&ran.stdout);
                wrong += &format!("{}, the block at line {line}:\n{problems}\n", path.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(found >= 10, "only {found} policies were found; are they still fenced as yaml?");
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
        let is_told =
            [format!("`{field}`"), format!(".{field}`")].iter().any(|it| reference.contains(it));
        assert!(is_told, "docs/rules.md does not explain {field}");
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

/// What a session really prints, in the form it has in a document.
fn run(session: &str, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().expect("its folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shown = String::new();
    for (command, _) in commands(session) {
        let script = format!("exec 2>&1\n{command}");
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(folder)
            .env("PATH", &path)
            .output()
            .expect("bash runs");
        let typed = command.replace('\n', "\n> ");
        shown += &format!("$ {typed}\n{}", String::from_utf8_lossy(&ran.stdout));
        shown.truncate(shown.trim_end().len());
        shown += "\n";
    }
    shown
}

#[test]
fn every_session_in_the_documents_is_what_one_sees() {
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut found = 0;
    let mut wrong = String::new();
    for (path, text) in documents() {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples"))
            .expect("a link");
        // A policy that begins with a file name is that file to the sessions of its page.
        for (_, policy) in blocks(&text, "yaml") {
            let name = policy.lines().next().and_then(|line| line.strip_prefix("# "));
            if let Some(name) = name.filter(|name| name.ends_with(".yaml")) {
                fs::write(folder.path().join(name), &policy).expect("written");
            }
        }
        let mut updated = text.clone();
        for (line, session) in blocks(&text, "console") {
            found += 1;
            let seen = run(&session, folder.path());
            if seen != session {
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
