//! `tollgate simulate --store`: what a store cannot count is said before anything is read or connected to.

use std::fmt::Write as _;
use std::fs;

use super::tollgate;

#[test]
fn rules_that_redis_cannot_count_are_refused_for_it_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    let mut rules = "rules:\n".to_owned();
    for number in 0..65 {
        writeln!(rules, "- {{rule_id: r{number}, limit: 9, window: 1m, identifier_type: user_id}}")
            .expect("a text");
    }
    fs::write(&file, rules).expect("written");
    let simulate = |store: &str| {
        let path = file.to_str().expect("a path");
        tollgate(&["simulate", "--rules", path, "--store", store, "-"], "")
    };
    let ran = simulate("redis://127.0.0.1:9");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("at most 64 rules"), "{}", ran.stderr);
    assert!(ran.stderr.contains("rules.yaml:66"), "{}", ran.stderr);
    let ran = simulate("memory:");
    assert!(!ran.stderr.contains("at most 64 rules"), "{}", ran.stderr);
}
