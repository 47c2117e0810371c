//! What the documents show must work: every policy in them is clean, and every field is explained.

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
