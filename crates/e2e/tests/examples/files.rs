//! Which test runs which example, and that those without one say so and can at least be parsed.

use std::fs;
use std::path::Path;

use tollgate_e2e::program::{python, root};

/// Examples, each with the test that runs it, or the page whose sessions are run.
const TESTED: [(&str, &str); 11] = [
    ("access.log", "docs/simulate.md"),
    ("envoy-ext-authz-grpc.yaml", "crates/e2e/tests/service/envoy.rs"),
    ("envoy-ext-authz.yaml", "crates/e2e/tests/service/envoy.rs"),
    ("envoy-ratelimit.yaml", "crates/e2e/tests/service/rls/proxy.rs"),
    ("fleet/policy.yaml", "crates/e2e/tests/examples/fleet.rs"),
    ("gateway/policy.yaml", "crates/e2e/tests/gateway/example.rs"),
    ("gateway/tollgate.yaml", "crates/e2e/tests/gateway/example.rs"),
    ("nginx.conf", "crates/e2e/tests/service/nginx.rs"),
    ("policy.test.yaml", "docs/testing-rules.md"),
    ("policy.yaml", "docs/simulate.md"),
    ("ratelimit/shop.yaml", "crates/e2e/tests/service/rls/proxy.rs"),
];

/// Examples for programs that the tests do not have.
const UNTESTED: [&str; 5] = [
    "envoy-gateway/security-policy.yaml",
    "istio/authorization-policy.yaml",
    "istio/mesh.yaml",
    "kong/kong.yaml",
    "traefik/dynamic.yaml",
];

/// The comment in them, which the version follows that they were written for.
const ADMISSION: &str = "\n# Not exercised by a test. Written against the documentation of ";

/// Reads files that may hold several documents, none of which is empty.
const READ: &str = "
import sys, yaml
for name in sys.argv[1:]:
    documents = list(yaml.safe_load_all(open(name)))
    assert documents and all(documents), name
";

/// Scenarios of policies: crates/e2e/tests/scenarios runs all that are in the folder, without naming them.
const SCENARIOS: &str = "/policy.test.yaml";

/// All examples, by their paths below the folder.
fn examples() -> Vec<String> {
    fn collect(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an example").path();
            let name = path.file_name().expect("a name").to_string_lossy();
            let name = format!("{prefix}{name}");
            if path.is_dir() {
                collect(&path, &format!("{name}/"), found);
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    collect(&root().join("examples"), "", &mut found);
    found.sort_unstable();
    found
}

fn text_of(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_example_has_a_test_or_says_that_it_has_none() {
    let tested = TESTED.iter().map(|(example, _)| *example);
    let mut listed: Vec<&str> = tested.chain(UNTESTED).collect();
    listed.sort_unstable();
    let mut found = examples();
    found.retain(|example| !example.ends_with(SCENARIOS));
    assert_eq!(found, listed);
    for (example, test) in TESTED {
        // Some tests name the file, others its folder.
        let named = example
            .split_once('/')
            .map_or_else(|| example.to_owned(), |(folder, _)| format!("examples/{folder}"));
        assert!(text_of(test).contains(&named), "{test} does not name {named}");
        let is_admitted = text_of(&format!("examples/{example}")).contains(ADMISSION);
        assert!(!is_admitted, "{example} says that it has no test");
    }
    let page = text_of("docs/proxies.md");
    for example in UNTESTED {
        let text = text_of(&format!("examples/{example}"));
        let version = text.split_once(ADMISSION).and_then(|(_, rest)| rest.split('\n').next());
        let is_reported =
            version.is_some_and(|version| version.contains(|c: char| c.is_ascii_digit()));
        assert!(is_reported, "{example} does not say which version it was written for");
        assert!(page.contains(&format!("](../examples/{example})")), "no link to {example}");
    }
}

#[test]
fn every_example_in_yaml_can_be_read() {
    let all = examples();
    let yaml = all.iter().filter(|name| name.ends_with(".yaml"));
    let ran = python()
        .args(["-c", READ])
        .args(yaml.map(|name| root().join("examples").join(name)))
        .output()
        .expect("Python runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let readme = text_of("README.md");
    let (_, rest) = readme.split_once("```rust\n").expect("code in README.md");
    let (shown, _) = rest.split_once("```").expect("its end");
    let inside_of_main: String = shown.lines().map(|line| format!("    {line}\n")).collect();
    assert!(text_of("crates/tollgate/examples/fleet.rs").contains(&inside_of_main), "{shown}");
}
