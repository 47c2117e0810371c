//! Configurations of nginx are imported as a valid policy.

use serde_json::{Value, json};

use crate::support::{tollgate, write};

const SHOP: &str = "\
http {
    limit_req_zone $binary_remote_addr zone=perip:10m rate=10r/s;
    limit_req_zone $binary_remote_addr zone=login:10m rate=6r/m;
    limit_req_zone $cookie_session zone=session:10m rate=1r/s;
    limit_req_status 429;

    server {
        server_name shop.example;
        limit_req zone=perip burst=20 nodelay;

        location = /login {
            limit_req zone=login burst=5;
        }
        location /cart/ {
            limit_req zone=perip burst=20 nodelay;
            limit_req zone=session;
        }
        location = /health {
            return 204;
        }
    }
}
";

fn import(arguments: &[&str], input: &str) -> crate::support::Ran {
    tollgate(&[&["rules", "import", "--from", "nginx"], arguments].concat(), input)
}

#[test]
fn a_configuration_becomes_a_policy_as_people_write_it() {
    let ran = import(&["-"], SHOP);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let expected = "\
rules:
  - rule_id: perip
    description: \"limit_req zone=perip burst=20 nodelay\"
    limit: 10
    window: 1s
    algorithm: gcra
    burst: 21
    identifier_type: ip
    costs:
      /health: 0
  - rule_id: login
    description: \"limit_req zone=login burst=5\"
    limit: 6
    window: 1m
    algorithm: leaky_bucket
    burst: 6
    identifier_type: ip
    applies_to:
      endpoints: [/login]
    replaces: [perip]
";
    assert_eq!(ran.stdout, expected);
    let expected = "\
note: standard input:4:5: rules cannot count by $cookie_session; no rule is made of it
note: perip, login: an IPv6 client counts by its /64, not by its address
note: login: nginx holds early requests back; Tollgate tells how long to wait, and waiting is up to \
the caller. Forward-auth does not wait
1 file, 3 zones, 4 limits, 2 rules
";
    assert_eq!(ran.stderr, expected);
    let linted = tollgate(&["rules", "lint", "--trusted-proxies", "-"], &ran.stdout);
    assert_eq!((linted.code, &*linted.stdout), (0, "1 file: 0 errors, 0 warnings\n"));
}

#[test]
fn programs_get_policy_and_notes_in_one_object() {
    let ran = import(&["--json", "-"], SHOP);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 1), "{}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(answer["policy"]["rules"][1]["rule_id"], "login");
    let place = json!({
        "limit": null, "file": "standard input", "line": 4, "column": 5, "code": "variable",
        "message": "rules cannot count by $cookie_session; no rule is made of it",
    });
    assert_eq!(answer["notes"][0], place);
    assert_eq!(answer["notes"][1]["limit"], "perip");
    assert_eq!(answer["notes"][1].get("line"), None);
}

#[test]
fn included_files_are_read_as_nginx_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let top = write(
        folder.path(),
        "nginx.conf",
        "http { include zones.conf; include sites/*.conf; include nothing/*; include missing; }",
    );
    write(
        folder.path(),
        "zones.conf",
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/s; limit_req_status 429;",
    );
    // Relative to the folder of the top file, wherever the including file is.
    write(
        folder.path(),
        "sites/b.conf",
        "server { server_name b.example; include parts/limit.conf; }",
    );
    write(
        folder.path(),
        "sites/a.conf",
        b"# caf\xe9\nserver { server_name a.example; include parts/limit.conf; }",
    );
    write(folder.path(), "parts/limit.conf", "limit_req zone=z;");
    write(folder.path(), "sites/.hidden.conf", "rubbish");
    write(folder.path(), "sites/c.conf~", "rubbish");
    for given in [&*top, folder.path().to_str().expect("a path")] {
        let ran = import(&[given], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("hosts: [a.example, b.example]"), "{}", ran.stdout);
        let notes: Vec<&str> = ran.stderr.lines().collect();
        let missing = notes.iter().find(|note| note.contains("is included")).expect("a note");
        let place =
            format!("note: {top}:1:69: \"missing\" is included, and nothing is known of it");
        assert!(missing.starts_with(&place), "{missing}");
        assert_eq!(notes.last(), Some(&"5 files, 1 zone, 2 limits, 1 rule"));
    }
    // Without a file that includes the rest, all files are read, relative to another folder.
    let sites = folder.path().join("sites");
    let ran = import(&[sites.to_str().expect("a path")], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.ends_with("\n2 files, 0 zones, 0 limits, 0 rules\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\"parts/limit.conf\" is included"), "{}", ran.stderr);
}

#[test]
fn problems_are_shown_in_the_file_they_are_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let top = write(folder.path(), "nginx.conf", "include inner.conf;\ninclude nginx.conf;\n");
    let inner = write(folder.path(), "inner.conf", "server {\n    limit_req zone=z burst=0;\n}\n");
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let binary = write(folder.path(), "binary.conf", [b'a', 0, b'b']);
    let deep = write(folder.path(), "deep.conf", "a {".repeat(350_000));
    let empty = empty.to_str().expect("a path");
    let at_inner = format!("{inner}:2:22");
    let cases: &[(&str, &[&str])] = &[
        (
            &top,
            &[
                "tollgate: the files cannot be used: ",
                "error: \"burst=0\" is not valid",
                &at_inner,
                "2 |     limit_req zone=z burst=0;\n  |                      ^",
                "= help: write burst=5, a whole number from 1 on",
                "files include each other more than 16 deep",
            ],
        ),
        ("missing.conf", &["cannot read missing.conf"]),
        (empty, &["there is no .conf file in", "empty"]),
        (&binary, &["there is a NUL character here", "binary.conf:1:2"]),
        (&deep, &["blocks are nested deeper than 64 levels", "deep.conf:1:195"]),
    ];
    for (file, expected) in cases {
        let ran = import(&[file], "");
        assert_eq!((ran.code, &*ran.stdout), (2, ""), "{file}: {}", ran.stderr);
        for text in *expected {
            assert!(ran.stderr.contains(text), "{file}: no {text:?} in\n{}", ran.stderr);
        }
    }
}

#[test]
fn a_configuration_without_limits_is_an_empty_policy() {
    let ran = import(&["-"], "events {}\nhttp { server { listen 80; } }");
    assert_eq!(
        (ran.code, &*ran.stdout, &*ran.stderr),
        (0, "{}\n", "1 file, 0 zones, 0 limits, 0 rules\n")
    );
}
