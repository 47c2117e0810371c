//! Several files are one document, and problems are shown in the file and line they are in.

use crate::command::TestServer;

const RULE: &str = "{rule_id: a, limit: 5, window: 1m, identifier_type: user_id}";

#[test]
fn a_folder_is_one_document() {
    let desk = TestServer::with("rules: []");
    desk.file(
        "rules/20.yml",
        "overrides: [{rule_id: a, identifier_type: user_id, identifier: eve, limit: 9}]",
    );
    desk.file("rules/10.yaml", &format!("rules: [{RULE}]"));
    desk.file("rules/30.json", r#"{"rules": [{"rule_id": "b", "limit": 1, "window": "1s", "identifier_type": "ip", "replaces": ["a"]}]}"#);
    desk.file("rules/.hidden.yaml", "this is no policy");
    desk.file("rules/notes.txt", "nor is this");
    desk.file("rules/deeper/40.yaml", "neither is this");
    desk.file("more.yaml", "tiers: [{tier: free}]");
    desk.tollgate("rules apply -f rules -f more.yaml --yes").expect(
        0,
        &["+ rule a\n", "+ rule b\n", "+ override a user_id eve\n", "+ tier free\n", "4 created"],
    );
    desk.tollgate("rules diff -f more.yaml -f rules/ --prune").expect(0, &["nothing to change"]);
}

#[test]
fn problems_are_shown_where_they_were_written() {
    let desk = TestServer::with("rules: []");
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        let names: Vec<String> = files
            .iter()
            .map(|(name, text)| {
                desk.file(name, text);
                format!("-f {name}")
            })
            .collect();
        let names = names.join(" ");
        for command in ["apply --yes", "diff"] {
            let ran = desk.tollgate(&format!("rules {command} {names}")).expect(2, expected);
            assert_eq!(ran.stdout, "");
        }
    };
    check(
        &[("a.yaml", "rules:\n  - {rule_id: a, limit: five, window: 1m, identifier_type: ip}\n")],
        &[
            "the files cannot be used: 1 problem\n",
            "rule a, limit: ",
            "--> a.yaml:2:25\n",
            "2 |   - {rule_id: a, limit: five",
        ],
    );
    // Files that cannot be parsed are reported together.
    check(
        &[("a.yaml", "rules: 5"), ("b.json", "{\"rules\": [}")],
        &["2 problems", "--> a.yaml:1:8", "--> b.json:1:12"],
    );
    // Problems between files.
    check(
        &[
            ("a.yaml", &format!("rules:\n  - {RULE}\n")),
            (
                "b.yaml",
                "# Exceptions\noverrides:\n  - {rule_id: a, identifier_type: ip, identifier: 192.0.2.1, burst: 5}\n",
            ),
        ],
        &["overrides[0]", "--> b.yaml:3:"],
    );
    check(
        &[
            ("a.yaml", "tiers: [{tier: free, default: true}]"),
            ("b.yaml", "rules: []\ntiers:\n  - {tier: pro, default: true}\n"),
        ],
        &["free is the default already", "--> b.yaml:3:26\n"],
    );
    // The same entry in two files is a problem, in every notation.
    check(
        &[
            ("a.yaml", &format!("rules:\n  - {RULE}\n")),
            ("b.yaml", &format!("# again\nrules:\n  - {RULE}\n")),
        ],
        &[
            "rule a: the same entry is at a.yaml:2:5 too\n",
            "--> b.yaml:3:5\n",
            "= help: keep one of the two",
        ],
    );
    check(
        &[
            ("a.yaml", "blacklist: [{identifier_type: ip, identifier: '2001:db8::1'}]"),
            ("b.yaml", "blacklist: [{identifier_type: ip, identifier: '2001:DB8:0::1'}]"),
        ],
        &["the same entry is at a.yaml:1:13 too", "--> b.yaml:1:13"],
    );
    check(
        &[("a.yaml", &format!("rules: [{RULE}, {RULE}]"))],
        &["the rule_id a is there twice", "--> a.yaml:1:"],
    );
}

#[test]
fn files_that_are_not_there() {
    let desk = TestServer::with("rules: []");
    std::fs::create_dir(desk.folder().join("empty")).expect("a folder");
    let check = |arguments: &str, expected: &str| {
        desk.tollgate(&format!("rules diff {arguments}")).expect(2, &[expected]);
    };
    check("-f nowhere.yaml", "cannot read nowhere.yaml: ");
    check("-f empty", "there is no .yaml, .yml or .json file in empty");
    check("", "--file <FILE|DIR>");
}

#[test]
fn files_may_refer_to_what_the_server_has() {
    let desk =
        TestServer::with(&format!("rules: [{RULE}]\ntiers: [{{tier: free}}, {{tier: pro}}]"));
    desk.file(
        "more.yaml",
        "\
tiers: [{tier: gold}]
rules:
  - rule_id: b
    limit: 1
    window: 1s
    identifier_type: user_id
    replaces: [a]
    applies_to: {user_tiers: [pro, gold]}
clients: [{identifier_type: user_id, identifier: eve, tier: pro}]
overrides: [{rule_id: a, identifier_type: user_id, identifier: eve, limit: 9}]
",
    );
    desk.tollgate("rules apply -f more.yaml --yes").expect(0, &["4 created"]);
    // What the server does not have either is its error, shown with the line.
    desk.file("wrong.yaml", "rules:\n  - rule_id: c\n    limit: 1\n    window: 1s\n    identifier_type: ip\n    replaces: [nope]\n");
    desk.tollgate("rules apply -f wrong.yaml --yes").expect(
        1,
        &[
            "the server does not take it (invalid_document): 1 problem",
            "there is no rule `nope`",
            "--> wrong.yaml:6:",
        ],
    );
    desk.tollgate("rules diff -f wrong.yaml").expect(2, &["--> wrong.yaml:6:"]);
    desk.file("wrong.yaml", "clients: [{identifier_type: user_id, identifier: eve, tier: nope}]");
    desk.tollgate("rules apply -f wrong.yaml --yes")
        .expect(1, &["error: ", "there is no tier `nope`"]);
}

#[test]
fn standard_input_is_a_file() {
    use std::io::Write as _;
    let desk = TestServer::with("rules: []");
    let mut child = desk
        .command("rules apply -f - --yes")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(format!("rules: [{RULE}]").as_bytes()).expect("written");
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(desk.rules(), ["a"]);
}
