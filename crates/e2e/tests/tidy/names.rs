//! One name, one thing; and every file in a room.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::{root, sources, without_tests};

/// The type that a line declares, if it does and is not inside a function.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest)
    });
    let (keyword, rest) = line.trim_start_matches(' ').split_once(' ')?;
    let is_type = matches!(keyword, "struct" | "enum" | "union" | "trait" | "type");
    is_type.then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()).flatten()
}

#[test]
fn no_type_name_is_used_twice_within_a_crate() {
    let mut places = BTreeMap::<(String, String), Vec<PathBuf>>::new();
    for (path, text) in sources() {
        let path = path.strip_prefix(root()).unwrap_or(&path).to_owned();
        let mut parts = path.iter().skip(1).map(|part| part.to_string_lossy());
        let (Some(name), Some(folder)) = (parts.next(), parts.next()) else { continue };
        if folder != "src" || path.ends_with("tests.rs") {
            continue;
        }
        for line in text.lines().take(without_tests(&text)) {
            if line.starts_with(' ') {
                continue;
            }
            if let Some(declared) = declared(line) {
                let key = (name.clone().into_owned(), declared.to_owned());
                places.entry(key).or_default().push(path.clone());
            }
        }
    }
    assert!(places.len() > 900, "{} types were found", places.len());
    let twice: Vec<_> = places.iter().filter(|(_, places)| places.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}

#[test]
fn the_server_has_no_loose_files() {
    let folder = root().join("crates/server/src");
    for entry in fs::read_dir(folder).expect("the sources of the server") {
        let entry = entry.expect("an entry");
        let is_room = entry.path().join("mod.rs").exists();
        assert!(
            is_room || entry.file_name() == "lib.rs",
            "{} is in no room",
            entry.path().display()
        );
    }
}
