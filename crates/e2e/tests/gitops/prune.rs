//! `--prune` removes entries that are not in the files, and only of lists that the files have.

use crate::command::TestServer;

const BEGIN: &str = "\
rules:
  - {rule_id: a, limit: 5, window: 1m, identifier_type: user_id}
  - {rule_id: b, limit: 5, window: 1m, identifier_type: user_id}
blacklist: [{identifier_type: ip, identifier: 192.0.2.1}, {identifier_type: ip, identifier: 192.0.2.2}]
whitelist: [{identifier_type: user_id, identifier: root}]
";

#[test]
fn lists_that_are_in_the_files_are_pruned() {
    let desk = TestServer::with(BEGIN);
    let check = |policy: &str, flags: &str, expected: &[&str], left: (usize, usize, usize)| {
        desk.file("policy.yaml", policy);
        let code = i32::from(!expected.is_empty());
        desk.tollgate(&format!("rules diff -f policy.yaml {flags}")).expect(code, expected);
        desk.tollgate(&format!("rules apply -f policy.yaml --yes {flags}")).expect(0, expected);
        let policy = desk.policy();
        let count = |list: &str| policy[list].as_array().map_or(0, Vec::len);
        assert_eq!((count("rules"), count("blacklist"), count("whitelist")), left, "{policy}");
    };
    let only_a = "rules: [{rule_id: a, limit: 5, window: 1m, identifier_type: user_id}]";
    check(only_a, "", &[], (2, 2, 1));
    check(only_a, "--prune", &["- rule b\n", "0 to create, 0 to update, 1 to delete"], (1, 2, 1));
    let one_listed = "blacklist: [{identifier_type: ip, identifier: 192.0.2.1}]";
    check(one_listed, "--prune", &["- blacklist ip 192.0.2.2\n"], (1, 1, 1));
    // An empty list counts as present, in either notation.
    check("{\"whitelist\": []}", "--prune", &["- whitelist user_id root\n"], (1, 1, 0));
    check(
        "rules: []\nblacklist: []\n",
        "--prune",
        &["- rule a\n", "- blacklist ip 192.0.2.1\n"],
        (0, 0, 0),
    );
    check("{}", "--prune", &[], (0, 0, 0));
}
