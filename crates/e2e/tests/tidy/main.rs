//! The rules of the house, as far as a program can check them.

mod names;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// Longer files hold more than one idea.
const MAX_LINES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                files(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root().join("crates"), ".rs", &mut found);
    found
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(path).expect("a text")))
        .collect()
}

/// Everything up to the unit tests, which stand at the end of a file.
fn without_tests(text: &str) -> usize {
    text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count()
}

#[test]
fn every_file_says_why_it_exists_and_holds_one_idea() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if !text.starts_with("//! ") {
            wrong.push(format!("{} does not begin with //!", path.display()));
        }
        let lines = without_tests(&text);
        let is_source = path.components().any(|part| part.as_os_str() == "src");
        if is_source && lines > MAX_LINES {
            wrong.push(format!("{} has {lines} lines, {MAX_LINES} are allowed", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A newcomer finds tests in one way: `tests/NAME/main.rs`, with its files beside it.
#[test]
fn tests_have_one_layout() {
    let by_path = concat!("#[pa", "th");
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let is_loose = path.parent().is_some_and(|folder| folder.ends_with("tests"));
        if is_loose || text.contains(by_path) {
            wrong.push(path.display().to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_undone() {
    let words =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("#[ig", "nore")];
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_map_shows_every_crate_and_no_other() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut crates: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("the crates")
        .map(|entry| entry.expect("a crate").file_name().to_string_lossy().into_owned())
        .collect();
    crates.sort_unstable();
    for name in &crates {
        assert!(map.contains(&format!("crates/{name}")), "ARCHITECTURE.md does not name {name}");
    }
    for word in map.split(|c: char| !(c.is_alphanumeric() || "/_.-".contains(c))) {
        let word = word.trim_end_matches('.');
        if word.starts_with("crates/") || word.starts_with("docs/") || word.starts_with("scripts/")
        {
            assert!(root().join(word).exists(), "ARCHITECTURE.md names {word}, which is not there");
        }
    }
}

/// The map is read in three minutes.
#[test]
fn the_map_fits_on_a_page() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    assert!(map.lines().count() <= 120, "ARCHITECTURE.md has {} lines", map.lines().count());
}

/// A step of a walk is a function, and the file that it is in.
#[test]
fn functions_of_the_walks_are_in_the_files_beside_them() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let (_, walks) = map.split_once("## Five walks").expect("the walks");
    let (walks, _) = walks.split_once("\n## ").expect("a heading after the walks");
    let mut steps = 0;
    for line in walks.lines() {
        let mut words = line.split_whitespace();
        let (Some(function), Some(file)) = (words.next(), words.next()) else { continue };
        if !file.starts_with("crates/") {
            continue;
        }
        steps += 1;
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let (owner, name) = function.split_once("::").unwrap_or(("", function));
        let is_there = [format!("fn {name}("), format!("fn {name}<")];
        assert!(is_there.iter().any(|it| text.contains(it)), "{file} has no function {name}");
        assert!(text.contains(owner), "{file} has no {owner}");
    }
    assert!(steps >= 20, "{steps} steps were found");
}

/// Files that match on all algorithms are those that the map names for a new one.
#[test]
fn the_map_names_the_files_for_a_new_algorithm() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let row = map.lines().find(|line| line.starts_with("| add an algorithm |")).expect("the row");
    let variants = ["TokenBucket", "LeakyBucket", "Gcra", "FixedWindow"];
    for (path, text) in sources() {
        let path = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
        if !path.contains("/src/") || path.starts_with("crates/bench/") {
            continue;
        }
        let tells_apart = variants.iter().all(|it| text.contains(&format!("::{it}")));
        assert_eq!(tells_apart, row.contains(&path), "{path}");
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = Vec::new();
    files(&root(), ".md", &mut documents);
    let mut wrong = Vec::new();
    for document in documents {
        let text = fs::read_to_string(&document).expect("a text");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let is_local = !target.is_empty() && !target.contains("://");
            if is_local && !document.parent().expect("a folder").join(target).exists() {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_clock_reads_the_clock() {
    let calls = ["Instant::now", "SystemTime::now", "UNIX_EPOCH"];
    for (path, text) in sources() {
        let may = path.ends_with("tollgate/src/clock.rs")
            || path.ends_with("store/src/remote/clock.rs")
            || path.ends_with("testbed/src/clock.rs")
            || path.ends_with("client/src/clock.rs")
            || path.ends_with("bench/src/stopwatch.rs")
            || path.ends_with("e2e/tests/tidy/main.rs");
        let reads = calls.iter().any(|call| text.contains(call));
        assert!(may || !reads, "{} reads the clock", path.display());
    }
}

#[test]
fn core_depends_on_nothing() {
    let manifest = fs::read_to_string(root().join("crates/core/Cargo.toml")).expect("a manifest");
    assert!(!manifest.contains("\n[dependencies]"), "core has a dependency");
}
