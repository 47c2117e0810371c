//! Every policy of the examples and of the documents does what its scenarios say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tollgate_e2e::program::root;
use tollgate_e2e::server::binary;

/// The policies among the examples: `policy.yaml` in any folder.
fn examples() -> Vec<String> {
    let (mut folders, mut found) = (vec![root().join("examples")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("policy.yaml") {
                let path = path.strip_prefix(root()).expect("below the root");
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    assert!(found.len() >= 3, "only {found:?} were found");
    found
}

fn test(arguments: &[&str]) -> Output {
    Command::new(binary()).arg("test").args(arguments).output().expect("the binary runs")
}

fn check(arguments: &[&str]) {
    let ran = test(arguments);
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{arguments:?}\n{out}{err}");
}

fn scenarios_of(policy: &str) -> String {
    root().join(policy.replace(".yaml", ".test.yaml")).to_string_lossy().into_owned()
}

#[test]
fn examples_do_what_their_scenarios_say() {
    for policy in examples() {
        let scenarios = scenarios_of(&policy);
        assert!(Path::new(&scenarios).exists(), "{policy} has no scenarios: write {scenarios}");
        check(&[&scenarios]);
    }
}

/// A scenario that passes whatever the rules are would prove nothing.
#[test]
fn scenarios_of_examples_notice_other_limits() {
    let folder = tempfile::tempdir().expect("a folder");
    for policy in examples() {
        let text = fs::read_to_string(root().join(&policy)).expect("a policy");
        let limits: Vec<&str> =
            text.lines().filter(|line| line.trim_start().starts_with("limit:")).collect();
        assert!(!limits.is_empty(), "{policy}");
        for limit in limits {
            let other = folder.path().join("other.yaml");
            fs::write(&other, text.replacen(limit, &format!("{limit}1"), 1)).expect("written");
            let ran = test(&["--rules", &other.to_string_lossy(), &scenarios_of(&policy)]);
            assert_eq!(ran.status.code(), Some(1), "{policy} with {limit}1");
        }
    }
}

/// The policies of a page: the name in the first line of each, or `policy`, and its text.
fn policies(page: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(page).expect("a page");
    let blocks = text.split("\n```yaml\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("\n```").next());
    let blocks = blocks.filter(|block| {
        let first = block.lines().next().unwrap_or_default();
        first != "# tollgate.yaml"
            && !first.starts_with("# ratelimit/")
            && !first.ends_with(".test.yaml")
    });
    blocks
        .map(|block| {
            let first = block.lines().next().unwrap_or_default();
            let name = first.strip_prefix("# ").and_then(|name| name.strip_suffix(".yaml"));
            (name.unwrap_or("policy").to_owned(), block.to_owned())
        })
        .collect()
}

#[test]
fn policies_of_the_documents_do_what_their_scenarios_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenarios = root().join("crates/e2e/tests/scenarios/docs");
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .expect("the documents")
        .map(|page| page.expect("a page").path())
        .filter(|page| page.extension().is_some_and(|ending| ending == "md"))
        .collect();
    pages.sort();
    let mut found = 0;
    for page in pages {
        let stem = page.file_stem().expect("a name").to_string_lossy().into_owned();
        for (name, policy) in policies(&page) {
            let tests = scenarios.join(&stem).join(format!("{name}.test.yaml"));
            assert!(
                tests.exists(),
                "{stem}.md: {name} has no scenarios: write {}",
                tests.display()
            );
            let file = folder.path().join("policy.yaml");
            fs::write(&file, policy).expect("written");
            check(&["--rules", &file.to_string_lossy(), &tests.to_string_lossy()]);
            found += 1;
        }
    }
    assert!(found >= 20, "only {found} policies were found; are they still fenced as yaml?");
}
